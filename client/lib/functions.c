/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Interns by name and file; frames and symbols find the way there only once each. */

#include "functions.h"

#include <inttypes.h>
#include <string.h>

#include "symbolizer.h"

const char *path_base_name(const char *path) {
        const char *slash = strrchr(path, '/');

        return slash && slash[1] ? slash + 1 : path;
}

/* Takes name in any case. */
static int intern(Functions *functions, char *name, const char *file, const FunctionPlace *place, uint32_t *ret) {
        _cleanup_free_ char *owned = name, *both = NULL;
        TableKey key;
        uint64_t found;
        int n, r;

        if (!name)
                return -ENOMEM;
        n = asprintf(&both, "%c%c%s\n%s", place->kernel ? 'k' : 'u', place->inlined ? 'i' : 'c', file, name);
        if (n < 0) {
                both = NULL;
                return -ENOMEM;
        }
        r = table_string_key(&functions->by_name, both, n, &key);
        if (r < 0)
                return r;
        found = table_get(&functions->by_name, key);
        if (found == 0) {
                if (functions->n == functions->allocated) {
                        size_t allocated = MAX(functions->allocated * 2, (size_t) 256);
                        Function *items = reallocarray(functions->items, allocated, sizeof(Function));

                        if (!items)
                                return -ENOMEM;
                        functions->items = items;
                        functions->allocated = allocated;
                }
                found = functions->n + 1;
                r = table_put(&functions->by_name, key, found);
                if (r < 0)
                        return r;
                functions->items[functions->n++] = (Function){ TAKE_PTR(owned), file, place->kernel, place->inlined };
        }
        *ret = found - 1;
        return 0;
}

/* Is it nothing but such words, each with a number or without? */
static bool is_parts(const char *suffix) {
        static const char *const words[] = { "cold", "part", "constprop", "isra", "lto_priv", "localalias", "hot", "unlikely" };

        while (*suffix == '.') {
                size_t i = 0, len = strcspn(++suffix, ".");

                while (i < ELEMENTSOF(words) && (strlen(words[i]) != len || strncmp(words[i], suffix, len) != 0))
                        i++;
                if (i == ELEMENTSOF(words))
                        return false;
                suffix += len;
                len = strspn(suffix + (*suffix == '.'), "0123456789");
                if (*suffix == '.' && len > 0)
                        suffix += 1 + len;
        }
        return *suffix == 0;
}

size_t function_name_fold(const char *name) {
        size_t len = strlen(name);

        for (const char *dot = strchr(name, '.'); dot; dot = strchr(dot + 1, '.'))
                if (dot > name && is_parts(dot))
                        return (size_t) (dot - name);
        return len;
}

char *function_unnamed(const char *path, uint64_t address) {
        const char *file = path_base_name(path);
        char *name;

        return asprintf(&name, "%s+0x%" PRIx64, *file ? file : "[unknown]", address) < 0 ? NULL : name;
}

int function_name(const char *symbol, bool folded, char **ret) {
        _cleanup_free_ char *whole = NULL;

        if (folded) {
                symbol = whole = strndup(symbol, function_name_fold(symbol));
                if (!symbol)
                        return -ENOMEM;
        }
        return symbol_demangle(symbol, ret);
}

int functions_find(Functions *functions, TableKey key, const FunctionPlace *place, uint32_t *ret) {
        const char *file = path_base_name(place->path);
        uint64_t found;
        char *name;
        int r;

        if (!place->symbol || place->symbol[0] == 0)
                return intern(functions, function_unnamed(place->path, place->address), file, place, ret);
        found = table_get(&functions->by_symbol, key);
        if (found > 0) {
                *ret = found - 1;
                return 0;
        }
        r = function_name(place->symbol, place->folded, &name);
        if (r < 0)
                return r;
        r = intern(functions, name, file, place, ret);
        return r < 0 ? r : table_put(&functions->by_symbol, key, *ret + 1);
}

static int look_up(Functions *functions, const Snapshot *snapshot, uint32_t frame, uint32_t *ret) {
        const SnapshotFrame *f = &snapshot->frames[frame];
        const FunctionPlace place = {
                .symbol = frame == 0 ? FUNCTION_NO_STACK : f->symbol > 0 ? snapshot->symbols[f->symbol] : NULL,
                .path = f->file > 0 ? snapshot->files[f->file].path : "",
                .address = f->address,
                .kernel = f->kernel,
                .inlined = f->inlined,
                .folded = snapshot->folded,
        };

        return functions_find(functions, (TableKey){ f->symbol, f->file, f->kernel | f->inlined << 1 }, &place, ret);
}

int functions_get(Functions *functions, const Snapshot *snapshot, uint32_t frame, uint32_t *ret) {
        int r;

        if (!functions->by_frame) {
                functions->by_frame = calloc(snapshot->n_frames, sizeof(uint32_t));
                if (!functions->by_frame)
                        return -ENOMEM;
        }
        if (functions->by_frame[frame] == 0) {
                r = look_up(functions, snapshot, frame, ret);
                if (r < 0)
                        return r;
                functions->by_frame[frame] = *ret + 1;
        }
        *ret = functions->by_frame[frame] - 1;
        return 0;
}

void functions_done(Functions *functions) {
        for (size_t i = 0; i < functions->n; i++)
                free(functions->items[i].name);
        free(functions->items);
        free(functions->by_frame);
        table_done(&functions->by_name);
        table_done(&functions->by_symbol);
        *functions = (Functions){};
}
