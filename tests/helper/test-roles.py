# SPDX-License-Identifier: LGPL-2.1-or-later
"""
What each role holds at each stage, as /proc tells: compared with tables that are complete, so that nothing can be
added unseen.
"""

import collections
import contextlib
import os
import pwd
import re
import subprocess
import time

import harness as h

BPF, PERFMON, SYS_ADMIN = 1 << 39, 1 << 38, 1 << 21
BOTH = BPF | PERFMON
A, _ = h.users()
RINGSIDE = pwd.getpwnam("ringside")
PARANOID = "/proc/sys/kernel/perf_event_paranoid"

# Inheritable, permitted, effective, bounding, ambient; and how many seccomp filters.
CAPS = {
    "front": ((0, 0, 0, BOTH, 0), 1),
    "keeper": ((0, BOTH, BOTH, BOTH, 0), 1),
    # It is born with the keeper's filter, and has its own before its client's first byte.
    "session loading": ((0, BOTH, BOTH, BOTH, 0), 1),
    "session": ((0, 0, 0, BOTH, 0), 2),
    # Where the kernel demands it: permitted, and effective during perf_event_open only.
    "front paranoid": ((0, 0, 0, BOTH | SYS_ADMIN, 0), 1),
    "keeper paranoid": ((0, BOTH | SYS_ADMIN, BOTH, BOTH | SYS_ADMIN, 0), 1),
    "session paranoid": ((0, 0, 0, BOTH | SYS_ADMIN, 0), 2),
}

# Descriptors beside the three standard ones.
TYPES = "/memfd:ringside-types (deleted)"
FDS = {
    "front": {"socket": 2, "anon_inode:[eventpoll]": 1, "anon_inode:[timerfd]": 1},
    # The link lists maps; it is there once a session has ended. The kernel's types are there once one has begun.
    # The kernel's symbols were opened with CAP_SYSLOG, which is gone; /proc/modules is where the kernel has modules.
    "keeper": {"socket": 1, "anon_inode:[signalfd]": 1, "helper": 1, "anon_inode:bpf_link": 1, "/proc/kallsyms": 1, TYPES: 1,
               "/proc/modules": int(os.path.exists("/proc/modules"))},
    # The sampler of eight slots, four process programs, the iterator; ring, counters and control maps.
    # Ring, counters, and what a session still writes: targets, rates, kernel ranges, its question. /dev/null stands where
    # the other maps were.
    "session": {"socket": 2, "/dev/null": 14, "anon_inode:bpf-map": 6, "anon_inode:bpf-prog": None,
                "anon_inode:btf": None},
}


def check_process(pid, role, sessions=0, more=None):
    """role: a key of CAPS; its first word is a key of FDS."""
    s = h.status(pid)
    caps, filters = CAPS[role]
    seen = tuple(int(s[key], 16) for key in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"))
    h.check(seen == caps, f"{role}: capabilities {[hex(c) for c in seen]}, not {[hex(c) for c in caps]}")
    h.check(s["Uid"].split() == [str(RINGSIDE.pw_uid)] * 4, f"{role}: uids {s['Uid']}")
    h.check(s["Gid"].split() == [str(RINGSIDE.pw_gid)] * 4, f"{role}: gids {s['Gid']}")
    h.check(s["Groups"].split() == [], f"{role}: groups {s['Groups']}")
    h.check(s["NoNewPrivs"] == "1", f"{role}: may gain privileges")
    h.check(s["Threads"] == "1", f"{role}: {s['Threads']} threads")
    h.check((s["Seccomp"], s.get("Seccomp_filters", str(filters))) == ("2", str(filters)),
            f"{role}: seccomp mode {s['Seccomp']}, {s.get('Seccomp_filters')} filters")
    # Files of a process that is not dumpable are root's, whoever it runs as.
    h.check(os.stat(f"/proc/{pid}/mem").st_uid == 0, f"{role}: is dumpable")
    core = re.search(r"^Max core file size +(\S+) +(\S+)", h.read(f"/proc/{pid}/limits"), re.M).groups()
    h.check(core == ("0", "0"), f"{role}: core limit {core}")
    environment = h.read(f"/proc/{pid}/environ")
    if role.startswith("session") or "direct" in role:
        h.check(environment in ("", "JOURNAL_STREAM=1\0"), f"{role}: environment {environment!r}")
    if role != "session loading":
        check_fds(pid, role.split()[0], sessions, more or {})


def check_at_rest(pid, role, sessions=0, more=None):
    """It may be at work yet, and close what came with a request after it has answered."""
    def settled():
        try:
            check_process(pid, role, sessions, more)
            return True
        except h.Failure as e:
            failure.append(e)

    failure = []
    try:
        h.until(f"the {role} at rest", settled)
    except h.Failure:
        raise failure[-1]


def check_keeper(pid, role="keeper", sessions=0, asked=True):
    fresh = {TYPES: -1} if not asked and sessions == 0 else {}
    check_at_rest(pid, role, sessions, fresh if asked else {"anon_inode:bpf_link": -1, **fresh})


def check_fds(pid, role, sessions, more):
    seen = collections.Counter()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            link = re.sub(r":\[\d+\]$", "", os.readlink(f"/proc/{pid}/fd/{fd}"))
        except FileNotFoundError:
            continue  # closed meanwhile: the comparison tells whether that was right
        if int(fd) > 2:
            seen["helper" if link == h.helper_path() else link] += 1
    expected = dict(FDS[role])
    if role == "keeper":
        expected["socket"] += sessions
    for key, n in more.items():
        expected[key] = expected.get(key, 0) + n
    exact = {key: n for key, n in expected.items() if n != 0 and n is not None}
    some = {key for key, n in expected.items() if n is None}
    h.check({key: n for key, n in seen.items() if key not in some} == exact and some <= set(seen),
            f"{role}: descriptors {dict(seen)}, not {expected}")


def check_unreachable(pid, role):
    """Neither readable nor traceable for another process of the same system user."""
    def attempt():
        os.setgroups([])
        os.setresgid(*[RINGSIDE.pw_gid] * 3)
        os.setresuid(*[RINGSIDE.pw_uid] * 3)
        opened = []
        for name in ("mem", "environ", "maps", "fd/0", "root", "exe", "auxv", "syscall", "stack"):
            path = f"/proc/{pid}/{name}"
            with contextlib.suppress(OSError):
                os.readlink(path) if os.path.islink(path) else os.open(path, os.O_RDONLY)
                opened.append(name)
        return opened

    opened = h.fork(attempt)
    h.check(not opened, f"{role}: user ringside may open its {opened}")


def loading_is_seen(connection):
    """A session between its start and its sandbox. It is asked for until it is seen in time."""
    for _ in range(20):
        serial = connection.send(h.NAME, h.PATH, h.NAME, "OpenSession", "a{sv}", [h.options()])
        end = time.monotonic() + 5
        while time.monotonic() < end:
            pids = h.role_pids("session")
            # One filter, and only two capabilities left of what the exec gave.
            if pids and h.status(pids[0])["CapAmb"] == "0" * 16:
                s = h.status(pids[0])
                loading = s.get("Seccomp_filters", "1") == "1" and s["CapEff"] != "0" * 16
                try:
                    if loading:
                        check_process(pids[0], "session loading")
                except h.Failure:
                    # It went on in the middle of being looked at.
                    if h.status(pids[0])["CapEff"] != "0" * 16:
                        raise
                    loading = False
                break
        fd = connection.wait(serial)[0]
        os.close(fd)
        h.until("the session ends", lambda: not h.role_pids("session"))
        if loading:
            return
    raise h.Failure("never saw a session that loads")


def test_bus():
    with A.connect() as c:
        h.call(c, "ListEvents")
        front, keeper = h.only("front"), h.only("keeper")
        check_process(front, "front")
        check_keeper(keeper, asked=False)
        for pid, role in ((front, "front"), (keeper, "keeper")):
            check_unreachable(pid, role)
        loading_is_seen(c)
        check_keeper(keeper)
        stages(h.Way("bus", A, c), front, keeper, "", asked=True, tables=4 << 20)


def stages(way, front, keeper, suffix, asked, tables=0):
    """Before HELLO, after it, running, stopped: none changes what anybody may. Unwind tables are one map more."""
    def look(sessions, more=None):
        session = h.only("session")
        check_at_rest(session, "session" + suffix, more=dict(more or {}, **{"anon_inode:bpf-map": int(tables > 0)}))
        check_keeper(keeper, "keeper" + suffix, sessions=sessions, asked=asked)
        check_unreachable(session, "session")
        check_unreachable(keeper, "keeper")
        if front:
            check_process(front, "front" + suffix)
        return session

    with way.open(targets=True, tables=tables) as s, h.killed(A.spin()) as p:
        h.until("a session that is ready", lambda: h.role_pids("session") and
                h.status(h.only("session")).get("Seccomp_filters", "2") == "2")
        look(1)
        with way.act():
            h.check(s.hello() == h.OK, "HELLO refused")
        look(1)
        with way.act():
            h.check(s.target(p.pid) == (h.OK, 1), "TARGET refused")
        # One event, its link, and those of fork, exec and exit.
        look(1, {"anon_inode:[perf_event]": 1, "anon_inode:bpf_link": 4})
        h.check(s.start() == h.OK, "START refused")
        # And rename.
        running = {"anon_inode:[perf_event]": 1, "anon_inode:bpf_link": 5}
        session = look(1, running)
        h.check(s.stop() == h.OK, "STOP refused")
        look(1, {"anon_inode:[perf_event]": 1, "anon_inode:bpf_link": 4})
    h.until("the session ends", lambda: not os.path.isdir(f"/proc/{session}"))
    if front:
        check_keeper(keeper, "keeper" + suffix)
        check_process(front, "front" + suffix)


def test_direct():
    with h.start_direct() as s:
        keeper = h.until("a keeper", lambda: [p for p, r in h.helpers().items() if parent(p) == os.getpid() and
                                              h.status(p)["Seccomp"] == "2"])[0]
        # It has left uid 0 before the client's first byte. The client's socket is where the front's would be.
        check_keeper(keeper, asked=False)
        check_unreachable(keeper, "keeper")
        s.send(s.message(h.OPEN, h.grant_bytes(targets=True)))
        stop_bus_helper()

        class Once(h.Way):
            def open(self, **_):
                return s

        # One socket to the session, and none to a front or client.
        FDS["keeper"] = dict(FDS["keeper"], socket=0)
        try:
            stages(Once("direct", A), None, keeper, "", asked=False)
        finally:
            FDS["keeper"] = dict(FDS["keeper"], socket=1)


def parent(pid):
    with contextlib.suppress(OSError):
        return int(h.status(pid)["PPid"])


def stop_bus_helper():
    for pid in h.role_pids("front"):
        os.kill(pid, 9)
    h.until("the helper is gone", lambda: not h.role_pids("front"))
    h.until("its keeper is gone", lambda: len(h.role_pids("keeper")) <= 1)


def test_paranoid():
    """A Debian kernel asks for CAP_SYS_ADMIN; here the knob says the same."""
    stop_bus_helper()
    with open("/run/paranoid", "w") as f:
        f.write("3\n")
    subprocess.run(["mount", "--bind", "/run/paranoid", PARANOID], check=True)
    try:
        with A.connect() as c:
            h.call(c, "ListEvents")
            front, keeper = h.only("front"), h.only("keeper")
            check_process(front, "front paranoid")
            check_keeper(keeper, "keeper paranoid", asked=False)
            stages(h.Way("bus", A, c), front, keeper, " paranoid", asked=False)
    finally:
        subprocess.run(["umount", "-l", PARANOID], check=True)
    stop_bus_helper()


def test_session_alone():
    """Started by hand, without sockets and rights, a session ends at once."""
    for args in (["--session"], ["--direct", "x"], ["--nothing"]):
        p = A.spawn(h.helper_path(), *args, stderr=subprocess.DEVNULL)
        h.check(p.wait(10) != 0, f"{args}: an ordinary user got something")
    # As the system user without capabilities: neither keeper nor session.
    for args in ([], ["--session"], ["--direct"]):
        p = subprocess.Popen([h.helper_path(), *args], user=RINGSIDE.pw_uid, group=RINGSIDE.pw_gid, extra_groups=[],
                             stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/")
        h.check(p.wait(10) != 0, f"{args}: without capabilities, and served")
    mode = os.stat(h.helper_path())
    h.check((oct(mode.st_mode), mode.st_uid, mode.st_gid) == ("0o100711", 0, 0), "the binary is not 0711 root:root")


h.main(test_bus, test_direct, test_paranoid, test_session_alone)
