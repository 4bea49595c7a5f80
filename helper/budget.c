/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "budget.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/sysinfo.h>

#include "grant.h"
#include "util.h"

static uint64_t read_max_sample_rate(void) {
        _cleanup_fclose_ FILE *f = fopen("/proc/sys/kernel/perf_event_max_sample_rate", "re");
        uint64_t rate;

        /* The kernel's default where the knob is hidden. */
        return f && fscanf(f, "%" SCNu64, &rate) == 1 && rate > 0 ? rate : 100000;
}

void budget_init(Budget *budget) {
        struct sysinfo info;
        uint64_t ram = sysinfo(&info) == 0 ? (uint64_t) info.totalram * info.mem_unit : 0;

        *budget = (Budget){
                .n_cpus = get_nprocs_conf(), .memory_max = MIN(BUDGET_MEMORY_MAX, ram / 16),
                .rate_max = read_max_sample_rate() / 4,
        };
}

typedef struct Usage {
        unsigned sessions, rings;
        uint64_t wide_rate, system_rate, task_rate, memory;
} Usage;

static void usage_add(Usage *usage, const Charge *c) {
        usage->memory += c->memory;
        usage->rings++;
        if (c->ended)
                return;
        usage->sessions++;
        *(!c->wide ? &usage->task_rate : c->system ? &usage->system_rate : &usage->wide_rate) += c->rate;
}

/* True where it is over; the text then names the budget and what would fit. */
static bool over(uint64_t used, uint64_t wanted, uint64_t limit, const char *what, const char *unit, char *text,
                 size_t size) {
        if (used <= limit && wanted <= limit - used)
                return false;
        snprintf(text, size, "%s: %" PRIu64 " %s wanted, %" PRIu64 " of %" PRIu64 " left", what, wanted, unit,
                 used < limit ? limit - used : 0, limit);
        return true;
}

static bool over_rate(const Usage *user, const Usage *machine, const Charge *wanted, char *text, size_t size) {
        const uint64_t rate = wanted->rate;

        if (!wanted->wide)
                return over(user->task_rate, rate, BUDGET_TASK_RATE_USER, "rate of one user", "Hz", text, size);
        if (wanted->system)
                return over(machine->system_rate, rate, BUDGET_SYSTEM_RATE, "rate of sessions of everybody's processes",
                            "Hz", text, size);
        return over(user->wide_rate, rate, BUDGET_WIDE_RATE_USER, "rate of one user without targets", "Hz", text, size) ||
               over(machine->wide_rate, rate, BUDGET_WIDE_RATE, "rate of all users without targets", "Hz", text, size);
}

int budget_charge(Budget *budget, uint32_t id, const struct rs_grant *grant, char *ret_text, size_t size) {
        Usage user = {}, machine = {};
        Charge *slot = NULL;
        Charge wanted = {
                .id = id, .uid = grant->uid,
                .wide = !(grant->grants & RS_GRANT_TARGETS), .system = grant->grants & RS_GRANT_SYSTEM,
                .rate = grant_rate(grant), .memory = grant_memory(grant, budget->n_cpus),
        };

        for (size_t i = 0; i < ELEMENTSOF(budget->charges); i++) {
                const Charge *c = &budget->charges[i];

                if (c->id == 0) {
                        slot = slot ?: &budget->charges[i];
                        continue;
                }
                usage_add(&machine, c);
                if (c->uid == grant->uid)
                        usage_add(&user, c);
        }
        if (over(user.sessions, 1, BUDGET_SESSIONS_USER, "sessions of one user", "more", ret_text, size) ||
            over(user.rings, 1, BUDGET_RINGS_USER, "rings of one user, still mapped after their session", "more", ret_text,
                 size) ||
            over(machine.sessions, 1, BUDGET_SESSIONS_MAX, "sessions on this machine", "more", ret_text, size) ||
            over(0, wanted.rate, budget->rate_max, "rate of one session", "Hz", ret_text, size) ||
            over_rate(&user, &machine, &wanted, ret_text, size) ||
            over(user.memory, wanted.memory, BUDGET_MEMORY_USER, "memory of one user's sessions", "bytes", ret_text,
                 size) ||
            over(machine.memory, wanted.memory, budget->memory_max, "memory of all sessions", "bytes", ret_text, size))
                return -EDQUOT;
        if (!slot) {
                snprintf(ret_text, size, "sessions on this machine: too many rings of ended sessions are still mapped");
                return -EDQUOT;
        }
        *slot = wanted; /* with id 0 it stays free */
        return 0;
}

uint64_t budget_take(uint64_t *due, uint64_t now, unsigned at_once, uint64_t each, bool take) {
        const uint64_t next = MAX(*due, now) + each, latest = now + at_once * each;

        if (next > latest)
                return next - latest;
        if (take)
                *due = next;
        return 0;
}

#define OPEN_USEC (60 * 1000000ULL / BUDGET_OPENS_MINUTE)

/* Where there is no room, whoever has opened least is forgotten. */
Opener *budget_find_opener(Opener *openers, uint32_t uid, uint64_t now) {
        Opener *o = &openers[0];

        for (size_t i = 0; i < BUDGET_SESSIONS_MAX; i++) {
                Opener *other = &openers[i];

                if (other->uid == uid && other->due > now)
                        return other;
                if (other->due < o->due)
                        o = other;
        }
        *o = (Opener){.uid = uid, .due = now};
        return o;
}

uint64_t budget_open(Budget *budget, uint32_t uid, uint64_t now, bool take) {
        return budget_take(&budget_find_opener(budget->openers, uid, now)->due, now, BUDGET_OPENS_USER, OPEN_USEC, take);
}

static Charge *budget_find(Budget *budget, uint32_t id) {
        for (size_t i = 0; id != 0 && i < ELEMENTSOF(budget->charges); i++)
                if (budget->charges[i].id == id)
                        return &budget->charges[i];
        return NULL;
}

void budget_end(Budget *budget, uint32_t id, unsigned waits, uint64_t now) {
        Charge *c = budget_find(budget, id);

        if (!c)
                return;
        c->ended = true;
        budget_find_opener(budget->openers, c->uid, now)->due += waits * OPEN_USEC;
}

void budget_release(Budget *budget, uint32_t id) {
        Charge *c = budget_find(budget, id);

        if (c)
                *c = (Charge){};
}

unsigned budget_count(const Budget *budget) {
        unsigned n = 0;

        for (size_t i = 0; i < ELEMENTSOF(budget->charges); i++)
                n += budget->charges[i].id != 0 && !budget->charges[i].ended;
        return n;
}

bool budget_has_ended(const Budget *budget) {
        for (size_t i = 0; i < ELEMENTSOF(budget->charges); i++)
                if (budget->charges[i].ended)
                        return true;
        return false;
}

/* Only in direct mode, and nobody's budget, are numbers with the highest bit (keeper.c). */
static void budget_inherit(Budget *budget, const struct rs_map_info *map) {
        Charge *c = budget_find(budget, map->id);

        for (size_t i = 0; !c && i < ELEMENTSOF(budget->charges); i++)
                if (budget->charges[i].id == 0) {
                        c = &budget->charges[i];
                        *c = (Charge){.id = map->id, .uid = map->uid, .ended = true, .inherited = true};
                }
        if (c && c->inherited)
                c->memory += map->size;
}

void budget_take_maps(Budget *budget, const struct rs_map_info *maps, size_t n, bool inherit) {
        for (size_t i = 0; i < ELEMENTSOF(budget->charges); i++) {
                Charge *c = &budget->charges[i];
                bool alive = !c->ended;

                for (size_t m = 0; m < n && !alive; m++)
                        alive = maps[m].id == c->id;
                if (!alive)
                        *c = (Charge){};
        }
        for (size_t m = 0; inherit && m < n; m++)
                if (!maps[m].in_use && maps[m].id != 0 && maps[m].id <= INT32_MAX)
                        budget_inherit(budget, &maps[m]);
}
