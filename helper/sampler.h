/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The BPF side of one session: loads the programs while there are capabilities, and afterwards only
 * links, reads iterators and writes control maps on descriptors it holds.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "control.h"
#include "kernel-types.h"
#include "perf-event.h"
#include "protocol.h"

typedef struct Sampler Sampler;

/* What nobody's programs could be loaded for here, as far as it shows without loading them; RS_OK: nothing is known. */
enum rs_error sampler_probe(void);
/* The kernel's types that the programs name: kernel-types.h. */
int sampler_pick_types(struct kernel_types *ret);
/*
 * Needs CAP_BPF and CAP_PERFMON. On failure *ret_error says what is missing, and -errno is returned. types: where they
 * were picked, SESSION_TYPES_FD has them.
 */
int sampler_new(Sampler **ret, uint32_t id, const struct rs_grant *grant, const struct kernel_types *types,
                unsigned n_cpus, enum rs_error *ret_error);
Sampler *sampler_free(Sampler *sampler);

/*
 * Borrowed; the only ones of BPF that may leave the helper: names come as a sealed file. Those of the ring, of the counters,
 * which are frozen, and of the unwind tables, -1: there are none.
 */
void sampler_get_fds(const Sampler *sampler, int ret[static 3]);

/*
 * Whom the access rule is evaluated for, and the number of the client itself: once, before anything is attached. Returns 0
 * or -errno.
 */
int sampler_set_identity(Sampler *sampler, const struct rs_identity *identity, uint32_t tgid_root, uint64_t process_start);
/*
 * All threads of the process behind a pidfd, which must have been alive all the while. ret_tasks is
 * an array the caller frees. -ESRCH: gone, -EACCES: the kernel shows none of them, -EBADF: not a pidfd.
 */
int sampler_describe(Sampler *sampler, int pidfd, struct rs_task_info **ret_tasks, size_t *ret_n);
/*
 * Mappings with code of the process behind a pidfd that start at `from` or above, as many as fit, into records, size
 * and next of *ret; none of a process that the rule hides. Only with RS_GRANT_SYSTEM. -ESRCH: it is gone.
 */
int sampler_list_mappings(Sampler *sampler, int pidfd, uint64_t from, struct rs_mappings *ret);
/*
 * Whose samples and records are told, and as which target's; of one that is there already: as another's. With
 * RS_GRANT_TARGETS what becomes of it is followed from the first on.
 */
int sampler_track(Sampler *sampler, const struct rs_tracked_key *key, const struct rs_tracked *tracked);
/* Runs the sampling program on a perf event, which it owns from here on success only. */
int sampler_add_event(Sampler *sampler, int perf_fd, uint32_t event, int cpu, bool on_exec);
bool sampler_has_event(Sampler *sampler, uint32_t event, int cpu);
/*
 * Forgets CPU-wide events whose CPU has gone offline since it was asked last, which was that long ago (ns): the caller
 * opens them again. Returns for how long CPUs had no event meanwhile, where that is a difference that counts.
 */
#define MISSED_NSEC_MIN (50 * 1000000ULL)
uint64_t sampler_check_cpus(Sampler *sampler, uint64_t elapsed);

/*
 * From the first call on modules that go are seen, with RS_GRANT_KERNEL: no module has a name by tables from before.
 * Tells when the last of them went, by the programs' clock, ns; 0: none has.
 */
int sampler_watch_modules(Sampler *sampler, uint64_t *ret_changed);
/* Where the kernel's text lies, from now on: SESSION_OP_KERNEL's map, borrowed. */
int sampler_set_kernel(Sampler *sampler, int map_fd);

/* How many samples a second are taken from now on, at most as many as were granted. */
int sampler_set_rate(Sampler *sampler, uint32_t event, uint32_t rate);

int sampler_start(Sampler *sampler);
void sampler_stop(Sampler *sampler);
/* Adds up counts and times by event, of tasks that the rule shows. */
void sampler_read_counts(Sampler *sampler, struct rs_statistics *ret);
