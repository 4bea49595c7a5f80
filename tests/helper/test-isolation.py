# SPDX-License-Identifier: LGPL-2.1-or-later
"""
One session's process, taken over, against front, keeper and another user's session: all that attack.c can think of
fails. And without any sandbox, the modes of the binary and of the processes alone keep others out of their memory.

test-isolation.py ATTACK-HELPER UNSANDBOXED-HELPER
"""

import ctypes
import errno
import json
import os
import pwd
import signal
import subprocess
import sys
import time

import harness as h

ATTACK, GENTLE, FOREIGN, UNREAD = 0x4154, 1, 2, 4
PTRACE_ATTACH, PTRACE_DETACH, PTRACE_SEIZE = 16, 17, 0x4206
A, B = h.users()
RINGSIDE = pwd.getpwnam("ringside")


def allow_both():
    rule = "/run/both.rules"
    with open(rule, "w") as f:
        f.write('polkit.addRule(function (action, subject) { return polkit.Result.YES; });\n')
    subprocess.run(["polkit-rules", rule], check=True)


def attack(session, victims, flags=0):
    """[(name, victim, result, errno)], or None where the session died of it."""
    pids = (victims + [0] * 3)[:3]
    session.send(session.message(ATTACK, b"".join(n.to_bytes(4, "little") for n in [flags, *pids]), length=40))
    results = []
    while True:
        message = session.receive()
        if message is None:
            return None
        name, victim, result, error = message[0].decode().split()
        if name == "done":
            return results
        results.append((name, int(victim), int(result), int(error)))


def scene(connections):
    """Attacker and victim: sessions of two users, the second sampling."""
    attacker = h.Way("bus", A, connections[0]).ready(kernel=("s", "quiet"))
    mine = h.only("session")
    victim = h.Way("bus", B, connections[1]).ready()
    h.check(victim.start() == h.OK, "START refused")
    other = [p for p in h.role_pids("session") if p != mine][0]
    return attacker, victim, [h.only("front"), h.only("keeper"), other]


RANGES = {"ranges-read", "ranges-read-flags", "ranges-write"}


def states(pids):
    return {pid: h.status(pid)["State"][0] for pid in pids if os.path.isdir(f"/proc/{pid}")}


def test_session():
    allow_both()
    h.install(sys.argv[1])
    with A.connect() as a, B.connect() as b:
        attacker, victim, pids = scene((a, b))
        for stage in ("after HELLO", "while sampling"):
            results = attack(attacker, pids)
            h.check(results and len(results) > 200, f"{stage}: the attack did not run to its end")
            places = {r[0]: r[2:] for r in results if r[0].startswith("tracepoint-")}
            h.check(places["tracepoint-here"][0] >= 4 and places["tracepoint-elsewhere"] == (-1, errno.EINVAL),
                    f"{stage}: programs attached elsewhere: {places}")
            through = [r for r in results if r[0] not in places and (r[2] >= 0 or r[3] != errno.EPERM)]
            h.check(not through, f"{stage}: not refused by the filter: {through}")
            h.check(len(states(pids)) == 3 and not set(states(pids).values()) & set("TtZX"),
                    f"{stage}: victims became {states(pids)}")
            h.check(victim.stats()[0] == h.OK, "the other session is harmed")
            if stage == "after HELLO":
                h.check(attacker.start() == h.OK, "START refused")
            else:
                h.check(RANGES <= {r[0] for r in results}, "the kernel's ranges never came")
        if os.uname().machine == "x86_64":
            h.check(attack(attacker, [], FOREIGN) is None, "a foreign system call was let through")
        h.check(victim.stats()[0] == h.OK, "the other session is harmed")
        attacker.close()
        greedy = h.Way("bus", A, a).ready()
        results = attack(greedy, [], UNREAD)
        h.check(results and results[0][0] == "unread" and 0 < results[0][2] < 10, f"descriptors in its socket: {results}")
        h.check(greedy.receive() is not None and greedy.receive() is None, "the keeper has not broken it off")
        h.check(victim.stats()[0] == h.OK, "the other session is harmed")
        greedy.close()
        victim.close()
        h.Way("bus", A, a).works()


def test_attacks_are_real():
    """Without the sandbox most of them succeed, or fail for another reason than the filter's."""
    h.install(sys.argv[2])
    with A.connect() as a, B.connect() as b:
        attacker, victim, pids = scene((a, b))
        h.check(attacker.start() == h.OK, "START refused")
        results = attack(attacker, pids, GENTLE)
        h.check(results, "the attack did not run to its end")
        # What a session has of the kernel's addresses is for its programs: no filter is needed to keep it from the session.
        h.check({r[0]: r[3] for r in results if r[0] in RANGES} == dict.fromkeys(RANGES, errno.EPERM),
                f"the kernel's ranges: {[r for r in results if r[0] in RANGES]}")
        worked = {name for name, _, result, error in results if result >= 0 or error != errno.EPERM}
        # Capabilities, and not the filter, are what stops these.
        expected = {"kill", "tkill", "tgkill", "F_SETOWN", "F_SETOWN-evading", "F_SETOWN_EX", "F_SETSIG", "FIOSETOWN",
                    "SIOCSPGRP-evading", "pidfd_open", "open-status", "prlimit64", "setpriority", "clone", "openat",
                    "memfd_create", "socket-unix", "socket-inet", "socketpair", "mmap-exec", "mprotect-exec", "mprotect-write", "prctl"}
        h.check(expected <= worked, f"no attacks at all: {expected - worked}")
        attacker.close()
        victim.close()
    h.install(sys.argv[1])


def plain_attacks(pid):
    """From a process without a sandbox: {name: errno}, 0 where it worked."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = libc.process_vm_readv.argtypes = None
    results = {}

    class Iovec(ctypes.Structure):
        _fields_ = [("base", ctypes.c_void_p), ("len", ctypes.c_size_t)]

    def note(name, r):
        results[name] = 0 if r >= 0 else ctypes.get_errno()

    for name, request in (("PTRACE_SEIZE", PTRACE_SEIZE), ("PTRACE_ATTACH", PTRACE_ATTACH)):
        note(name, libc.ptrace(request, pid, None, None))
        if results[name] == 0:
            os.kill(pid, signal.SIGSTOP)
            os.waitpid(pid, os.WUNTRACED)
            libc.ptrace(PTRACE_DETACH, pid, None, None)
            os.kill(pid, signal.SIGCONT)
    buffer = ctypes.create_string_buffer(8)
    local, remote = Iovec(ctypes.addressof(buffer), 8), Iovec(0x1000, 8)
    r = libc.process_vm_readv(pid, ctypes.byref(local), 1, ctypes.byref(remote), 1, 0)
    # Nothing is mapped there, which is only told to who may look.
    results["process_vm_readv"] = 0 if r < 0 and ctypes.get_errno() == errno.EFAULT else ctypes.get_errno()
    # Not maps: recent kernels show everybody's to whoever has CAP_PERFMON.
    for name in ("mem", "environ", "auxv", "map_files", "fd"):
        try:
            path = f"/proc/{pid}/{name}"
            os.listdir(path) if os.path.isdir(path) else os.close(os.open(path, os.O_RDONLY))
            results[name] = 0
        except OSError as e:
            results[name] = e.errno
    pidfd = os.pidfd_open(pid)
    note("pidfd_getfd", libc.syscall(438, pidfd, 0, 0))
    return results


def plain(pid):
    """plain_attacks() by a process of the helper's own user with the keeper's capabilities."""
    command = ["setpriv", "--reuid", str(RINGSIDE.pw_uid), "--regid", str(RINGSIDE.pw_gid), "--clear-groups",
               "--inh-caps=-all,+bpf,+perfmon", "--ambient-caps=-all,+bpf,+perfmon", "/usr/bin/python3", __file__,
               "--plain", str(pid)]
    out = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return json.loads(out.stdout)


def test_without_sandbox():
    dummy = subprocess.Popen(["/bin/sleep", "1000"], user=RINGSIDE.pw_uid, group=RINGSIDE.pw_gid, extra_groups=[])
    with h.killed(dummy), A.connect() as a, B.connect() as b:
        time.sleep(0.1)
        results = plain(dummy.pid)
        h.check(not any(results.values()), f"the attacks fail even on a process that is open to them: {results}")
        attacker, victim, pids = scene((a, b))
        for pid in pids:
            results = plain(pid)
            through = {name for name, e in results.items() if e not in (errno.EPERM, errno.EACCES)}
            h.check(len(results) == 9 and not through, f"{h.helpers()[pid]}: {through} of {results}")
        attacker.close()
        victim.close()


if sys.argv[1] == "--plain":
    os.chdir("/")
    print(json.dumps(plain_attacks(int(sys.argv[2]))))
else:
    h.main(test_session, test_attacks_are_real, test_without_sandbox)
