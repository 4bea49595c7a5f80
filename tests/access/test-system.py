#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""
profile-system: who is in the ring of a session of user A's to which it was granted. Runs inside bus-env, whose
polkit rule grants it.

Everybody has to be: every identity of world.py, of other users, of root, without memory to dump, and kernel
threads; from a pid namespace only who has a number there. Idle CPUs must not, but for interrupts' work.
"""

import os
import subprocess
import time

from dump import Session
from world import (Place, World, check, cpu_seconds, is_distinct, kernel_threads, wait_until)

TICK = os.sysconf("SC_CLK_TCK")
HZ = 997


def thread_numbers(place):
    """comm -> (pid, tid), as the place has them."""
    program = "for d in /proc/[0-9]*/task/[0-9]*; do read -r comm <$d/comm && echo \"$d $comm\"; done 2>/dev/null"
    out = subprocess.run([*place.prefix, "sh", "-c", program], stdout=subprocess.PIPE, text=True).stdout
    numbers = {}
    for line in out.splitlines():
        path, _, comm = line.partition(" ")
        numbers[comm] = int(path.split("/")[2]), int(path.split("/")[4])
    return numbers


def burn(targets, seconds):
    until = {t: cpu_seconds(t.pid) + seconds for t in targets if t.name not in ("rx-pty", "rx-forker")}
    wait_until(lambda: all(cpu_seconds(t.pid) >= used for t, used in until.items()), "enough CPU time", 600)


def record(place, targets, seconds):
    session = Session(place.prefix, "--system", "--hz", str(HZ), *place.options)
    session.start()
    for t in targets:
        t.open()
    burn(targets, seconds)
    for t in targets:
        t.close()
    return session.stop()


def samples_of(dump):
    samples = {}
    for r in dump.records:
        if r.kind == "sample":
            samples[r.pid, r.tid] = samples.get((r.pid, r.tid), 0) + 1
    return samples


def check_sound(place, dump):
    s = dump.statistics
    check(s["lost"] == s["processes_lost"] == s["unknown"] == s["malformed"] == 0, f"{place.name}: {s}")
    check(s["taken"] == s["emitted"] == sum(r.kind == "sample" for r in dump.records), f"{place.name}: {s}")
    told = {r.pid for r in dump.records if r.kind in ("seen", "fork", "exec")}
    check({r.pid for r in dump.records if r.kind == "sample" and r.mode != "idle"} <= told,
          f"{place.name}: samples of a process that was never told of")
    check(all(r.pid for r in dump.records if r.kind not in ("sample", "stack")), f"{place.name}: idle is a process")


def test_everybody(place, targets, least, everywhere=True):
    """Every target that has a number in that place is there by it. everywhere: all of them have."""
    dump = record(place, targets, least / HZ * 4)
    check_sound(place, dump)
    numbers, samples = thread_numbers(place), samples_of(dump)
    for t in targets:
        for name in filter(None, (t.name, t.thread)):
            if name in numbers:
                # All of a process under its first thread's name: a worker's are its own.
                n = sum(count for key, count in samples.items()
                        if key == numbers[name] or (name == t.name and key[0] == numbers[name][0]))
                check(n >= least, f"{place.name}: {name} has {n} samples")
            else:
                check(name.encode() + b"\0" not in dump.memory, f"{place.name}: {name} is in the ring")
                number = t.pid if name == t.name else t.thread_tid
                check(not is_distinct(number) or number not in dump.words, f"{place.name}: the pid of {name}")
    there = sum(t.name in numbers for t in targets)
    print(f"{place.name}: {len(samples)} threads, {there} of {len(targets)} targets")
    check(there == len(targets) if everywhere else 0 < there < len(targets), f"{place.name}: {there} targets")
    return dump, numbers


def test_kernel_threads(place):
    """What kernel threads have used, they have samples for; none of user space."""
    before = kernel_threads()
    session = Session(place.prefix, "--system", "--hz", str(HZ), *place.options)
    session.start()
    with open("/var/tmp/ringside-access-system", "wb", buffering=0) as f:
        os.unlink(f.name)
        end = time.monotonic() + 300
        while True:
            f.seek(0)
            f.write(os.urandom(1 << 20))
            os.fsync(f.fileno())
            used = {pid: s - before.get(pid, s) for pid, s in kernel_threads().items()}
            if max(used.values()) >= 0.2:
                break
            check(time.monotonic() < end, "no kernel thread had anything to do")
    dump = session.stop()
    check_sound(place, dump)
    samples = samples_of(dump)
    for pid, seconds in used.items():
        n = samples.get((int(pid), int(pid)), 0)
        check(seconds < 0.1 or n > seconds * HZ / 2, f"kernel thread {pid}: {seconds} s, {n} samples")
    ours = [r for r in dump.records if r.kind == "sample" and str(r.pid) in used]
    check({r.mode for r in ours} == {"kernel"}, "a kernel thread was in user mode")
    print(f"{place.name}: {len(ours)} samples of kernel threads, {sum(used.values()):.2f} s")


def idle_seconds():
    with open("/proc/stat") as f:
        return int(f.readline().split()[4]) / TICK


def test_idle(place):
    """CPUs that sleep are in no sample. Where the machine never sleeps meanwhile, that cannot be told."""
    before, session = idle_seconds(), Session(place.prefix, "--system", "--hz", str(HZ), *place.options)
    session.start()
    end = time.monotonic() + 10
    while idle_seconds() < before + 0.3 and time.monotonic() < end:
        time.sleep(0.2)
    dump = session.stop()
    check_sound(place, dump)
    slept = idle_seconds() - before
    idle = [r for r in dump.records if r.kind == "sample" and r.pid == 0]
    check(all(r[3] == 0 and r.mode == "idle" and r.stack == "0" for r in idle), f"{place.name}: {idle[:3]}")
    check(len(idle) <= slept * HZ / 2, f"{place.name}: {len(idle)} samples of an idle CPU, idle for {slept:.2f} s")
    print(f"{place.name}: idle for {slept:.2f} s, {len(idle)} samples of interrupts meanwhile")


def main():
    world = World()
    try:
        world.add_all()
        system = Place("system", world.as_a)
        test_everybody(system, world.targets, 10)
        test_kernel_threads(system)
        test_idle(system)
        test_everybody(Place("direct", [], ("--direct",)), world.targets, 5)
        dump, numbers = test_everybody(Place("pid namespace", world.pids.prefix), world.targets, 5, everywhere=False)
        names = {r.comm for r in dump.records if r.kind in ("seen", "fork", "exec")}
        check(names <= numbers.keys() | {"ring-dump"}, f"not in the pid namespace: {names}")
        check(all(r.mode != "idle" for r in dump.records), "idle CPUs are in no pid namespace but the first")
    finally:
        world.end()


main()
