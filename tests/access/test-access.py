#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""
The access rule against the kernel's own. Runs inside bus-env.

    test-access.py [NUMBER-OF-MUTANTS]

Processes of every identity (world.py) burn CPU while user A's sessions without targets sample: in the initial
namespaces, in a user namespace, in a container of A's, in a pid namespace; and at last root's in direct mode.
Who is in the ring, by records, names and pids in its raw memory, must be exactly who A may read there without
capabilities (may-read). Then the helper is replaced by ones that lack one condition each, and each must be
caught.
"""

import contextlib
import re
import struct
import subprocess
import sys
import time

from dump import MAPPING, STACK, Session
from world import (PLACE, PROGRAMS, Helper, Target, World, check, cpu_seconds, is_distinct, kernel_threads,
                   wait_until)

# What the kernel says.

class Answers:
    """May-read's answers in one place. Numbers are those of that place's pid namespace."""

    def __init__(self, prefix, *options):
        self.threads, self.names = {}, {}
        out = subprocess.run([*prefix, PROGRAMS + "/may-read", *options], check=True, stdout=subprocess.PIPE,
                             stdin=subprocess.DEVNULL, cwd="/").stdout.decode(errors="replace")
        for line in out.splitlines():
            pid, tid, environ, maps, _, comm = line.split(" ", 5)
            pid, tid = int(pid), int(tid)
            # maps is the plain question. environ, which adds who owns the file, is compared below.
            self.threads[pid, tid] = maps == "1", environ == "1"
            if comm.startswith("rx-"):
                self.names[comm] = pid, tid

    def may_read(self, pid, tid):
        return self.threads.get((pid, tid), (False, False))[0]

    def thread_may_be_read(self, pid, tid):
        """A thread that was not there when it was asked about counts as its process does."""
        return self.threads.get((pid, tid), (True, True))[0]

    def named(self, name):
        """pid, tid, may read; a process that has no number there is not there."""
        pid, tid = self.names.get(name, (0, 0))
        return pid, tid, self.may_read(pid, tid)


# The comparison.

def code_starts(pid):
    """Where a process has files mapped as code: other numbers in each, but in a child that was only forked."""
    try:
        with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as f:
            fields = [line.split() for line in f]
    except OSError:
        return set()
    return {int(f[0].split("-")[0], 16) for f in fields if "x" in f[1] and len(f) > 5 and f[5].startswith("/")}


def compare(place, answers, dump, targets, late=(), least=1, moving=()):
    """
    All disagreements, as {name: text}; "" holds what belongs to no target. late: pids that came into view
    while it ran.
    least: samples of each target that must be there at least.
    """
    wrong = {}
    by_tid = {tid: name for name, (_, tid) in answers.names.items()}
    by_pid = {pid: name for name, (pid, tid) in answers.names.items() if pid == tid}
    by_pid |= {t.pid: t.name for t in targets if t.name not in answers.names}
    samples, gone = {}, set()
    known = {pid for (pid, tid), (yes, _) in answers.threads.items() if yes} | set(late)

    def disagree(name, text):
        wrong.setdefault(name, text)

    for r in dump.records:
        if r.kind == "fork" and r.ppid in known:
            known.add(r.pid)
        if r.pid not in known and (place.strict or r.pid in by_pid):
            disagree(by_pid.get(r.pid, ""), f"A may not read this process: {r}")
        elif r.tid and r.pid not in late and not answers.thread_may_be_read(r.pid, r.tid):
            disagree(by_tid.get(r.tid, ""), f"A may not read this thread: {r}")
        if r.ppid and r.ppid not in known and place.strict:
            disagree("", f"the pid of a hidden parent: {r}")
        if r.pid in gone:
            disagree(by_pid.get(r.pid, ""), f"after it was gone: {r}")
        if r.kind == "gone":
            gone.add(r.pid)
        if r.kind == "sample":
            # By thread, and all of a process under its own number.
            for number in {r.tid, r.pid}:
                samples[number] = samples.get(number, 0) + 1

    shown = set().union(*(code_starts(t.pid) for t in targets if t.name not in moving and answers.named(t.name)[2]))
    for target in targets:
        if target.name not in moving and target.pid not in late and not answers.named(target.name)[2]:
            for start in code_starts(target.pid) - shown:
                if struct.pack("<Q", start) in dump.memory:
                    disagree(target.name, f"its mapping at {start:x} is in the ring's memory")
        for name, number in ((target.name, target.pid), (target.thread, target.thread_tid)):
            if not name or name in moving:
                continue
            pid, tid, yes = answers.named(name)
            if yes and samples.get(tid, 0) < least:
                disagree(name, f"A may read it, and it has only {samples.get(tid, 0)} samples")
            if yes:
                continue
            if name.encode() + b"\0" in dump.memory:
                disagree(name, "the name is in the ring's memory")
            for n in {number, tid} - {0} - set(late):
                if is_distinct(n) and n in dump.words:
                    disagree(name, f"the pid {n} is in the ring's memory")
    return wrong, samples


def check_dump(dump, place):
    """What holds whoever is seen: the ring's memory has what the library read, and the counters agree."""
    kinds = {"sample": (1, 2), "stack": (STACK,), "mapping": (MAPPING,)}
    raw = list(dump.raw_records())
    different = [(of_ring, r) for of_ring, r in zip(raw, dump.records)
                 if of_ring[0] not in kinds.get(r.kind, (4,)) or of_ring[1:] != (r.pid, r.tid)]
    check(len(dump.records) == len(raw) and not different,
          f"{place.name}: {len(raw)} records in the ring, {len(dump.records)} of the library, {different[:1]}")
    samples = sum(r.kind == "sample" for r in dump.records)
    processes = sum(r.kind not in kinds for r in dump.records)
    s = dump.statistics
    check(s == {"taken": samples, "emitted": samples, "lost": 0, "processes": processes, "processes_lost": 0,
                "unknown": 0, "malformed": 0}, f"{place.name}: {samples} samples, {processes} more, {s}")


def burn(targets, seconds):
    """Waits until each of them has had that much of a processor: else that it is not seen proves nothing."""
    # What these two do, others do for them: kernel threads, a child.
    until = {t: cpu_seconds(t.pid) + seconds for t in targets if t.name not in ("rx-pty", "rx-forker")}
    wait_until(lambda: all(cpu_seconds(t.pid) >= used for t, used in until.items()), "enough CPU time", 600)


def sample(targets, places, hz, seconds, options=()):
    """Sessions in these places at once, while targets burn CPU seconds: (place, answers, dump) of each."""
    sessions = [(p, Session(p.prefix, "--hz", str(hz), *p.options, *options)) for p in places]
    runs = [(p, Answers(p.prefix, *p.oracle), s) for p, s in sessions]
    for _, s in sessions:
        s.start()
    for t in targets:
        t.open()
    burn(targets, seconds)
    for t in targets:
        t.close()
    return [(p, answers, s.stop()) for p, answers, s in runs]


# Whom the kernel shows where: that the targets are what they are meant to be. In direct mode all of them.
SEEN = {
    "plain": {"own", "own-threads", "own-pidns", "own-userns", "own-ns-root", "own-ns-deep", "own-ns-undmp",
              "own-ns-sub", "own-uring", "inheritable", "mixed", "u-inside", "c-caps", "c-plain", "c-deep",
              "p-inside", "p-child"},
    "unshare -U": {"u-inside"},
    "unshare -Urpf --mount-proc": {"c-plain", "c-deep"},
    "pid namespace": {"p-inside", "p-child"},
}


def check_seen(place, answers, targets):
    seen = {t.name[3:] for t in targets if answers.named(t.name)[2]}
    expected = SEEN.get(place.name, {t.name[3:] for t in targets}) & {t.name[3:] for t in targets}
    check(seen == expected, f"{place.name}: the kernel's answers are not as expected for {seen ^ expected}")


def report(place, answers, samples, targets):
    told = {t.name[3:]: answers.named(t.name) for t in targets}
    seen = [f"{name} {samples.get(tid, 0)}" for name, (_, tid, yes) in told.items() if yes]
    hidden = [name for name, (_, _, yes) in told.items() if not yes]
    print(f"{place.name}: seen: {', '.join(seen)}; not seen: {', '.join(hidden)}", flush=True)


def check_environ(answers, place):
    """The two ways to ask differ only where the file is not the user's own."""
    differ = {name for name, numbers in answers.names.items() if len(set(answers.threads[numbers])) > 1}
    check(differ <= {"rx-own-ns-sub"}, f"{place.name}: environ and maps differ for {differ}")


def test_places(world):
    others = [world.user, world.container, world.pids]
    for places, hz, seconds in ((others, 333, 0.1), ([world.direct], 999, 0.03)):
        for place, answers, dump in sample(world.targets, places, hz, seconds):
            check_environ(answers, place)
            check_seen(place, answers, world.targets)
            wrong, samples = compare(place, answers, dump, world.targets, least=5)
            report(place, answers, samples, world.targets)
            check(not wrong, f"{place.name}: {wrong}")
            check_dump(dump, place)


@contextlib.contextmanager
def busy_kernel():
    """Work for the kernel's own threads: a file that is written and synchronised all the time."""
    program = "import os, tempfile\nf = tempfile.TemporaryFile(dir='/var/tmp')\nwhile True:\n    " \
              "os.pwrite(f.fileno(), os.urandom(65536), 0)\n    os.fsync(f.fileno())"
    writer = subprocess.Popen([sys.executable, "-c", program])
    try:
        yield
    finally:
        writer.kill()
        writer.wait()


def test_plain(world):
    """The main case: no targets, the initial namespaces, long enough for hundreds of samples of each."""
    t, as_a = world.target, world.as_a
    mover = Target("mover", [*as_a, t, "comm={name}", "burn=60", f"exec={PLACE}/rx-moved", "spin"])
    forker = Target("forker", [*as_a, t, "comm={name}", "burn=30", f"fork-exec={PLACE}/rx-moved-c", "spin"])
    hider = Target("hider", [*as_a, t, "thread={thread}", "comm={name}", "burn=100", "dumpable=0", "now",
                                         "spin"], thread="hider-2")
    moving = {"rx-mover", "rx-forker", "rx-hider", "rx-hider-2"}
    late = Target("late", [t, "comm={name}", "burn=60", f"gid={world.ga},{world.ga},{world.ga}",
                           f"uid={world.a},{world.a},{world.a}", "exec=" + t, "spin"])
    dynamic = [mover, forker, hider, late]

    workers = kernel_threads()
    with busy_kernel():
        # Four times what is asked for below: where a host takes the processor away, that counts as time, without samples.
        (place, answers, dump), = sample(world.targets + dynamic, [world.plain], 999, 0.4)
    check_environ(answers, place)
    check_seen(place, answers, world.targets)
    # Workers come and go: what those that stayed have used meanwhile.
    workers = sum(seconds - workers.get(pid, seconds) for pid, seconds in kernel_threads().items())
    wrong, samples = compare(place, answers, dump, world.targets + [late], late={late.pid}, least=100,
                             moving=moving)
    report(place, answers, samples, world.targets)
    check(not wrong, f"{place.name}: {wrong}")
    check_dump(dump, place)
    print(f"plain: kernel threads had {workers:.2f} s")
    check(workers > 0.05, "no kernel thread had anything to do")

    # From visible to hidden, by exec: GONE, which tells nothing more, and then nothing.
    kinds = [r.kind for r in dump.of(mover)]
    check("sample" in kinds and kinds[-1] == "gone" and kinds.count("gone") == 1, f"mover: {kinds[-20:]}")
    check(dump.of(mover)[-1][4:6] == (0, ""), f"mover: {dump.of(mover)[-1]}")
    # In a child: that was seen until then.
    gone = [r for r in dump.records if r.kind == "gone" and r.pid != mover.pid]
    check(len(gone) == 1 and gone[0][4:6] == (0, ""), f"forker: {gone}")
    check(b"rx-moved" not in dump.memory, "the new name of who was gone is in the ring's memory")
    # By prctl: no sample of any thread afterwards.
    hider.expect(b"now ")
    hidden_since = int(re.search(rb"now (\d+)", hider.output).group(1))
    last = max((r.time for r in dump.of(hider) if r.kind == "sample"), default=0)
    check(0 < last <= hidden_since, f"hider: hidden at {hidden_since}, sampled at {last}")
    check(samples.get(hider.thread_tid, 0) > 0, "hider: its second thread was not seen")
    # From hidden to visible, by exec: not one record before, and still no parent and no old name.
    records = dump.of(late)
    # An interrupt may hit the exec between its new credentials and its end: a process without a name, at work.
    while records[0].kind in ("seen", "sample") and records[0].comm == "":
        records.pop(0)
    check(records[0].kind == "exec" and records[0][4:6] == (0, "target"), f"late: {records[0]}")
    check(sum(r.kind == "sample" for r in records) >= 50, "late: not seen")
    # Who belongs to whom.
    own = next(t for t in world.targets if t.name == "rx-own")
    check(any(r.kind == "fork" and r.ppid == own.pid for r in dump.records), "own: its children are not told")
    for target in world.targets:
        if target.name == "rx-own-uring":
            check_worker(dump, target)
    for target in dynamic:
        target.end()


def check_worker(dump, target):
    """Kernel worker threads of a process are the process's, and have no user frames."""
    workers = [r for r in dump.of(target) if r.kind == "sample" and r.tid != target.tid]
    check(workers, "own-uring: no sample of an io worker")
    check({(r.mode, r.stack) for r in workers} == {("kernel", "0")}, "own-uring: a worker has user frames")


def test_targets(world):
    """Named as targets, exactly the same ones are accepted, and sampled."""
    pids = [option for t in world.targets for option in ("--pid", str(t.pid))]
    (place, answers, dump), = sample(world.targets, [world.plain], 333, 0.03, options=pids)
    for t in world.targets:
        accepted = dump.targets[t.pid] >= 0
        check(accepted == answers.named(t.name)[2], f"target {t.name}: {dump.targets[t.pid]}")
    wrong, _ = compare(place, answers, dump, world.targets)
    check(not wrong, f"targets: {wrong}")
    check_dump(dump, place)
    print(f"targets: {sum(r >= 0 for r in dump.targets.values())} of {len(dump.targets)} accepted")


# Which target, seen from where, shows that a condition is missing (RULE_* of bpf/rule.h).
MUTANTS = {
    1: ("plain", "ruid"), 2: ("plain", "euid"), 3: ("plain", "svuid"), 4: ("plain", "rgid"),
    5: ("plain", "undumpable"), 6: ("user", "own"), 7: ("plain", "ambient"), 8: ("pids", "own"),
    9: ("plain", "egid"), 10: ("plain", "svgid"), 11: ("plain", "mm-outside"), 12: ("plain", "borrowed"),
    13: ("plain", "foreign-ns"), 14: ("plain", "own-in-frgn"), 15: ("pids", "own-pidns"),
}


def test_mutant(world, helper, number):
    place, name = MUTANTS[number]
    helper.replace(f"{PROGRAMS}/ringside-helper-mutant-{number}")
    target = next((t for t in world.targets if t.name == "rx-" + name), None)
    if not target:
        check(name == "borrowed" and not world.has_uring, f"mutant {number}: there is no {name}")
        return
    (place, answers, dump), = sample([target], [getattr(world, place)], 999, 0.05)
    wrong, _ = compare(place, answers, dump, world.targets, least=0)
    check(target.name in wrong, f"mutant {number} is not caught: {place.name} does not see {name}")
    print(f"mutant {number}: caught by {', '.join(filter(None, sorted(wrong)))}", flush=True)


def main():
    n_mutants = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    check(set(range(1, n_mutants + 1)) <= set(MUTANTS), "a mutant that nothing is known to catch")
    helper, world = Helper(), World()
    started = time.monotonic()

    def lap(what):
        print(f"{time.monotonic() - started:5.1f} s {what}", flush=True)

    try:
        world.add_all()
        lap(f"{len(world.targets)} targets")
        test_plain(world)
        lap("plain")
        test_places(world)
        lap("places")
        test_targets(world)
        lap("targets")
        for number in range(1, n_mutants + 1):
            test_mutant(world, helper, number)
        lap("mutants")
        helper.replace()
    finally:
        world.end()


main()
