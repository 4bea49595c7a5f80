/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once

/*
 * What a mapping is, as /proc/PID/maps would show it: device and inode of its file, and the file's path up to the
 * root of its mount namespace. d_path() is not for interrupts, so the path is put together here, from its end
 * to its beginning, out of the names of directory entries and the places where file systems are mounted. The file
 * is held by the mapping, and the mapping by the lock under which bpf_find_vma() shows it; but a
 * directory may be moved under way, and then the path is a mixture: whoever opens it compares device and inode.
 */

#include "kernel.h"

#include "rule.h"

/* Directories and mounts of one path. */
#define PATH_STEPS_MAX 64
#define NAME_SIZE_MAX 255

/* include/linux/mm.h and fs.h */
#define VM_EXEC 0x4
/* Bit 24 since 6.14, 25 before; either has been something else. */
#define FMODE_BACKING_MAYBE (3U << 24)
#define MINOR_BITS 20

/* Set before the programs are loaded. */
const volatile __u32 page_shift = 12;

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct qstr {
        __u32 len;
        const unsigned char *name;
};

struct hlist_bl_node {
        struct hlist_bl_node **pprev;
};

struct super_block {
        __u32 s_dev;
};

struct timespec64 {
        __s64 tv_sec;
        long tv_nsec;
};

struct inode {
        struct super_block *i_sb;
        unsigned long i_ino;
        __s64 i_size;
        __u32 i_generation; /* another one when a number is used again, where the file system tells them apart */
        /* When it was written. */
        __s64 i_mtime_sec; /* since 6.11 */
        __u32 i_mtime_nsec;
        struct timespec64 __i_mtime; /* since 6.7 */
        struct timespec64 i_mtime;   /* before */
};

struct dentry {
        struct super_block *d_sb;
        struct hlist_bl_node d_hash;
        struct dentry *d_parent;
        struct qstr d_name;
        struct inode *d_inode;
        /* Where a short name stands. */
        unsigned char d_iname[40]; /* before 6.14 */
        struct {
                unsigned char string[40];
        } d_shortname;
};

struct vfsmount {
        struct super_block *mnt_sb;
        struct dentry *mnt_root;
};

struct mount {
        struct mount *mnt_parent;
        struct dentry *mnt_mountpoint;
        struct vfsmount mnt;
};

struct path {
        struct vfsmount *mnt;
        struct dentry *dentry;
};

struct file {
        unsigned int f_mode;
        struct path f_path;
        struct inode *f_inode;
};

struct vm_area_struct {
        unsigned long vm_start;
        unsigned long vm_end;
        struct mm_struct *vm_mm;
        unsigned long vm_flags;
        unsigned long vm_pgoff;
        struct file *vm_file;
        struct {
                struct {
                        int counter;
                } refs;
        } vm_refcnt;   /* since 6.15; 0: it is no mapping any more */
        bool detached; /* before; since 6.4 */
};

#pragma clang attribute pop

/*
 * As much of a kernel's struct as is read at once, since each read is a call: what samples need, in most kernels. A multiple of 8.
 */
#define COPY_SIZE 136

/* Per CPU; never leaves the helper. A name is read to where its first byte is, which is in the first RS_PATH_MAX. */
struct vma_scratch {
        __u64 start, end, offset, inode;
        __u64 version;    /* of the file (inode_read()) */
        __u32 device;     /* as in the kernel: 12 bits of major, 20 of minor */
        __u32 flags;      /* RS_MAPPING_* */
        __u64 dentry, mount; /* how far the path has got */
        __u32 at;         /* where it begins in the buffer; RS_PATH_MAX: there is none */
        bool executable;
        __u64 copy[COPY_SIZE / sizeof(__u64)];
        char path[RS_PATH_MAX + NAME_SIZE_MAX + 1];
        __u64 record[(sizeof(struct rs_mapping) + RS_PATH_MAX) / sizeof(__u64) + 1];
};

/* Samplers interrupt whoever lists mappings, which has one of its own. */
#define VMA_OF_SAMPLE 0
#define VMA_OF_LIST 1

_Static_assert(sizeof(struct vma_scratch) == RS_VMA_SIZE, "charged by the helper");

struct {
        __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
        __uint(max_entries, 2);
        __type(key, __u32);
        __type(value, struct vma_scratch);
} rs_vma SEC(".maps");

static __always_inline struct vma_scratch *vma_scratch_get(__u32 whose) {
        return bpf_map_lookup_elem(&rs_vma, &whose);
}

#define PATH_ENDED 0
#define PATH_GOES_ON 1

/*
 * A length and a name that do not belong together, as a rename makes them for a moment, must not make us read what
 * stands behind the name: the kernel's addresses. So it is read as a string, which has to be as long as it
 * is said to be, and one that stands in the entry itself has to end there.
 */
static __always_inline bool name_may_be(struct dentry *dentry, const void *name, __u32 len) {
        __u64 size = bpf_core_field_exists(((struct dentry *) 0)->d_shortname)
                             ? bpf_core_field_size(((struct dentry *) 0)->d_shortname)
                             : bpf_core_field_size(((struct dentry *) 0)->d_iname);

        if (len == 0 || len > NAME_SIZE_MAX)
                return false;
        return (__u64) name - (__u64) dentry >= bpf_core_type_size(struct dentry) || len < size;
}

static __always_inline bool path_put(struct vma_scratch *v, const void *name, __u32 len) {
        __u32 at;
        char next;
        long n;

        if (v->at < len + 1 || v->at > RS_PATH_MAX - 1)
                return false;
        at = v->at - len;
        /* The string's end goes where the name before it begins. */
        next = v->path[v->at & (RS_PATH_MAX - 1)];
        n = bpf_probe_read_kernel_str(&v->path[at & (RS_PATH_MAX - 1)], (len & NAME_SIZE_MAX) + 1, name);
        v->path[v->at & (RS_PATH_MAX - 1)] = next;
        if (n != (long) len + 1)
                return false;
        v->at = at - 1;
        v->path[v->at & (RS_PATH_MAX - 1)] = '/';
        return true;
}

/* One step towards the root; a function of its own, so that the verifier checks it once. */
__noinline int path_step(__u32 whose) {
        struct vma_scratch *v = vma_scratch_get(whose);
        struct dentry *dentry, *parent, *root;
        struct mount *mount, *above;
        const unsigned char *name;
        __u32 len;

        if (!v)
                return PATH_ENDED;
        dentry = (void *) v->dentry;
        mount = (void *) v->mount;
        if (READ_FAILS(root, mount->mnt.mnt_root) || READ_FAILS(above, mount->mnt_parent) ||
            READ_FAILS(parent, dentry->d_parent))
                goto incomplete;
        if (dentry == root) {
                if (above == mount)
                        return PATH_ENDED;
                if (READ_FAILS(parent, mount->mnt_mountpoint))
                        goto incomplete;
                v->dentry = (__u64) parent;
                v->mount = (__u64) above;
                return PATH_GOES_ON;
        }
        if (READ_FAILS(len, dentry->d_name.len) || READ_FAILS(name, dentry->d_name.name) ||
            !name_may_be(dentry, name, len) || !path_put(v, name, len))
                goto incomplete;
        /* No directory has it, as memory that is mapped like a file: this is all the name there is. */
        if (parent == dentry)
                return PATH_ENDED;
        v->dentry = (__u64) parent;
        return PATH_GOES_ON;
incomplete:
        v->flags |= RS_MAPPING_INCOMPLETE;
        return PATH_ENDED;
}

/* d_unlinked(), and those that never had a name */
static __always_inline bool dentry_is_unlinked(struct dentry *dentry, struct vfsmount *mnt) {
        struct hlist_bl_node **pprev;
        struct dentry *parent, *root;

        if (READ_FAILS(parent, dentry->d_parent) || READ_FAILS(root, mnt->mnt_root) || READ_FAILS(pprev, dentry->d_hash.pprev))
                return false;
        return parent == dentry ? dentry != root : !pprev;
}

/*
 * A file on top of another, as overlayfs maps, has the path by which it was opened behind it (struct backing_file; by that
 * name libbpf could not look for it, where it is not in the kernel's own types that takes CAP_SYS_ADMIN).
 * No flag tells for sure that there is one, but one file system on both sides does; and before 6.8 it was the
 * lower file's path.
 */
static __always_inline bool file_read_upper(struct file *file, struct path *ret) {
        struct path *upper = (void *) file + bpf_core_type_size(struct file);
        struct inode *inode, *lower;
        struct super_block *sb, *mnt_sb;
        unsigned int mode;

        return !READ_FAILS(mode, file->f_mode) && (mode & FMODE_BACKING_MAYBE) && !READ_FAILS(ret->mnt, upper->mnt) &&
               !READ_FAILS(ret->dentry, upper->dentry) && !READ_FAILS(mnt_sb, ret->mnt->mnt_sb) &&
               !READ_FAILS(sb, ret->dentry->d_sb) && sb && sb == mnt_sb && !READ_FAILS(inode, ret->dentry->d_inode) &&
               !READ_FAILS(lower, file->f_inode) && inode != lower;
}

/* Never seen outside, so nobody need be kept from guessing it. */
static __always_inline __u64 mapped_mix(__u64 hash, __u64 value) {
        hash = (hash ^ value) * 0x9e3779b97f4a7c15ULL;
        return hash ^ (hash >> 29);
}

/* True on failure. */
#define COPY_FAILS(v, from, type)                                                                                      \
        (bpf_probe_read_kernel((v)->copy,                                                                              \
                               bpf_core_type_size(type) < sizeof((v)->copy) ? bpf_core_type_size(type) : sizeof((v)->copy), \
                               from) != 0)

/* READ_FAILS() of what was copied last. */
#define COPIED_FAILS(dst, v, from, type, field)                                                                        \
        (bpf_core_field_offset(type, field) <= sizeof((v)->copy) - sizeof(dst)                                          \
                 ? ((dst) = *(typeof(dst) *) ((void *) (v)->copy + bpf_core_field_offset(type, field)), false)          \
                 : READ_FAILS(dst, (from)->field))

/*
 * What tells a file from others that had its number, and from itself before it was written anew: a library that was built
 * again may be at the same place, in every way that a mapping shows.
 */
static __always_inline bool inode_read(struct vma_scratch *v, struct inode *inode, __u64 *ret_number, __u64 *ret_version) {
        __u32 generation, nsec;
        unsigned long number;
        __s64 size, sec;
        long long_nsec;

        if (COPY_FAILS(v, inode, struct inode) || COPIED_FAILS(number, v, inode, struct inode, i_ino) ||
            COPIED_FAILS(generation, v, inode, struct inode, i_generation) || COPIED_FAILS(size, v, inode, struct inode, i_size))
                return false;
        if (bpf_core_field_exists(inode->i_mtime_sec)) {
                if (COPIED_FAILS(sec, v, inode, struct inode, i_mtime_sec) || COPIED_FAILS(nsec, v, inode, struct inode, i_mtime_nsec))
                        return false;
                long_nsec = nsec;
        } else if (bpf_core_field_exists(inode->__i_mtime)) {
                if (COPIED_FAILS(sec, v, inode, struct inode, __i_mtime.tv_sec) ||
                    COPIED_FAILS(long_nsec, v, inode, struct inode, __i_mtime.tv_nsec))
                        return false;
        } else if (COPIED_FAILS(sec, v, inode, struct inode, i_mtime.tv_sec) ||
                   COPIED_FAILS(long_nsec, v, inode, struct inode, i_mtime.tv_nsec))
                return false;
        *ret_number = number;
        *ret_version = mapped_mix(mapped_mix(mapped_mix(generation, size), sec), long_nsec);
        return true;
}

/* The path and inode that are shown for it. Before 6.8 the path is the upper one already, and the inode the lower one. */
static __always_inline bool file_read(struct vma_scratch *v, struct file *file, struct path *ret_path) {
        struct super_block *sb;
        struct inode *inode;

        if (file_read_upper(file, ret_path)) {
                if (READ_FAILS(inode, ret_path->dentry->d_inode))
                        return false;
        } else if (READ_FAILS(inode, file->f_inode) || READ_FAILS(ret_path->mnt, file->f_path.mnt) ||
                   READ_FAILS(ret_path->dentry, file->f_path.dentry))
                return false;
        return inode_read(v, inode, &v->inode, &v->version) && !READ_FAILS(sb, inode->i_sb) && !READ_FAILS(v->device, sb->s_dev);
}

/* Names that the kernel itself gives to memory without a file; else it is a program's own. */
static __always_inline void vma_name_memory(struct vma_scratch *v, struct vm_area_struct *vma) {
        struct mm_struct *mm;
        void *vdso;

        if (!bpf_core_field_exists(((struct mm_struct *) 0)->context.vdso) || READ_FAILS(mm, vma->vm_mm) ||
            READ_FAILS(vdso, mm->context.vdso) || (__u64) vdso != v->start)
                return;
        v->at = RS_PATH_MAX - sizeof("[vdso]");
        __builtin_memcpy(&v->path[RS_PATH_MAX - sizeof("[vdso]")], "[vdso]", sizeof("[vdso]"));
}

/* All but the path. False on failure. */
static __always_inline bool vma_read(struct vma_scratch *v, struct vm_area_struct *vma) {
        unsigned long start, end, offset, flags;
        struct file *file;
        struct path path;

        v->at = RS_PATH_MAX;
        v->flags = v->device = 0;
        v->inode = v->version = v->offset = v->dentry = 0;
        if (READ_FAILS(start, vma->vm_start) || READ_FAILS(end, vma->vm_end) || READ_FAILS(flags, vma->vm_flags) ||
            READ_FAILS(file, vma->vm_file) || READ_FAILS(offset, vma->vm_pgoff))
                return false;
        v->start = start;
        v->end = end;
        v->executable = flags & VM_EXEC;
        if (!file) {
                vma_name_memory(v, vma);
                return true;
        }
        v->offset = (__u64) offset << page_shift;
        if (!file_read(v, file, &path))
                return false;
        v->dentry = (__u64) path.dentry;
        v->mount = (__u64) path.mnt - bpf_core_field_offset(struct mount, mnt);
        if (dentry_is_unlinked(path.dentry, path.mnt))
                v->flags |= RS_MAPPING_DELETED;
        return true;
}

/* The path of what vma_read() has read. */
static __always_inline void vma_read_path(struct vma_scratch *v, __u32 whose) {
        if (v->dentry == 0)
                return;
        v->at = RS_PATH_MAX - 1;
        v->path[RS_PATH_MAX - 1] = 0;
        for (int i = 0; i < PATH_STEPS_MAX; i++)
                if (path_step(whose) == PATH_ENDED)
                        return;
        v->flags |= RS_MAPPING_INCOMPLETE;
}

/* Makes the record of what was read. Its size, 0 on failure. */
static __always_inline __u32 vma_record(struct vma_scratch *v, __u32 pid, __u64 process_start, __u64 time) {
        struct rs_mapping *r = (void *) v->record;
        __u32 len = RS_PATH_MAX - v->at, size;

        if (len > RS_PATH_MAX)
                return 0;
        size = (sizeof(*r) + len + 7) & ~7U;
        /* The padding, of which the path leaves some. */
        v->record[(sizeof(*r) + len) / sizeof(__u64)] = 0;
        if (len > 0 && bpf_probe_read_kernel(r->path, len, &v->path[v->at & (RS_PATH_MAX - 1)]) != 0)
                return 0;
        r->r = (struct rs_record){
                .type = RS_RECORD_MAPPING,
                .len = size,
                .cpu = bpf_get_smp_processor_id(),
                .flags = v->flags,
        };
        r->time = time;
        r->process_start = process_start;
        r->start = v->start;
        r->end = v->end;
        r->offset = v->offset;
        r->inode = v->inode;
        r->pid = pid;
        r->dev_major = v->device >> MINOR_BITS;
        r->dev_minor = v->device & ((1U << MINOR_BITS) - 1);
        r->path_len = len;
        return size;
}
