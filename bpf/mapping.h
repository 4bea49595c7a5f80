/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once

/*
 * Tells of the mappings that samples lie in, once each, so that a process that is gone before anybody can
 * read its maps has names. A sampler asks for its leaf and, where the stack is a new one or the address space
 * has changed, for each frame: is this address in a mapping that was told of? For one that is not,
 * bpf_find_vma() is asked, at most once for each sample, since its lock is given back by an irq_work of which
 * a CPU has one; the stack's next samples ask for the others.
 *
 * What was told is remembered in a plain array, racy on purpose: an entry of which two CPUs wrote half each
 * does not fit its tag, and the mapping is told twice. An entry is good for as long as the address space has
 * not changed, which the kernel counts (mm_lock_seq) or of which its sizes and the time are signs. After that
 * the mapping is looked at again, and told again if it is another. The first look is without the lock, at the
 * kernel's own record of the mapping, which says whether it still is one: most changes are elsewhere.
 */

#include "kernel.h"

#include "control.h"
#include "process-key.h"
#include "output.h"
#include "repeat.h"
#include "rule.h"
#include "vma.h"
#include "walk.h"

#define EBUSY 16

#define MAPPED_WAYS 4
/* Entries of one mapping stand apart by so much of its addresses, 1 MiB. */
#define MAPPED_REGION_SHIFT 20
#define PAGE_SIZE_MIN 4096
/* Without a count of changes: an eighth of a second, ns. */
#define MAPPED_AGE_SHIFT 27

/* bpf_find_vma() came with 5.17. */
enum bpf_func_id___with_find_vma {
        BPF_FUNC_find_vma = 180,
};

struct mapped {
        __u64 tag; /* over the process and all below but sequence */
        __u64 start, end;
        __u64 identity; /* of what is mapped there; 0: nothing that is told */
        __u64 sequence; /* of the address space when it was looked at */
        __u64 vma;      /* where the kernel has it; 0: nowhere */
        __u64 seal;     /* over what stands there (vma_seal()) */
};

struct mapped_set {
        struct mapped ways[MAPPED_WAYS];
};
_Static_assert(sizeof(struct mapped_set) == RS_MAPPED_SET_SIZE, "charged by the helper");

struct {
        __uint(type, BPF_MAP_TYPE_ARRAY);
        __uint(max_entries, RS_MAPPED_SETS);
        __type(key, __u32);
        __type(value, struct mapped_set);
} rs_mapped SEC(".maps");

/* Per CPU; never leaves the helper. */
struct mapping_scratch {
        __u64 key;      /* of the process and the program it runs */
        __u64 sequence; /* of its address space */
        __u64 process_start;
        __u64 time;
        __u32 pid;
        __u32 level;   /* how much is known of `address` */
        __u64 address; /* one in no mapping that was told, or that is sure to be the same; 0: none */
        __u64 run_start, run_end; /* of the mapping that was looked for last */
        __u32 n_stale; /* frames in mappings that may be others by now, one for each run */
        bool found;    /* something is mapped there */
        bool known;    /* and was told of */
        bool rest;     /* there are others than `address` */
        bool usable;   /* what is above is of the current task */
        struct mapped mapped; /* what was found */
};

_Static_assert(sizeof(struct mapping_scratch) == RS_MAPPING_SCRATCH_SIZE, "charged by the helper");

struct {
        __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
        __uint(max_entries, 1);
        __type(key, __u32);
        __type(value, struct mapping_scratch);
} rs_mapping_scratch SEC(".maps");

static __always_inline struct mapping_scratch *mapping_scratch_get(void) {
        __u32 zero = 0;

        return bpf_map_lookup_elem(&rs_mapping_scratch, &zero);
}

/* False, too, where the kernel does not say it. */
static __always_inline bool vma_is_mapping(const struct vma_scratch *v, struct vm_area_struct *vma) {
        bool detached;
        int n;

        if (bpf_core_field_exists(vma->vm_refcnt.refs.counter))
                return !COPIED_FAILS(n, v, vma, struct vm_area_struct, vm_refcnt.refs.counter) && n > 0;
        return bpf_core_field_exists(vma->detached) && !COPIED_FAILS(detached, v, vma, struct vm_area_struct, detached) && !detached;
}

/*
 * What tells a mapping from any other, by what is read with and without its lock. The record may be of
 * another by now, and its file's memory of another's: then something of all this is different. The tag is of
 * the entry that the seal is in, which may be of two halves. 0: it is none, as far as can be known.
 */
static __always_inline __u64 vma_seal(struct vma_scratch *v, struct vm_area_struct *vma, __u64 tag) {
        unsigned long start, end, flags, offset;
        __u64 number = 0, version = 0;
        struct inode *inode = 0;
        struct mm_struct *mm;
        struct file *file;
        __u64 seal;

        if (COPY_FAILS(v, vma, struct vm_area_struct) || !vma_is_mapping(v, vma) ||
            COPIED_FAILS(start, v, vma, struct vm_area_struct, vm_start) || COPIED_FAILS(end, v, vma, struct vm_area_struct, vm_end) ||
            COPIED_FAILS(flags, v, vma, struct vm_area_struct, vm_flags) ||
            COPIED_FAILS(offset, v, vma, struct vm_area_struct, vm_pgoff) || COPIED_FAILS(mm, v, vma, struct vm_area_struct, vm_mm) ||
            COPIED_FAILS(file, v, vma, struct vm_area_struct, vm_file) ||
            (file && (READ_FAILS(inode, file->f_inode) || !inode_read(v, inode, &number, &version))))
                return 0;
        seal = mapped_mix(mapped_mix(mapped_mix(0, start), end), (__u64) offset << 1 | ((flags & VM_EXEC) != 0));
        seal = mapped_mix(mapped_mix(mapped_mix(seal, (__u64) mm), (__u64) file), (__u64) inode);
        return mapped_mix(mapped_mix(mapped_mix(seal, number), version), tag) | 1;
}

static __always_inline __u64 mapped_tag(__u64 key, const struct mapped *m) {
        return mapped_mix(mapped_mix(mapped_mix(key, m->start), m->end), m->identity) | 1;
}

static __always_inline struct mapped_set *mapped_set_get(__u64 key, __u64 address) {
        __u32 slot = mapped_mix(key, address >> MAPPED_REGION_SHIFT) >> 40 & (RS_MAPPED_SETS - 1);

        return bpf_map_lookup_elem(&rs_mapped, &slot);
}

/* True, too, where a copy of what was found stands: that it was told, wherever else it is remembered. */
static __always_inline bool mapped_has(__u64 key, const struct mapped *wanted) {
        struct mapped_set *set = mapped_set_get(key, wanted->start);

        if (!set)
                return false;
        for (int i = 0; i < MAPPED_WAYS; i++)
                if (set->ways[i].tag == wanted->tag)
                        return true;
        return false;
}

/* Where something else was at the address, that has to be taken back, whatever was told before it. */
static __always_inline bool mapped_contradicts(__u64 key, __u64 address, const struct mapped *found) {
        struct mapped_set *set = mapped_set_get(key, address);

        if (!set)
                return false;
        for (int i = 0; i < MAPPED_WAYS; i++) {
                const struct mapped *m = &set->ways[i];

                if (address >= m->start && address < m->end && m->tag != found->tag && m->tag == mapped_tag(key, m))
                        return true;
        }
        return false;
}

/* In place of what overlaps it, else where nothing is, else anywhere. */
static __always_inline void mapped_put(__u64 key, __u64 address, const struct mapped *found) {
        struct mapped_set *set = mapped_set_get(key, address);
        __u32 way = (bpf_ktime_get_ns() >> 4) & (MAPPED_WAYS - 1);

        if (!set)
                return;
        for (int i = 0; i < MAPPED_WAYS; i++) {
                struct mapped *m = &set->ways[i];

                if (m->tag != 0 && !(m->start < found->end && found->start < m->end && m->tag == mapped_tag(key, m)))
                        continue;
                m->tag = 0;
                way = i;
        }
        set->ways[way & (MAPPED_WAYS - 1)] = *found;
}

#define MAPPED_UNKNOWN 0
#define MAPPED_STALE 1 /* it was told, and may be another by now */
#define MAPPED_TOLD 2

static __always_inline int mapped_look(struct mapping_scratch *s, __u64 address) {
        struct mapped_set *set = mapped_set_get(s->key, address);
        struct vma_scratch *v = vma_scratch_get(VMA_OF_SAMPLE);
        int result = MAPPED_UNKNOWN;

        if (!set || !v)
                return MAPPED_TOLD;
        for (int i = 0; i < MAPPED_WAYS; i++) {
                struct mapped *m = &set->ways[i];

                if (address < m->start || address >= m->end || m->tag != mapped_tag(s->key, m))
                        continue;
                s->run_start = m->start;
                s->run_end = m->end;
                if (m->sequence == s->sequence)
                        return MAPPED_TOLD;
                if (m->vma != 0 && vma_seal(v, (void *) m->vma, m->tag) == m->seal) {
                        m->sequence = s->sequence;
                        return MAPPED_TOLD;
                }
                result = MAPPED_STALE;
        }
        return result;
}

/* Of the current task's memory. */
static __always_inline __u64 mm_sequence(struct mm_struct *mm) {
        if (bpf_core_field_exists(((struct mm_struct___new *) 0)->mm_lock_seq.sequence))
                return ((struct mm_struct___new *) mm)->mm_lock_seq.sequence;
        if (bpf_core_field_exists(((struct mm_struct___old *) 0)->mm_lock_seq))
                return ((struct mm_struct___old *) mm)->mm_lock_seq;
        if (bpf_core_field_exists(mm->exec_vm) && bpf_core_field_exists(mm->map_count))
                return mapped_mix(mapped_mix(mm->exec_vm, mm->map_count), bpf_ktime_get_ns() >> MAPPED_AGE_SHIFT);
        return bpf_ktime_get_ns();
}

static __always_inline void mapped_describe(struct mapped *ret, const struct mapping_scratch *s,
                                            const struct vma_scratch *v) {
        __u64 file = mapped_mix(mapped_mix(mapped_mix(s->key, v->inode), v->version), v->device);

        ret->start = v->start;
        ret->end = v->end;
        ret->identity = v->executable ? mapped_mix(file, v->offset) | 1 : 0;
        ret->sequence = s->sequence;
        ret->tag = mapped_tag(s->key, ret);
}

/* Called by bpf_find_vma(), which holds the address space's lock: only now the file is sure to stay. */
static long vma_visit(struct task_struct *task, struct vm_area_struct *vma, void *unused) {
        struct mapping_scratch *s = mapping_scratch_get();
        struct vma_scratch *v = vma_scratch_get(VMA_OF_SAMPLE);

        if (!s || !v || !vma_read(v, vma))
                return 0;
        s->found = true;
        mapped_describe(&s->mapped, s, v);
        s->mapped.seal = vma_seal(v, vma, s->mapped.tag);
        s->mapped.vma = s->mapped.seal != 0 ? address_of(vma) : 0;
        s->known = s->mapped.identity == 0 ||
                   (mapped_has(s->key, &s->mapped) && !mapped_contradicts(s->key, s->address, &s->mapped));
        if (!s->known)
                vma_read_path(v, VMA_OF_SAMPLE);
        return 0;
}

/*
 * Once the client knows of it, it makes the tables that the walk lacked, or went wrong by, where another file
 * was before; which may look as if it were complete.
 */
static __always_inline bool mapping_is_urgent(void) {
        struct scratch *s = has_tables ? scratch_get() : 0;

        return s && s->unwind.used && !s->unwind.by_fp;
}

static __always_inline bool mapping_emit(struct mapping_scratch *s) {
        struct vma_scratch *v = vma_scratch_get(VMA_OF_SAMPLE);
        struct rs_counters *c = counters_get();
        __u32 size;

        if (!c || !v)
                return false;
        size = vma_record(v, s->pid, s->process_start, s->time);
        if (size == 0)
                return false;
        if (bpf_ringbuf_output(&rs_ring, v->record, size, mapping_is_urgent() ? BPF_RB_FORCE_WAKEUP : ring_wakeup(c, size)) != 0) {
                c->mappings_lost++;
                return false;
        }
        c->mappings++;
        return true;
}

/* Looks at s->address and tells what is there. False: it could not, and is still to be told, or looked at. */
__noinline int mapping_tell(void) {
        struct mapping_scratch *s = mapping_scratch_get();
        long r;

        if (!s)
                return true;
        s->found = s->known = false;
        r = bpf_find_vma(bpf_get_current_task_btf(), s->address, vma_visit, 0, 0);
        if (r == -EBUSY)
                return false;
        if (!s->found) {
                /* An address that a walk went astray to. */
                s->mapped.start = s->address & ~(PAGE_SIZE_MIN - 1ULL);
                s->mapped.end = s->mapped.start + PAGE_SIZE_MIN;
                s->mapped.identity = 0;
                s->mapped.sequence = s->sequence;
                s->mapped.vma = 0;
                s->mapped.tag = mapped_tag(s->key, &s->mapped);
        } else if (!s->known && !mapping_emit(s))
                return false;
        mapped_put(s->key, s->address, &s->mapped);
        mapped_put(s->key, s->mapped.start, &s->mapped);
        return true;
}

#define MAPPING_IS_NO_CODE 0
#define MAPPING_IS_CODE 1
#define MAPPING_UNREADABLE 2 /* nothing is known of it */

/*
 * Whether there is something executable at an address, or was when it was looked at: a program that changes
 * its mappings all the time would have none known for long enough.
 */
__noinline int mapping_is_code(__u64 address) {
        struct mapping_scratch *s = mapping_scratch_get();
        struct mapped_set *set = s && s->usable ? mapped_set_get(s->key, address) : 0;

        if (!set)
                return MAPPING_UNREADABLE;
        for (int i = 0; i < MAPPED_WAYS; i++) {
                const struct mapped *m = &set->ways[i];

                if (address >= m->start && address < m->end && m->tag == mapped_tag(s->key, m) &&
                    (m->identity != 0 || m->sequence == s->sequence))
                        return m->identity != 0 ? MAPPING_IS_CODE : MAPPING_IS_NO_CODE;
        }
        return MAPPING_UNREADABLE;
}

/* So that it is known afterwards; false: it is not, as where another one was asked for in this sample. */
static __always_inline bool mapping_ask(__u64 address) {
        struct mapping_scratch *s = mapping_scratch_get();
        bool told;

        if (!s || !s->usable || address >= TASK_SIZE_MAX)
                return false;
        s->address = address;
        told = mapping_tell();
        s->address = 0;
        return told;
}

/*
 * One that nothing is known of comes before one that may have changed. Of these it is anyone's turn, lest a
 * program that changes its mappings all the time has only ever the same one looked at; the leaf's is every
 * other time. A function of its own, for the verifier: it is called for each frame.
 */
__noinline int mapping_check(__u64 address, bool leaf) {
        struct mapping_scratch *s = mapping_scratch_get();
        int level;

        if (!s || address == 0 || address >= TASK_SIZE_MAX)
                return 0;
        level = mapped_look(s, address);
        if (level == MAPPED_TOLD)
                return 0;
        s->rest |= s->address != 0;
        s->n_stale += level == MAPPED_STALE;
        if (s->address == 0 || (level == MAPPED_UNKNOWN && s->level == MAPPED_STALE) ||
            (level == MAPPED_STALE && s->level == MAPPED_STALE && bpf_get_prandom_u32() % (leaf ? 2 : s->n_stale | 1) == 0)) {
                s->address = address;
                s->level = level;
        }
        return 0;
}

/* Callers. */
static long mapping_turn(__u32 i, void *unused) {
        struct mapping_scratch *mapping = mapping_scratch_get();
        struct scratch *s = scratch_get();
        __u64 address;

        if (!s || !mapping || i >= s->walk.n)
                return TURN_IS_LAST;
        address = s->frames[i & RS_FRAMES_MAX] & ~RS_FRAME_EXACT;
        if (address < mapping->run_start || address >= mapping->run_end)
                mapping_check(address, false);
        return TURN_GOES_ON;
}

/* The state of the task's address space, by which its stacks are known to be checked; never 0. */
static __always_inline __u16 mapping_begin(struct task_struct *current, const struct rs_sample *sample,
                                           const struct process_key *process, __u64 exec_id) {
        struct mapping_scratch *s = mapping_scratch_get();
        struct mm_struct *mm;

        if (!s)
                return 1;
        s->usable = bpf_core_enum_value_exists(enum bpf_func_id___with_find_vma, BPF_FUNC_find_vma) &&
                    (mm = current->mm);
        if (!s->usable)
                return 1;
        s->key = mapped_mix(process->key, exec_id);
        s->sequence = mm_sequence(mm);
        s->process_start = process->start;
        s->time = sample->time;
        s->pid = sample->pid;
        s->address = s->run_start = s->run_end = 0;
        s->n_stale = 0;
        s->rest = false;
        return mapped_mix(0, s->sequence) >> 48 | 1;
}

/*
 * Before the sample, so that its client knows the mapping when it comes. False: the same stack's next sample has more
 * to look at.
 */
static __always_inline bool mapping_report(__u64 leaf, bool callers) {
        struct mapping_scratch *s = mapping_scratch_get();

        if (!s || !s->usable)
                return true;
        if (callers)
                repeat(RS_FRAMES_MAX, mapping_turn, 0);
        if (leaf < s->run_start || leaf >= s->run_end)
                mapping_check(leaf, true);
        return s->address == 0 || (mapping_tell() && !s->rest);
}
