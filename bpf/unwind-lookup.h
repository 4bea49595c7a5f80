/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once

/*
 * From a process and an address to the rule by which a frame is left (unwind-table.h), in the memory that the
 * client writes.
 *
 * All of it is hostile, and may change while it is read. So each place is masked to the memory's size, by an
 * instruction that no compiler leaves out, before it is looked up: a bound that is only tested does not bind
 * a processor that speculates. What is read is copied, once, and then used. Searches have no branches that
 * depend on what they read, which besides keeps the verifier from following each of their paths.
 */

#include "control.h"
#include "kernel.h"
#include "mapping.h"
#include "repeat.h"
#include "rule.h"
#include "walk.h"

/* Set before the programs are loaded. */
const volatile __u64 table_mask = 0; /* over chunks: their number less one */
/*
 * Yama lets nobody trace but an administrator: as much as tables choose to be read is then for whom the
 * client has started.
 */
const volatile bool tables_of_children_only = false;

/* Set once, at HELLO: the client's process, by number in the initial pid namespace, and when it began. */
__u32 client_tgid = 0;
__u64 client_start = 0;

struct table_chunk {
        __u64 words[RS_TABLE_CHUNK / sizeof(__u64)];
};

struct {
        __uint(type, BPF_MAP_TYPE_ARRAY);
        __uint(map_flags, BPF_F_MMAPABLE);
        __uint(max_entries, 1);
        __type(key, __u32);
        __type(value, struct table_chunk);
} rs_tables SEC(".maps");

/* What is at a place of so many bytes, a power of two that the place is a multiple of, or is made one. */
static __always_inline const volatile void *table_at(__u64 place, __u32 size) {
        __u64 chunk = place / RS_TABLE_CHUNK, mask = table_mask;
        const volatile char *found;
        __u32 key;

        asm volatile("%0 &= %1" : "+r"(chunk) : "r"(mask));
        key = chunk;
        found = bpf_map_lookup_elem(&rs_tables, &key);
        return found ? found + (place & (RS_TABLE_CHUNK - size)) : 0;
}

/*
 * 1 where a < b, else 0, for what is below 1 << 63: as a number, for the compiler makes a branch of a
 * comparison. (A mask of all ones or none would save what is multiplied below, but Linux 6.18 looks at each
 * of such a one's values.)
 */
static __always_inline __u64 is_below(__u64 a, __u64 b) {
        __u64 d = a - b;

        asm volatile("" : "+r"(d));
        d >>= 63;
        asm volatile("" : "+r"(d));
        return d;
}

/* ---- whose tables ---- */

#define NO_PLACE (~0ULL)

/* The slot of a process that has a list. */
__noinline __u64 table_find_process(__u32 pid, __u64 start) {
        __u32 slot = rs_table_slot(pid, start);

        if (!has_tables)
                return NO_PLACE;
        for (__u32 i = 0; i < RS_TABLE_PROBES; i++) {
                __u64 place = ((slot + i) & (RS_TABLE_PROCESSES - 1)) * sizeof(struct rs_table_process);
                const volatile struct rs_table_process *p = table_at(place, sizeof(*p));

                if (p && p->list != 0 && p->start == start && p->pid == pid)
                        return place;
        }
        return NO_PLACE;
}

/* It runs another program, whose mappings the client has yet to look at. */
static __always_inline void table_forget_process(__u32 pid, __u64 start) {
        volatile struct rs_table_process *p;
        __u64 place;

        if (!has_tables)
                return;
        place = table_find_process(pid, start);
        p = place == NO_PLACE ? 0 : (volatile struct rs_table_process *) table_at(place, sizeof(*p));
        if (p)
                p->list = 0;
}

/*
 * The slot of whom it was made from, as long as both run what they ran then: nobody has had time to look at a
 * child that executes something, or is of vfork(), and its mappings are those of its parent.
 */
__noinline __u64 table_find_parent(__u64 address) {
        struct task_struct *task = (void *) address, *parent, *leader;
        __u64 own, born, theirs, start;
        __u32 pid;

        if (READ_FAILS(parent, task->real_parent) || !parent || READ_FAILS(own, task->self_exec_id) ||
            READ_FAILS(born, task->parent_exec_id) || READ_FAILS(theirs, parent->self_exec_id) || own != theirs ||
            own != born || READ_FAILS(leader, parent->group_leader) || !leader || READ_FAILS(start, leader->start_boottime))
                return NO_PLACE;
        pid = rule_admits((__u64) parent) >> 32;
        return pid == 0 ? NO_PLACE : table_find_process(pid, start);
}

/* False: there are none yet. */
static __always_inline bool unwind_find_list(struct unwind *u, struct task_struct *task, __u32 pid, __u64 start) {
        __u64 place = table_find_process(pid, start), list;
        const volatile struct rs_table_process *p;

        if (place == NO_PLACE)
                place = table_find_parent(address_of(task));
        p = place == NO_PLACE ? 0 : table_at(place, sizeof(*p));
        if (!p)
                return false;
        list = p->list;
        u->key = mapped_mix(mapped_mix(u->key, list), p->generation);
        u->list = (list >> 32) * sizeof(struct rs_table_mapping);
        u->n_list = list & RS_TABLE_MAPPINGS_MAX;
        u->by_fp = list & RS_TABLE_FRAME_POINTERS;
        return list != 0;
}

struct ancestor_search {
        __u64 task;
        bool found;
};

#define ANCESTORS_MAX 64

static long ancestor_turn(__u32 i, void *context) {
        struct ancestor_search *search = context;
        struct task_struct *task = (void *) search->task, *parent, *leader;
        __u64 start;
        __u32 tgid;

        if (READ_FAILS(tgid, task->tgid) || READ_FAILS(leader, task->group_leader) || !leader ||
            READ_FAILS(start, leader->start_boottime))
                return TURN_IS_LAST;
        search->found = tgid != 0 && tgid == client_tgid && start == client_start;
        if (search->found || READ_FAILS(parent, task->real_parent) || !parent || parent == task)
                return TURN_IS_LAST;
        search->task = (__u64) parent;
        return TURN_GOES_ON;
}

__noinline int unwind_is_of_client(__u64 address) {
        struct ancestor_search search = {.task = address};

        repeat(ANCESTORS_MAX, ancestor_turn, &search);
        return search.found;
}

/*
 * Whether tables may choose what is read of it. In a session that sees everybody that is more than the client
 * may: of all but its own only what frame pointers lead to.
 */
static __always_inline bool unwind_may(struct task_struct *task) {
        return has_tables && (!sees_everybody || rule_may_read(address_of(task))) &&
               (!tables_of_children_only || unwind_is_of_client(address_of(task)));
}

/* ---- from an address to its rule ---- */

/* Of u->lookup, to u->mapping; false where there is none. */
__noinline int unwind_find_mapping(void) {
        struct scratch *s = scratch_get();
        const volatile struct rs_table_mapping *m;
        __u64 n, at = 0, address;
        struct unwind *u;

        if (!has_tables || !s)
                return false;
        u = &s->unwind;
        n = u->n_list & RS_TABLE_MAPPINGS_MAX;
        address = u->lookup;
        /* at: how many are known to begin at or below. */
#pragma unroll
        for (__u32 step = (RS_TABLE_MAPPINGS_MAX + 1) / 2; step > 0; step /= 2) {
                __u64 next = at + step, within;

                if (step > n)
                        continue;
                within = 1 ^ is_below(n, next);
                m = table_at(u->list + (next - 1) * within * sizeof(*m), sizeof(*m));
                if (!m)
                        return false;
                at += step * (within & (1 ^ is_below(address, m->start)));
        }
        m = at == 0 ? 0 : table_at(u->list + (at - 1) * sizeof(*m), sizeof(*m));
        if (!m)
                return false;
        u->mapping.start = m->start;
        u->mapping.end = m->end;
        u->mapping.bias = m->bias;
        u->mapping.pages = m->pages;
        u->mapping.n_pages = m->n_pages;
        return address >= u->mapping.start && address < u->mapping.end;
}

/*
 * What was found in the tables, by address: of a return address its rule, and of RS_TABLE_PAGE bytes of code
 * the page. For what costs is to miss the caches at each place that a search comes by. A plain array, racy on
 * purpose: an entry of which two CPUs wrote half each does not fit its tag. The key is of one list of one
 * process and the program it runs, whose code is at these addresses: that a call stands before one is
 * remembered, too. List and generation are the client's to choose, and all but the process's part of the key
 * is known to it; that is made with the session's secret, so that nobody can find a generation with which two
 * processes have the same key.
 */
struct remembered {
        __u64 tag; /* over the key and all below */
        __u64 what;
        __u64 words[2];
};
_Static_assert(sizeof(struct remembered) == RS_REMEMBERED_SIZE, "charged by the helper");

struct {
        __uint(type, BPF_MAP_TYPE_ARRAY);
        __uint(max_entries, RS_REMEMBERED_SLOTS);
        __type(key, __u32);
        __type(value, struct remembered);
} rs_remembered SEC(".maps");

#define REMEMBERED_PAGE (1ULL << 63) /* above all addresses */

static __always_inline struct remembered *remembered_at(const struct unwind *u, __u64 what) {
        __u32 slot = mapped_mix(u->key, what) >> 40 & (RS_REMEMBERED_SLOTS - 1);

        return bpf_map_lookup_elem(&rs_remembered, &slot);
}

static __always_inline __u64 remembered_tag(const struct unwind *u, __u64 what, const __u64 words[2]) {
        return mapped_mix(mapped_mix(mapped_mix(u->key, what), words[0]), words[1]) | 1;
}

/* What is returned is of use only if it is true. */
static __always_inline bool unwind_recall(const struct unwind *u, __u64 what, __u64 ret_words[2]) {
        const volatile struct remembered *r = remembered_at(u, what);
        __u64 tag;

        if (!r || r->what != what)
                return false;
        tag = r->tag;
        ret_words[0] = r->words[0];
        ret_words[1] = r->words[1];
        return tag == remembered_tag(u, what, ret_words);
}

static __always_inline void unwind_remember(const struct unwind *u, __u64 what, const __u64 words[2]) {
        volatile struct remembered *r = remembered_at(u, what);

        if (!r)
                return;
        r->tag = 0;
        r->what = what;
        r->words[0] = words[0];
        r->words[1] = words[1];
        r->tag = remembered_tag(u, what, words);
}

/* Copies the page that u->lookup is in. Returns UNWIND_GOES_ON, or an enum rs_walk_end. */
__noinline int unwind_find_page(void) {
        struct scratch *s = scratch_get();
        const volatile __u64 *pages;
        __u64 index, what;
        struct unwind *u;

        if (!has_tables || !s)
                return RS_WALK_NO_RULE;
        u = &s->unwind;
        what = (u->lookup & ~(RS_TABLE_PAGE - 1ULL)) | REMEMBERED_PAGE;
        if (unwind_recall(u, what, u->page))
                return UNWIND_GOES_ON;
        if ((u->lookup < u->mapping.start || u->lookup >= u->mapping.end) && !unwind_find_mapping())
                return RS_WALK_NO_MAPPING;
        index = (u->lookup - u->mapping.bias) >> RS_TABLE_PAGE_SHIFT;
        if (index >= u->mapping.n_pages)
                return RS_WALK_NO_RULE;
        pages = table_at((u->mapping.pages + index) * sizeof(*pages), sizeof(*pages));
        if (!pages)
                return RS_WALK_NO_RULE;
        u->page[0] = *pages;
        u->page[1] = 0;
        unwind_remember(u, what, u->page);
        return UNWIND_GOES_ON;
}

#define ROWS_OF_CHUNK (RS_TABLE_CHUNK / sizeof(__u32))

/* The number of the rule for u->lookup in its page, 0: none. */
static __always_inline __u32 unwind_find_row(const struct unwind *u) {
        __u64 first = u->page[0] >> 32, n = u->page[0] & 0xffffffff, low = u->lookup & (RS_TABLE_PAGE - 1), at = 0;
        const volatile __u32 *rows = table_at(first * sizeof(*rows), RS_TABLE_CHUNK);

        if (!rows || n > RS_TABLE_PAGE)
                return 0;
        /* at: how many are known to begin at or below. */
#pragma unroll
        for (__u32 step = RS_TABLE_PAGE; step > 0; step /= 2) {
                __u64 next = at + step, within, row;

                if (step > n)
                        continue;
                within = 1 ^ is_below(n, next);
                row = rows[(first + (next - 1) * within) & (ROWS_OF_CHUNK - 1)] >> RS_TABLE_ROW_SHIFT;
                at += step * (within & (1 ^ is_below(low, row)));
        }
        if (at > 0)
                return rows[(first + at - 1) & (ROWS_OF_CHUNK - 1)] & RS_TABLE_ROW_RULE;
        /* It is of a page before. */
        rows = table_at((first - 1) * sizeof(*rows), sizeof(*rows));
        return rows ? *rows & RS_TABLE_ROW_RULE : 0;
}

/* Copies the rule of the current frame. Returns UNWIND_GOES_ON, or an enum rs_walk_end. */
__noinline int unwind_find_rule(void) {
        struct scratch *s = scratch_get();
        const volatile __u64 *rule;
        struct unwind *u;
        __u32 number;
        int end;

        if (!has_tables || !s)
                return RS_WALK_NO_RULE;
        u = &s->unwind;
        u->lookup = unwind_lookup_pc(&u->state);
        end = unwind_find_page();
        if (end != UNWIND_GOES_ON)
                return end;
        number = unwind_find_row(u);
        if (number == 0)
                return RS_WALK_NO_RULE;
        rule = table_at(RS_TABLE_RULES_AT + (__u64) (number & (RS_TABLE_RULES - 1)) * sizeof(struct rs_table_rule),
                        sizeof(struct rs_table_rule));
        if (!rule)
                return RS_WALK_NO_RULE;
        u->rule_words[0] = rule[0];
        u->rule_words[1] = rule[1];
        return UNWIND_GOES_ON;
}
