/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The session process: loads its programs, gives up every capability, and only then reads the first
 * byte of its client. Ends when the client or the keeper closes, or when the client breaks the
 * protocol. Returns an exit status.
 */
int session_run(void);
