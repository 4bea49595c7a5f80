# SPDX-License-Identifier: LGPL-2.1-or-later
"""
A target that is in the middle of an exec, and stays there. Whoever opens an event on it waits for it; it must be
nobody but its own user, and not for long.
"""

import os
import subprocess
import time

import harness as h

A, _ = h.users()
SECONDS = 12
E_EVENTS = 16  # common/protocol.h


def in_exec(pid):
    """Behind the point where the old memory is given back."""
    try:
        return h.status(pid)["State"].startswith("D")
    except OSError:
        return False


def test_stuck_exec():
    # Gone with the mount namespace.
    directory = "/run/stuck"
    os.mkdir(directory)
    os.chown(directory, A.uid, A.gid)
    process = A.spawn(f"{os.environ['RINGSIDE_TEST_BUILD']}/tests/helper/stuck-exec", directory, str(SECONDS),
                      stdout=subprocess.PIPE)
    line = process.stdout.readline()
    if not line:
        print("no FUSE for users here", flush=True)
        os._exit(1 if os.environ.get("RINGSIDE_MUST_RUN") == "1" else 77)
    pid = int(line)
    h.until("the process is in its exec", lambda: in_exec(pid))
    with A.connect() as a, h.open_session(a, targets=True) as session:
        with A.act():
            h.check(session.hello() == h.OK, "HELLO refused")
            errors = []
            began = time.monotonic()
            for _ in range(40):
                errors.append(session.target(pid)[0])
            h.check(time.monotonic() - began < 3, f"it could wait {time.monotonic() - began} s")
        h.check(errors[0] == E_EVENTS and errors[-1] == h.E_TARGET_LIMIT, f"TARGET: {errors}")
        h.check(in_exec(pid), "the process was not in its exec all the while")
        with A.connect() as other:
            h.open_session(other, timeout=5).close()
    # It is let go now.
    process.wait(2 * SECONDS)
    h.until("the process has ended", lambda: not os.path.exists(f"/proc/{pid}"))


h.main(test_stuck_exec)
