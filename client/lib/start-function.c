/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * By name; and in a stripped libc, where the two that matter are local and have none, by the exported
 * function they are placed before: glibc defines __libc_start_call_main right before
 * __libc_start_main, and start_thread before pthread_create, each in the same source file.
 */

#include "start-function.h"

#include <string.h>

#include "util.h"

/* How far before the exported function: start_thread has some 0x490 bytes, the other 0xb0. */
static const struct {
        const char *name;
        uint64_t distance;
} exported_neighbours[] = {
        { "__libc_start_main", 0xb0 },
        { "pthread_create", 0x480 },
        { "__pthread_create", 0x480 },
};

static bool has_prefix(const char *s, const char *prefix) {
        return strncmp(s, prefix, strlen(prefix)) == 0;
}

static bool name_is_start(const char *name, bool interrupted) {
        static const char *const names[] = {
                "_start", "__libc_start_call_main", "start_thread", "thread_start", "_dl_start_user",
        };
        static const char *const cloners[] = { "clone", "__clone", "clone3", "__clone3" };

        if (name[0] == '_' && name[1] == 'Z') /* most names of a program in C++, and none of these */
                return false;
        for (size_t i = 0; i < ELEMENTSOF(names); i++)
                if (strcmp(name, names[i]) == 0)
                        return true;
        if (has_prefix(name, "__libc_start_main"))
                return true;
        /* A thread that is in clone() is more often the parent, which does have callers. */
        for (size_t i = 0; i < ELEMENTSOF(cloners) && !interrupted; i++)
                if (strcmp(name, cloners[i]) == 0)
                        return true;
        return false;
}

static bool file_is_libc(const char *path) {
        const char *base = strrchr(path, '/');

        base = base ? base + 1 : path;
        return has_prefix(base, "libc.so.") || has_prefix(base, "libc-") || has_prefix(base, "libpthread");
}

/* The symbol that comes next, if it begins within max bytes. Symbols are aligned to 16 in libc. */
static bool next_symbol_is(AddressSpace *space, uint64_t address, const MappedFile *file, const char *prefix,
                           uint64_t max) {
        for (uint64_t at = (address | 15) + 1; at - address <= max; at += 16) {
                Resolved next;

                if (address_space_resolve(space, at, /* return_address= */ false, &next) < 0 || next.file != file)
                        return false;
                if (next.name)
                        return next.name_offset == 0 && has_prefix(next.name, prefix);
        }
        return false;
}

bool start_function_is(AddressSpace *space, uint64_t address, const Resolved *resolved, bool interrupted) {
        if (resolved->name)
                return name_is_start(resolved->name, interrupted);
        if (!file_is_libc(resolved->file->path))
                return false;
        for (size_t i = 0; i < ELEMENTSOF(exported_neighbours); i++)
                if (next_symbol_is(space, address, resolved->file, exported_neighbours[i].name,
                                   exported_neighbours[i].distance))
                        return true;
        return false;
}
