/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * From an address in a process to a place in a file and a name.
 *
 * An AddressSpace is what one process has mapped, read from /proc/PID/maps; a Symbolizer holds the
 * files and their symbol tables, shared by all processes. Everything read here is hostile: files are
 * opened without blocking, only regular ones are read, work and memory are bounded, and a file whose
 * identity (build id, else device, inode and size) is not what was mapped names nothing.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct ElfFile;
typedef struct Symbolizer Symbolizer;
typedef struct AddressSpace AddressSpace;
typedef struct MappedFile MappedFile;

#define BUILD_ID_MAX 64

/* What a mapping maps, once for all processes. Owned by the symbolizer and lives as long as it, but for symbolizer_sweep(). */
struct MappedFile {
        uint64_t id;      /* 1, 2, 3, ... in the order they were first seen */
        char *path;       /* as the process sees it, without " (deleted)"; or "[vdso]", "[jit]", "[anon]", "[unknown]" */
        uint32_t dev_major, dev_minor;
        uint64_t inode;
        uint64_t size;    /* bytes, 0: unknown */
        bool deleted;     /* had no name any more when it was first seen */
        uint8_t build_id[BUILD_ID_MAX];
        size_t build_id_len; /* 0: none known */
        void *userdata;   /* for the caller, NULL at first */
};

typedef struct MappedRange {
        uint64_t start, end; /* in the process */
        uint64_t offset;     /* of start, in the file */
        MappedFile *file;
} MappedRange;

typedef struct Resolved {
        MappedFile *file;     /* never NULL after success */
        uint64_t address;     /* ELF virtual address in file; the address itself where there is no ELF file */
        const char *name;     /* raw (mangled) name, NULL: not known. Lives as long as file */
        uint64_t name_offset; /* from the start of the symbol to address */
        const char *source;   /* of code that a JIT has made: the path it told, NULL: none. Lives as long as the symbolizer */
        uint32_t line;        /* of source */
        MappedRange mapped;   /* where it lies; file NULL: in no mapping */
        bool final;           /* asked again, while its mapping is what it is, it would be the same */
        /*
         * ns CLOCK_BOOTTIME: so long the name, or that there is none, is what the JIT had told by then, and it may tell of that
         * time otherwise: address_space_find_late_name(). 0: it is settled.
         */
        uint64_t late_until;
} Resolved;

/*
 * For those who want of files something else than names: called once for each ELF file, which is closed afterwards. 0,
 * -ENOMEM, or another error: the file is refused. Then there are no names of anything.
 */
typedef int (*SymbolizerReadFunc)(MappedFile *file, struct ElfFile *elf, void *userdata);

typedef struct SymbolizerOptions {
        const char *symbol_dir; /* holds .build-id/xx/yyyy.debug; NULL: /usr/lib/debug */
        const char *proc;       /* NULL: /proc (tests set another tree) */
        size_t maps_max;        /* bytes of a /proc/PID/maps; more is -EFBIG. 0: more than anybody needs */
        size_t jit_max;          /* bytes of memory for what JITs tell, of all processes. 0: 512 MiB */
        SymbolizerReadFunc read; /* NULL: names */
        void (*forget)(MappedFile *file, void *userdata); /* a file goes, before its symbolizer; NULL: nobody has to know */
        void *userdata;
} SymbolizerOptions;

int symbolizer_new(Symbolizer **ret, const SymbolizerOptions *options);
Symbolizer *symbolizer_free(Symbolizer *symbolizer);

/* Reads of file, which was mapped somewhere, what is wanted, if that was not done yet. Fails with -ENOMEM only. */
int symbolizer_read_file(Symbolizer *symbolizer, MappedFile *file);
/* When it is met again, it is opened again, and then read once more. */
void symbolizer_forget_file(MappedFile *file);

/* Files that were not met since the last time are not held open any longer. To be called once in a while. */
void symbolizer_let_go(Symbolizer *symbolizer);
/*
 * Where there are many, files go that no process has mapped and that were not met for long, with their names. Returns
 * whether some have: who has kept any pointer to one or to its name must forget it.
 */
bool symbolizer_sweep(Symbolizer *symbolizer);
/* A copy of name that lives as long as the symbolizer; equal names share one. */
int symbolizer_intern(Symbolizer *symbolizer, const char *name, const char **ret);
/* Whether half of the memory for what JITs tell is taken. */
bool symbolizer_is_jit_memory_short(const Symbolizer *symbolizer);
/* Files the symbolizer gave up on (too big, malformed, changed): for one line in the summary. */
uint64_t symbolizer_get_n_refused(Symbolizer *symbolizer);

/*
 * A process of the caller's. Reads nothing yet. pid is the caller's number for it; must be freed
 * before the symbolizer.
 */
int address_space_new(AddressSpace **ret, Symbolizer *symbolizer, pid_t pid);
/* The same mappings for a new process, a child after fork, with the names of its parent's code as of then, ns CLOCK_BOOTTIME. */
int address_space_fork(AddressSpace **ret, const AddressSpace *parent, pid_t pid, uint64_t start);
/* For one whose parent is not known: when that was. Without it, what a JIT tells is a process's own or nobody's. */
void address_space_set_start(AddressSpace *space, uint64_t start);
AddressSpace *address_space_free(AddressSpace *space);

/*
 * Reads /proc/PID/maps (of a living thread where the leader is gone) and opens the files that are new in it
 * by /proc/PID/map_files or /proc/PID/root, so that they outlive the process and its mount
 * namespace. Returns 1 if anything changed, 0 if not, -ESRCH: the process is gone and the old mappings stay.
 */
int address_space_refresh(AddressSpace *space);
/*
 * A mapping as somebody saw it, in a process that may be gone: a file is opened by its path, below the process's root
 * while that is there and below our own, and named if it is what was mapped.
 */
typedef struct ToldMapping {
        uint64_t time; /* when it was there, ns CLOCK_BOOTTIME */
        uint64_t start, end, offset;
        uint64_t inode; /* 0: no file */
        uint32_t dev_major, dev_minor;
        bool deleted;
        bool gone; /* the process has ended, or nothing of it can be read */
        const char *path; /* "": none */
} ToldMapping;

enum {
        TOLD_KNOWN, /* nothing new */
        TOLD_NEW,   /* where nothing was known */
        TOLD_OTHER, /* in place of something else: addresses have got another meaning */
};
/* In the order of their times, but for late ones. One of the above, or -ENOMEM. */
int address_space_tell(AddressSpace *space, const ToldMapping *told);
/* Whether what is known there is something else; then telling it returns TOLD_OTHER. */
bool address_space_contradicts(const AddressSpace *space, const ToldMapping *told);
/*
 * Whether the file that is known where a mapping is told of was written in between, by what its path leads to in the
 * process, or may have been; time 0: as of now. Then the next refresh opens it again, and takes it for another. A file that was replaced is no such one: who has it
 * mapped has the old one still. The same for one that was not opened since it was written too often, once it may be. False
 * where the mapping contradicts what is known.
 */
bool address_space_forget_rewritten(AddressSpace *space, const ToldMapping *told);
/*
 * What is looked up from here on was sampled at `time` or later: what had been read by then is newer than
 * what was told before. Whether anything changed by that.
 */
bool address_space_pass(AddressSpace *space, uint64_t time);
/* Throws the mappings away: after exec. */
void address_space_clear(AddressSpace *space);
/* Changes with every refresh that changed something. */
uint64_t address_space_get_generation(const AddressSpace *space);
/* Is address inside a known mapping? (If not, a refresh may help; the caller limits how often.) */
bool address_space_contains(const AddressSpace *space, uint64_t address);

/*
 * What is mapped executable: what was read, then what was told, each sorted by address. index must be below the
 * number; both are of the current generation.
 */
size_t address_space_get_n_mappings(const AddressSpace *space);
void address_space_get_mapping(const AddressSpace *space, size_t index, MappedRange *ret);

/*
 * What is looked up from here on was sampled at `time`, ns CLOCK_BOOTTIME; until this is called, just now. What a JIT
 * has written is read where it may have been written by then, unless that takes too long. Returns 1 where addresses in its
 * code may have got other names than before, 0, or -ENOMEM.
 */
int address_space_update_names(AddressSpace *space, uint64_t time);

/*
 * Reads what a JIT has written, before the process is given up: all, or as much as can be read by the deadline, ns
 * CLOCK_MONOTONIC, which is some in any case. 0 or -ENOMEM.
 */
int address_space_read_last_names(AddressSpace *space, uint64_t deadline);
/* So many ns were spent on what was told, which is to be a share of the time together with reading it. */
void address_space_note_names_cost(AddressSpace *space, uint64_t spent);
/*
 * Where names have just been updated, and the JIT has told more: no later than this, ns CLOCK_BOOTTIME, was sampled all that
 * was looked up before. UINT64_MAX: it has not.
 */
uint64_t address_space_get_late_end(const AddressSpace *space);
/*
 * The name that an address had from first to until, both ns CLOCK_BOOTTIME, all the time. Returns 1; 0: it had none, or
 * several; -EAGAIN: the JIT has not told of all that time yet, which is not waited for where it is final; or -ENOMEM.
 */
int address_space_find_late_name(AddressSpace *space, uint64_t address, uint64_t first, uint64_t until, bool final,
                                 const char **ret_name, uint64_t *ret_offset);

/* The same for the line that it came from. 1; 0: none is known; or -ENOMEM. Once the name was found, or there is none. */
int address_space_find_late_line(AddressSpace *space, uint64_t address, uint64_t first, uint64_t until,
                                 const char **ret_source, uint32_t *ret_line);

/*
 * Never fails for want of a name: outside every mapping it is "[unknown]", in anonymous executable
 * memory "[jit]" (with names from jit-PID.dump, which the process has mapped, or else from /tmp/perf-PID.map under the
 * process's root, both by its inner pid; and else from those of the processes it was forked from).
 * return_address: look up the name one byte back, since the call is before it; Resolved.address is
 * then that of the call as well (address - 1). Returns 0 or -ENOMEM.
 */
int address_space_resolve(AddressSpace *space, uint64_t address, bool return_address, Resolved *ret);
/* The same without a name, which takes longest: who knows a place in a file knows its name. */
int address_space_locate(AddressSpace *space, uint64_t address, bool return_address, Resolved *ret);

/*
 * The demangled form of a raw name (C++ and Rust, legacy and v0), without function parameters' cost
 * running away on hostile input. Others are copied. ret_name is freed with free().
 */
int symbol_demangle(const char *name, char **ret_name);
