/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "jit-inherited.h"

/* Generations, each with names of its own: those after have what was known till then. */
#define DEPTH_MAX 16

struct InheritedNames {
        unsigned n_refs, depth;
        JitDump *dump;
        MapsLine mapped; /* without its path */
        PerfMap *map;
        bool map_is_read, failed; /* failed: of the dump there is no more to be read */
        bool map_refused;         /* which is still to be told */
        uint64_t until;
        InheritedNames *older;
};

int inherited_names_new(InheritedNames **ret, const InheritedSource *source, InheritedNames *older) {
        InheritedNames *names;

        if (older && older->depth == DEPTH_MAX) {
                *ret = inherited_names_ref(older);
                return 0;
        }
        names = calloc(1, sizeof(*names));
        if (!names)
                return -ENOMEM;
        *names = (InheritedNames){
                .n_refs = 1,
                .depth = older ? older->depth + 1 : 1,
                .dump = source->dump ? jitdump_ref(source->dump) : NULL,
                .map = source->map ? perf_map_ref(source->map) : NULL,
                .until = source->until,
                .older = older ? inherited_names_ref(older) : NULL,
        };
        if (source->mapped) {
                names->mapped = *source->mapped;
                names->mapped.path = NULL;
        }
        *ret = names;
        return 0;
}

InheritedNames *inherited_names_ref(InheritedNames *names) {
        names->n_refs++;
        return names;
}

InheritedNames *inherited_names_unref(InheritedNames *names) {
        while (names && --names->n_refs == 0) {
                InheritedNames *older = names->older;

                jitdump_free(names->dump);
                perf_map_free(names->map);
                free(names);
                names = older;
        }
        return NULL;
}

bool inherited_names_has(const InheritedNames *names, const MapsLine *line) {
        for (; names; names = names->older)
                if (names->dump && names->mapped.inode == line->inode && names->mapped.dev_major == line->dev_major &&
                    names->mapped.dev_minor == line->dev_minor)
                        return true;
        return false;
}

static bool is_told(const InheritedNames *names) {
        return !names->dump || names->failed || jit_code_get_last_time(jitdump_get_code(names->dump)) >= names->until;
}

/* Others may have read on; so the dump's end is all that it is told by. */
int inherited_names_update(InheritedNames *names, const JitClock *clock, uint64_t deadline, unsigned *ret_refused) {
        *ret_refused = 0;
        for (; names; names = names->older) {
                int r = is_told(names) ? 0 : jitdump_update(names->dump, clock, deadline);

                if (r == -ENOMEM)
                        return r;
                names->failed = names->failed || r < 0;
                *ret_refused += (r == -EBADMSG || r == -EFBIG) + (unsigned) names->map_refused;
                names->map_refused = false;
        }
        return 0;
}

uint64_t inherited_names_get_generation(const InheritedNames *names) {
        uint64_t sum = 0;

        for (; names; names = names->older)
                sum += names->dump ? jitdump_get_generation(names->dump) : 0;
        return sum;
}

bool inherited_names_have_more(const InheritedNames *names) {
        while (names && (is_told(names) || !jitdump_has_more(names->dump)))
                names = names->older;
        return names;
}

bool inherited_names_are_told(const InheritedNames *names) {
        while (names && is_told(names))
                names = names->older;
        return !names;
}

/* What it had written when it forked is read once. */
static int read_map(InheritedNames *names) {
        int r = names->map && !names->map_is_read ? perf_map_update(names->map) : 0;

        names->map_is_read = r != -ENOMEM;
        names->map_refused |= r == -EFBIG;
        return r == -ENOMEM ? r : 0;
}

int inherited_names_find(InheritedNames *names, uint64_t address, const char **ret, uint64_t *ret_offset) {
        const char *name = NULL;
        int r;

        for (; names && !name; names = names->older) {
                if (names->dump)
                        name = jit_code_find(jitdump_get_code(names->dump), address, names->until, ret_offset);
                if (name)
                        break;
                r = read_map(names);
                if (r < 0)
                        return r;
                if (names->map)
                        name = perf_map_find(names->map, address, ret_offset);
        }
        *ret = name;
        return 0;
}
