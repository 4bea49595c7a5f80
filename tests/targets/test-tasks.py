# SPDX-License-Identifier: LGPL-2.1-or-later
"""
Processes and threads named by number, over the real bus: each has what it used under its own label, and nothing
else is in the recording.
"""

import gzip
import json
import mmap
import os
import signal
import struct
import tempfile

import targets as t
from targets import h

COUNTERS_SIZE = 256  # struct rs_counters, by CPU


def test_processes():
    with t.gated(f"exec {h.workload('busy')} 1.5") as a, t.gated(f"exec {h.workload('busy')} 0.5") as b, \
            h.killed(t.burner()), t.Recording("-p", f"{a.pid},{b.pid}") as recording:
        a.open()
        b.open()
        recording.end()
        t.check_samples(recording.samples(), {f"process {a.pid}": 1.5, f"process {b.pid}": 0.5})
        h.check(recording.pids() == {a.pid, b.pid}, f"processes {recording.pids()}")
        by = recording.report("--by=process")
        h.check({(row["id"], row["target"]) for row in by["rows"]} ==
                {(a.pid, f"process {a.pid}"), (b.pid, f"process {b.pid}")}, f"rows {by['rows']}")
        only = recording.samples("process", f"--target={b.pid}")
        h.check(list(only.values()) == [recording.samples()[f"process {b.pid}"]], f"filtered: {only}")


def exported(kind, *options):
    """A view by this subcommand."""
    return lambda recording, *filters: recording.view(kind, *options, *filters)


def reported(by):
    """A view by report; not what it says of the recording, which names every target."""
    def view(recording, *options):
        report = recording.report("--threshold=0", "--by", by, *options)
        return json.dumps(report.get("rows") or report["tree"]).encode()
    return view


FUNCTIONS = (b"busy_loop", b"takes_seventy")
COMMANDS = (b"workload-busy", b"workload-shares")
FILES = (b"/workload-busy", b"/workload-shares")

def text(by):
    """What people read, without its head."""
    return lambda *a: exported("report", "--threshold=0", "--by", by)(*a).partition(b"self")[2]


# How to have it, and what tells the two programs apart in it.
VIEWS = {
    **{by: (reported(by), told) for by, told in
       (("function", FUNCTIONS), ("file", FILES), ("process", COMMANDS), ("thread", COMMANDS),
        ("callees", FUNCTIONS), ("callers", FUNCTIONS))},
    **{f"text by {by}": (text(by), told) for by, told in
       (("function", FUNCTIONS), ("file", FILES), ("process", COMMANDS), ("thread", COMMANDS),
        ("callees", FUNCTIONS), ("callers", FUNCTIONS))},
    "flamegraph": (exported("flamegraph", "-o", "-"), FUNCTIONS),
    "collapsed": (exported("export", "--format=collapsed"), FUNCTIONS),
    "pprof": (lambda *a: gzip.decompress(exported("export", "--format=pprof")(*a)), FUNCTIONS),
}


def test_views():
    """Each view says which target it was, and filtered has only one target's functions."""
    with t.gated(f"exec {h.workload('busy')} 0.5") as a, t.gated(f"exec {h.workload('shares')} 0.5") as b, \
            t.Recording("-p", f"{a.pid},{b.pid}") as recording:
        a.open()
        b.open()
        recording.end()
        labels = [f"process {p.pid}".encode() for p in (a, b)]
        for name, (view, told_by) in VIEWS.items():
            both = view(recording)
            missing = [wanted for wanted in (*told_by, *labels) if wanted not in both]
            h.check(not missing, f"{name}: without {missing}")
            merged = view(recording, "--merge-targets")
            h.check(all(told in merged for told in told_by) and not any(label in merged for label in labels),
                    f"{name} --merge-targets")
            for mine, other, p in ((*told_by, a), (*reversed(told_by), b)):
                only = view(recording, f"--target={p.pid}")
                h.check(mine in only and other not in only, f"{name} --target={p.pid}: not {mine} alone")
        for label in labels:
            found = recording.samples("target", f"--target={label.decode()}")
            h.check(set(found) == {label.decode()}, f"targets: {found}, to be {label}")
        # The head of what people read says how samples divide, where all are shown.
        shares, both = recording.samples(), recording.report()["samples"]
        lines = recording.view("report").decode().splitlines()
        for label in labels:
            share = f"{100 * shares[label.decode()] / both:.1f} %  {label.decode()}"
            h.check(any(line.endswith(share) for line in lines), f"no {share!r} in {lines[:8]}")
            h.check(b" %  " + label + b"\n" not in recording.view("report", f"--target={a.pid}"), "shares of one")


def test_threads():
    """Two threads of one process, of which there are more; both are told apart."""
    with t.threads(1.0, 0.5, 0.8) as p, t.Recording("-t", f"{p.tids[0]},{p.tids[1]}") as recording:
        p.open()
        recording.end()
        t.check_samples(recording.samples(), {f"thread {p.tids[0]}": 1.0, f"thread {p.tids[1]}": 0.5})
        rows = recording.report("--by=thread")["rows"]
        h.check({row["id"] for row in rows} == set(p.tids[:2]), f"threads {rows}")
        h.check(recording.pids() == {p.pid}, f"processes {recording.pids()}")


def test_thread_beside_its_process():
    """What is named more closely goes first, whichever was named first."""
    for order in (("-p", "{pid}", "-t", "{tid}"), ("-t", "{tid}", "-p", "{pid}")):
        with t.threads(0.6, 0.4) as p:
            with t.Recording(*(o.format(pid=p.pid, tid=p.tids[0]) for o in order)) as recording:
                p.open()
                recording.end()
                found = recording.samples()
        t.check_samples(found, {f"process {p.pid}": 0.4, f"thread {p.tids[0]}": 0.6})


def test_children():
    """What a target starts is the target's; without inheriting it is not there."""
    with t.gated(f"{h.workload('busy')} 0.5; {h.workload('busy')} 0.3 & wait") as p, \
            t.gated(f"{h.workload('busy')} 0.4; wait") as q, t.Recording("-p", f"{p.pid},{q.pid}") as recording:
        p.open()
        q.open()
        recording.end()
        found = recording.samples("process", f"--target={p.pid}")
        t.check_samples({"busy": found.get("workload-busy", 0)}, {"busy": 0.8})
        found = recording.samples("process", f"--target={q.pid}")
        t.check_samples({"busy": found.get("workload-busy", 0)}, {"busy": 0.4})
        h.check(len(recording.pids() - {p.pid, q.pid}) == 3, f"processes {recording.pids()}")
    with t.gated(f"{h.workload('busy')} 0.5; wait") as p, t.Recording("--no-inherit", "-p", str(p.pid)) as recording:
        p.open()
        recording.end()
        h.check("busy_loop" not in recording.samples("function"), "a child was followed")
        h.check(recording.pids() <= {p.pid}, f"processes {recording.pids()}")


def test_thread_is_not_followed():
    """Nothing that a named thread starts is it: no process, no thread."""
    program = f"""
import subprocess, sys, threading, time
def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass
def run():
    print(threading.get_native_id(), flush=True)
    sys.stdin.read()
    burn(1)
    subprocess.run(["{h.workload('busy')}", "0.4"])
    other = threading.Thread(target=burn, args=[0.4])
    other.start()
    other.join()
t = threading.Thread(target=run)
t.start()
t.join()
"""
    with t.Gated("/usr/bin/python3", "-c", program, threads=1) as p, t.Recording("-t", str(p.tids[0])) as recording:
        h.check(p.tids[0] != p.pid, "it is the leader")
        p.open()
        recording.end()
        rows = recording.report("--by=thread")["rows"]
        h.check({row["id"] for row in rows} == {p.tids[0]}, f"threads {rows}")
        h.check("busy_loop" not in recording.samples("function"), "a child was followed")
        h.check(recording.pids() == {p.pid}, f"processes {recording.pids()}")
        # All of its own second, and what it takes to start the others; not their 0.4.
        n = recording.report()["samples"]
        h.check(0.9 * t.RATE <= n <= 1.2 * t.RATE, f"{n} samples")


def test_command_without_children():
    """Of a command without inheriting it is the command's own process that has samples, and nothing it starts is told of."""
    with tempfile.TemporaryDirectory(prefix="targets-") as directory:
        os.chmod(directory, 0o755)
        gate = directory + "/gate"
        command = f"until [ -e {gate} ]; do sleep 0.05; done; {h.workload('busy')} 0.4; " \
            "i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done"
        with t.Recording("--no-inherit", "--", "/bin/sh", "-c", command) as recording:
            with open(gate, "w"):
                pass
            recording.end()
            found, functions = recording.samples("process"), recording.samples("function")
            h.check(set(found) == {"sh"} and found["sh"] > 20, f"samples {found}")
            h.check("busy_loop" not in functions, f"a child was followed: {functions}")
            h.check(len(recording.pids()) == 1, f"processes {recording.pids()}")


def test_started_while_opening():
    """What a target starts between TARGET and START, when nothing runs yet, is not lost."""
    with t.gated(f"{h.workload('busy')} 1000") as p, t.A.connect() as bus, \
            h.open_session(bus, targets=True, hz=t.RATE) as session:
        with t.A.act():
            h.check(session.hello() == h.OK and session.target(p.pid) == (h.OK, 1), "HELLO and TARGET")
        p.open()
        child = h.until("the child", lambda: h.read(f"/proc/{p.pid}/task/{p.pid}/children").split())
        h.check(session.start() == h.OK, "START")
        try:
            t.burns(int(child[0]), 0.3)
            n = taken(session)
        finally:
            os.kill(int(child[0]), signal.SIGKILL)
        h.check(n >= 0.2 * t.RATE, f"{n} samples of a child")


def taken(session):
    """Samples so far: the first counter of each CPU."""
    n = os.sysconf("SC_NPROCESSORS_CONF")
    size = -(-n * COUNTERS_SIZE // mmap.PAGESIZE) * mmap.PAGESIZE
    with mmap.mmap(session.fds[1], size, mmap.MAP_SHARED, mmap.PROT_READ) as m:
        return sum(struct.unpack_from("<Q", m, cpu * COUNTERS_SIZE)[0] for cpu in range(n))


def test_thread_that_executes():
    """An exec by a thread that is not the leader gives it the leader's number: it is still the one that was named."""
    program = f"""
import os, threading, sys
def run():
    print(threading.get_native_id(), flush=True)
    sys.stdin.read()
    os.execv("{h.workload('busy')}", ["busy", "1000"])
threading.Thread(target=run).start()
threading.Event().wait()
"""
    with t.Gated("/usr/bin/python3", "-c", program, threads=1) as p, t.A.connect() as bus, \
            h.open_session(bus, targets=True, hz=t.RATE) as session:
        h.check(p.tids[0] != p.pid, "it is the leader")
        with t.A.act():
            h.check(session.hello() == h.OK, "HELLO")
            h.check(session.target(p.pid, h.TARGET_NO_INHERIT, p.tids[0]) == (h.OK, 1), "TARGET")
        h.check(session.start() == h.OK, "START")
        p.open()
        h.until("the exec", lambda: h.read(f"/proc/{p.pid}/comm") != "python3\n")
        before = taken(session)
        t.burns(p.pid, 0.3)
        h.check(taken(session) - before >= 0.2 * t.RATE, f"{taken(session) - before} samples after the exec")


def test_refused():
    with h.killed(t.B.spin()) as others:
        h.until("it is its user's", lambda: os.stat(f"/proc/{others.pid}").st_uid == t.B.uid)
        for option in ("-p", "-t"):
            said = t.refused(option, str(others.pid))
            h.check(f"{others.pid} is not yours to see: it belongs to {t.B.name}" in said and "record -a" in said, said)
    with t.threads(1) as p:
        h.check("--tid records a thread" in t.refused("-p", str(p.tids[0])), "a thread as a process")
    h.check("there is none" in t.refused("-t", str(p.tids[0])), "a thread that is gone")
    h.check("there is none" in t.refused("-p", str(p.pid)), "a process that is gone")
    h.check("do not go together" in t.refused("-p", "1", "--cgroup", "/"), "a process and a cgroup")


def test_time():
    """A thread's end ends the recording, though its process goes on."""
    with t.threads(0.2, 1000) as p, t.Recording("-t", str(p.tids[0])) as recording:
        p.open()
        recording.end()
        h.check(p.process.poll() is None, "the recording outlived the thread")


t.main(test_processes, test_views, test_threads, test_thread_beside_its_process, test_children,
       test_thread_is_not_followed, test_command_without_children, test_started_while_opening, test_thread_that_executes, test_refused, test_time)
