# SPDX-License-Identifier: LGPL-2.1-or-later
"""
Where there can be no session at all, whatever is granted, the helper says so at once: nobody is asked for a password
to hear it then.

    test-missing.py OLD-KERNEL-HELPER
"""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile

import harness as h
from dbus_client import INTERACTIVE

OLD = os.path.abspath(sys.argv[1])
A, B = h.users()
DENIED = h.ERROR + "Denied"


@contextlib.contextmanager
def hidden(path, files=()):
    """Inside, nothing but these is at a path, for helpers that are started there."""
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", path], check=True)
    for name, text in files:
        with open(f"{path}/{name}", "w", encoding="utf-8") as f:
            f.write(text)
    end_helper()
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", path], check=True)
        end_helper()


def end_helper():
    for pid in h.role_pids("front"):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    h.until("the helper has ended", lambda: not h.helpers())


def asked(c, **kwargs):
    """The error of OpenSession by somebody who would have to be asked, and what the helper has said meanwhile."""
    h.call(c, "ListEvents")
    monitor = h.Monitor()
    try:
        name, _ = h.open_error(c, h.options(**kwargs), flags=INTERACTIVE)
        return name, monitor.said(c)
    finally:
        monitor.connection.close()


def refused(error):
    with A.connect() as a, B.connect() as b:
        for c in (a, b):
            for kwargs in ({}, {"scope": ("s", "system")}, {"kernel": ("s", "ask")}):
                name, said = asked(c, **kwargs)
                h.check((name, said) == (h.ERROR + error, [h.ERROR + error]), f"{name}, and the helper says {said}")
    h.check(not h.role_pids("session"), "a session all the same")


def recorded(*words):
    """What ringside says of it."""
    with tempfile.TemporaryDirectory() as d:
        os.chmod(d, 0o777)
        r = subprocess.run(["ringside", "record", "-o", d + "/r.ringside", "--", "touch", d + "/ran"], user=A.uid, group=A.gid,
                           extra_groups=[], cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, text=True)
        h.check(r.returncode == 125 and not os.listdir(d), f"exit status {r.returncode}, {os.listdir(d)}: {r.stdout}")
    text = " ".join(r.stdout.split())
    h.check(all(word in text for word in words), f"none of {words} in: {text}")


def test_old_kernel():
    with h.installed(OLD):
        refused("Kernel")
        recorded(f"refused by this kernel, Linux {os.uname().release}", "Linux 6.1 or newer is needed", "ringside doctor")


def test_no_btf():
    with hidden("/sys/kernel/btf"):
        refused("NoBTF")
        recorded("type information")


def test_lockdown():
    with hidden("/sys/kernel/security", [("lockdown", "none integrity [confidentiality]\n")]):
        refused("Lockdown")
        recorded("locked down")
    with hidden("/sys/kernel/security", [("lockdown", "none [integrity] confidentiality\n")]):
        refused_by_polkit()


def refused_by_polkit():
    with A.connect() as c:
        name, said = asked(c)
        h.check(name == DENIED and "CheckAuthorization" in said, f"{name}, and the helper says {said}")


def test_nothing_is_missing():
    refused_by_polkit()


subprocess.run(["polkit-rules", "none"], check=True)
h.main(test_old_kernel, test_no_btf, test_lockdown, test_nothing_is_missing)
