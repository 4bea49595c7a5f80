/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * A seccomp filter for each role, in force before the first byte from anybody else. Front, session and the
 * keeper's child that builds the kernel's names have a list of what they may do; the keeper, whose filter its sessions inherit while they are still
 * loading, has a list of what it may not. Everything else fails with EPERM, so that a library that
 * tries something optional goes on without.
 */

enum SandboxRole { SANDBOX_FRONT, SANDBOX_KEEPER, SANDBOX_SESSION, SANDBOX_BUILD };

/* Returns 0 or -errno. Needs no_new_privs. */
int sandbox_enter(enum SandboxRole role);
