/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * C++ and Rust names by libiberty, whose recursion limit stays on (it also leaves mangled names of
 * more than 1,024 bytes alone). What recursion does not bound is the length of the result: a short name whose
 * parts refer to each other may double with every letter. So the pieces are taken by callback, and
 * past the limit the callback jumps out, as there is no other way to make it stop.
 *
 * Parameters are left out: reports are about functions, and perf shows them the same way.
 */

#include "symbolizer.h"

#include <libiberty/demangle.h>
#include <setjmp.h>
#include <string.h>

#include "util.h"

#define INPUT_MAX 4096U
#define OUTPUT_MAX 16384U
/* The worst name with so many takes some milliseconds, and each two more double that. */
#define PACK_REFERENCES_MAX 32

typedef int (*DemangleFunc)(const char *name, int options, demangle_callbackref callback, void *userdata);

typedef struct Output {
        char *text; /* OUTPUT_MAX bytes */
        size_t len;
        jmp_buf *too_long;
} Output;

static void append(const char *piece, size_t len, void *userdata) {
        Output *output = userdata;

        if (len >= OUTPUT_MAX - output->len)
                longjmp(*output->too_long, 1);
        memcpy(output->text + output->len, piece, len);
        output->len += len;
}

/*
 * Nothing here owns memory when the jump comes, but for the letters of one Rust identifier in
 * punycode: these are lost, a few kilobytes at most for a name made to provoke it.
 */
static bool demangle_with(DemangleFunc func, const char *name, Output *output) {
        jmp_buf too_long;

        output->len = 0;
        output->too_long = &too_long;
        if (setjmp(too_long) != 0)
                return false;
        if (!func(name, DMGL_ANSI, append, output) || output->len == 0)
                return false;
        output->text[output->len] = 0;
        return true;
}

static int copy_name(const char *name, char **ret_name) {
        char *copy = strdup(name);

        if (!copy)
                return -ENOMEM;
        *ret_name = copy;
        return 0;
}

/*
 * Where an argument pack is expanded, libiberty looks for it in all that the pattern refers to, before it prints
 * anything: as often as a part is referred to it is searched, and the parts in that, so that there is no end to some
 * names of 500 letters. So those with many references (S_, S0_, ...) stay as they are.
 */
static bool pack_takes_long(const char *name) {
        unsigned references = 0;

        for (const char *p = name; *p; p++)
                references += p[0] == 'S' && (p[1] == '_' || (p[1] >= '0' && p[1] <= '9') || (p[1] >= 'A' && p[1] <= 'Z'));
        return references > PACK_REFERENCES_MAX && (strstr(name, "Dp") || strstr(name, "sZ") || strstr(name, "sP") ||
                                                    strstr(name, "sp"));
}

/* ".constprop.0", ".cold" and their like are the compiler's and not part of the mangling. */
static int demangle_cplus(const char *name, Output *output, char **ret_name) {
        const char *suffix = strchr(name, '.');
        _cleanup_free_ char *prefix = NULL;
        char *result;

        prefix = suffix ? strndup(name, (size_t) (suffix - name)) : strdup(name);
        if (!prefix)
                return -ENOMEM;
        if (!demangle_with(cplus_demangle_v3_callback, prefix, output))
                return 0;
        if (asprintf(&result, "%s%s", output->text, suffix ? suffix : "") < 0)
                return -ENOMEM;
        *ret_name = result;
        return 1;
}

static int demangle(const char *name, char **ret_name) {
        char text[OUTPUT_MAX];
        Output output = { .text = text };
        int r;

        if (name[0] != '_' || strnlen(name, INPUT_MAX) == INPUT_MAX || pack_takes_long(name))
                return copy_name(name, ret_name);
        /* First: its legacy form is a valid C++ name as well, with a hash at the end. */
        if (demangle_with(rust_demangle_callback, name, &output))
                return copy_name(text, ret_name);
        r = demangle_cplus(name, &output, ret_name);
        if (r != 0)
                return r < 0 ? r : 0;
        return copy_name(name, ret_name);
}

/* "@plt" is what elf-plt.c has put behind the name of what a stub calls. */
int symbol_demangle(const char *name, char **ret_name) {
        static const char plt[] = "@plt";
        _cleanup_free_ char *called = NULL, *demangled = NULL;
        size_t len = strnlen(name, INPUT_MAX), n = sizeof(plt) - 1;
        int r;

        if (name[0] != '_' || len == INPUT_MAX || len < n || memcmp(name + len - n, plt, n) != 0)
                return demangle(name, ret_name);
        called = strndup(name, len - n);
        if (!called)
                return -ENOMEM;
        r = demangle(called, &demangled);
        if (r < 0)
                return r;
        return asprintf(ret_name, "%s%s", demangled, plt) < 0 ? -ENOMEM : 0;
}
