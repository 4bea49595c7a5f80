/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The session process: loads its programs, gives up every capability, and only then reads the first
 * byte of its client. Ends when the client or the keeper closes, or when the client breaks the
 * protocol. Returns an exit status.
 */
int session_run(void);

/*
 * CPU time that one session spends on its client's requests: seconds at first, and then one part in so many of the time
 * it lasts; with profile-system, where the mappings of every process are asked for here, more of it. Past that, requests
 * wait, and are looked at this often.
 */
#define SESSION_CPU_AT_FIRST 1
#define SESSION_CPU_SHARE 64
#define SESSION_CPU_SHARE_SYSTEM 4
#define SESSION_WAIT_MSEC 20
