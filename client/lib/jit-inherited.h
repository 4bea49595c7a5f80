/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Names of code that a process has from those it was forked from, as they were when it was: what its parent's JIT
 * makes later is not in it, though the file that tells of both is the same. A list, the parent's own first. What comes after
 * that is the parent's list, which is shared; and so is what was read of a dump.
 */

#include "jitdump.h"
#include "maps.h"
#include "perf-map.h"

typedef struct InheritedNames InheritedNames;

typedef struct InheritedSource {
        JitDump *dump;          /* shared; NULL: none */
        const MapsLine *mapped; /* where, for inherited_names_has() */
        PerfMap *map;           /* shared, too; NULL: none */
        uint64_t until;         /* when it was forked, ns CLOCK_BOOTTIME */
} InheritedSource;

/* In front of older, which may be NULL; nothing of either becomes the list's but a reference. */
int inherited_names_new(InheritedNames **ret, const InheritedSource *source, InheritedNames *older);
InheritedNames *inherited_names_ref(InheritedNames *names);
InheritedNames *inherited_names_unref(InheritedNames *names);
DEFINE_CLEANUP(InheritedNames, inherited_names_unref)

/* Whether the dump that is mapped there is among them. */
bool inherited_names_has(const InheritedNames *names, const MapsLine *line);
/*
 * Reads what dumps have not told yet of the time until the fork, with the deadline of jitdump_update(). 0 or -ENOMEM.
 * *ret_refused: that many files were given up on, since then.
 */
int inherited_names_update(InheritedNames *names, const JitClock *clock, uint64_t deadline, unsigned *ret_refused);
/* Of all dumps together, as jitdump_get_generation(): it only grows. */
uint64_t inherited_names_get_generation(const InheritedNames *names);
/* Whether the last one left some that was there. */
bool inherited_names_have_more(const InheritedNames *names);
/* Whether dumps have told of all that time. */
bool inherited_names_are_told(const InheritedNames *names);
/* *ret NULL: there is none. 0 or -ENOMEM. */
int inherited_names_find(InheritedNames *names, uint64_t address, const char **ret, uint64_t *ret_offset);
