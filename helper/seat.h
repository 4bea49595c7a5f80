/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * What somebody in front of the machine was granted about everybody lasts as long as they are there: where the caller
 * of OpenSession is in an active session of a seat, as logind has it, that session is watched, and what
 * was granted is withdrawn when it becomes inactive or ends. The caller's session is that of its process,
 * or, for one that belongs to none, as a user's service, the one its user has in front of a screen.
 *
 * Whoever is at no seat, as over ssh, or not active when asking, was granted it as such, and is not watched. Nor is
 * anybody where there is no logind. Where it cannot be told who is at a seat the request is refused.
 */

#include "front.h"

/* Calls request_seated() once it is known, before polkit is asked. id: of the request. Returns 0 or -errno. */
int seat_watch(Front *front, uint32_t id, uint32_t uid, const char *sender);
/* The request was refused, or its session has ended. 0: all. */
void seat_forget(Front *front, uint32_t id);
