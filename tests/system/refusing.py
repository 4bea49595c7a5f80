# SPDX-License-Identifier: LGPL-2.1-or-later
"""
What users of a kernel that lacks what the programs need are told, whichever way they ask: the kernel it is, the one it
should be, and where there is more; and nothing is run or left.
"""

import re
import subprocess

from machine import KERNEL, check, sh, unit_property, until

UNIT = "ringside-helper.service"
STATUS = 125
# Of each ask.py: nobody has typed a password.
OUTCOME = "refused Kernel"


def as_root(script):
    r = subprocess.run(["sh", "-c", script], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, encoding="utf-8")
    return r.returncode, r.stdout


def refused(run, options=""):
    """run(script): (exit status, output)"""
    run("cd; rm -f r.ringside ran")
    status, text = run(f"cd; ringside record --no-ask {options} -o r.ringside -- touch ran")
    check(status == STATUS, f"exit status {status}: {text}")
    for words in f"refused by this kernel, Linux {KERNEL}", "hint: Linux 6.1 or newer is needed", "ringside doctor":
        check(words in re.sub(r"\s+", " ", text), f"does not say '{words}': {text}")
    check(run("cd; ls -d r.ringside ran")[0] != 0, "something was run or left")
    return f"exit status {STATUS}: refused by this kernel, Linux 6.1 is needed"


def doctor(session):
    status, text = session.run("ringside", "doctor")
    check(status == 1, f"exit status {status}: {text}")
    check(re.search(rf"^FAILED +kernel +Linux {re.escape(KERNEL)}$", text, re.M), f"does not name the kernel: {text}")
    check("Linux 6.1 or newer is needed" in re.sub(r"\s+", " ", text), f"does not name the one it should be: {text}")
    return "FAILED kernel, Linux 6.1 is needed"


def helper_left():
    """After all of them: the helper goes on, without anything of a session."""
    check(unit_property(UNIT, "ActiveState") == "active", "it is not active")
    sessions = lambda: sh("pgrep", "-f", "^[^ ]*ringside-helper --session", ok=False).split()
    until("no session is left", lambda: not sessions())
    return "goes on, no session is left"
