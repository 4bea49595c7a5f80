# SPDX-License-Identifier: LGPL-2.1-or-later
"""
Cgroups over the real bus: of a user's processes those in the named ones, each under the label of the deepest, and no
other. In cgroups of our own, below the root of the machine's hierarchy, which are gone afterwards.
"""

import contextlib
import os
import subprocess

import targets as t
from targets import h


def skip(reason):
    print(f"not here: {reason}", flush=True)
    h.check(os.environ.get("RINGSIDE_MUST_RUN") != "1", reason)


def test_inside_and_outside():
    with t.Tree(t.unified()) as tree, contextlib.ExitStack() as stack:
        a, b, deep = tree.make("a"), tree.make("b"), tree.make("a/deep")
        tree.make("a/deep/below")
        in_a, in_b = t.burner_in(stack, tree, "a"), t.burner_in(stack, tree, "b")
        in_deep, below = t.burner_in(stack, tree, "a/deep"), t.burner_in(stack, tree, "a/deep/below")
        outside = t.burner_in(stack, tree, None)
        with t.Recording("--cgroup", a, "--cgroup", deep) as recording:
            t.burns(in_deep, 0.3)
            t.burns(outside, 0.1)
            recording.stop()
            rows, pids = recording.report("--by=process")["rows"], recording.pids()
        found = {row["id"]: row["target"] for row in rows}
        h.check(found == {in_a: f"cgroup {a}", in_deep: f"cgroup {deep}", below: f"cgroup {deep}"},
                f"{found} of {in_a} in a, {in_b} in b, {in_deep} in deep, {below} below, {outside} outside")
        h.check(min(row["self_samples"] for row in rows) > 20, f"samples: {rows}")
        h.check(pids == set(found), f"processes {pids}")
        # One of them alone, by its directory; and then everything is its own.
        with t.Recording("--cgroup", tree.directory("b")) as recording:
            t.burns(in_b, 0.2)
            recording.stop()
            h.check(recording.pids() == {in_b}, f"in b: {recording.pids()}")
            h.check(list(recording.samples()) == [f"cgroup {tree.directory('b')}"], "its label")


def test_started_inside():
    """What begins in a cgroup is in it, and is told of; what begins outside is not."""
    with t.Tree(t.unified()) as tree, contextlib.ExitStack() as stack:
        a = tree.make("a")
        command = f"{h.workload('busy')} 0.3; {h.workload('busy')} 0.2; wait"
        inside, outside = stack.enter_context(t.gated(command)), stack.enter_context(t.gated(command))
        tree.move(inside.pid, "a")
        with t.Recording("--cgroup", a) as recording:
            inside.open()
            outside.open()
            inside.wait()
            outside.wait()
            recording.stop()
            found = recording.samples("process")
            pids = recording.pids()
        h.check(outside.pid not in pids and len(pids - {inside.pid}) == 2, f"processes {pids}")
        # The clocks of the CPUs are not the process's own: what they hit of its time is a matter of chance.
        h.check(abs(found.get("workload-busy", 0) - 0.5 * t.RATE) <= 0.1 * t.RATE, f"samples {found}")


def test_moves():
    with t.Tree(t.unified()) as tree, contextlib.ExitStack() as stack:
        a, b = tree.make("a"), tree.make("b")
        p = t.burner_in(stack, tree, "a")
        with t.Recording("--cgroup", a, "--cgroup", b) as recording:
            t.burns(p, 0.3)
            tree.leave(p)
            t.burns(p, 0.6)
            tree.move(p, "b")
            t.burns(p, 0.3)
            recording.stop()
            found, total = recording.samples(), recording.report()["samples"]
        h.check(set(found) == {f"cgroup {a}", f"cgroup {b}"}, f"labels {found}")
        h.check(min(found.values()) >= 0.25 * t.RATE, f"too few: {found}")
        # The time outside is not in it: 0.6 s and what the last looks at the clock took.
        h.check(total <= 0.6 * t.RATE + 0.25 * t.RATE, f"{total} samples: {found}")


def test_moves_and_executes_outside():
    """What came back as another program is told of as that."""
    with t.Tree(t.unified()) as tree, contextlib.ExitStack() as stack:
        a = tree.make("a")
        p = stack.enter_context(t.Gated("/usr/bin/python3", "-c", EXECUTES))
        tree.move(p.pid, "a")
        with t.Recording("--cgroup", a) as recording:
            t.burns(p.pid, 0.2)
            tree.leave(p.pid)
            p.open()
            h.until("the exec", lambda: h.read(f"/proc/{p.pid}/comm") == "workload-busy\n")
            tree.move(p.pid, "a")
            t.burns(p.pid, 0.3)
            recording.stop()
            found = recording.samples("process")
        h.check(set(found) == {"python3", "workload-busy"}, f"names {found}")


EXECUTES = f"""
import os, select, sys
while not select.select([sys.stdin], [], [], 0)[0]:
    pass
os.execv("{h.workload('busy')}", ["busy", "1000"])
"""


def test_removed():
    with t.Tree(t.unified()) as tree, contextlib.ExitStack() as stack:
        a, gone = tree.make("a"), tree.make("gone")
        p = t.burner_in(stack, tree, "a")
        with h.killed(t.burner()) as q:
            tree.move(q.pid, "gone")
            with t.Recording("--cgroup", gone, "--cgroup", a) as recording:
                t.burns(q.pid, 0.2)
                q.kill()
                q.wait()
                tree.remove("gone")
                t.burns(p, 0.4)
                recording.stop()
                found = recording.samples()
        h.check(found.get(f"cgroup {gone}", 0) >= 0.1 * t.RATE and
                found.get(f"cgroup {a}", 0) >= 0.35 * t.RATE, f"{found}")
        # Another of the same name is another one.
        again = tree.make("gone")
        h.check(again == gone and "there is no such cgroup" in t.refused("--cgroup", gone + "/no"), "not refused")


def test_limit():
    """63 of them, and the last is told from the first and from none."""
    with t.Tree(t.unified()) as tree, contextlib.ExitStack() as stack:
        names = [tree.make(f"n{i}") for i in range(h.TARGETS_MAX)]
        first, last = t.burner_in(stack, tree, "n0"), t.burner_in(stack, tree, f"n{h.TARGETS_MAX - 1}")
        t.burner_in(stack, tree, "")
        with t.Recording(*(f"--cgroup={name}" for name in names)) as recording:
            t.burns(last, 0.2)
            t.burns(first, 0.1)
            recording.stop()
            rows = recording.report("--by=process")["rows"]
        h.check({row["id"]: row["target"] for row in rows} ==
                {first: f"cgroup {names[0]}", last: f"cgroup {names[-1]}"}, f"rows {rows}")
        said = t.refused(*(f"--cgroup={name}" for name in names), "--cgroup=/")
        h.check("one of at most 63" in said, said)


def test_depth():
    """Further up than 64 levels nobody looks: such a process is in none."""
    with t.Tree(t.unified()) as tree, contextlib.ExitStack() as stack:
        path, top = "", None
        for i in range(66):
            path = f"{path}/d" if path else "d"
            tree.make(path)
            if i == 0:
                top = tree.name(path)
            if i == 63:
                seen = t.burner_in(stack, tree, path)
        t.burner_in(stack, tree, path)
        with t.Recording("--cgroup", top) as recording:
            t.burns(seen, 0.2)
            recording.stop()
            h.check(recording.pids() == {seen}, f"processes {recording.pids()}")


def test_refused():
    with t.Tree(t.unified()) as tree:
        a = tree.make("a")
        h.check("there is no such cgroup" in t.refused("--cgroup", tree.name("none")), "no such cgroup")
        h.check("there is no such cgroup" in t.refused("--cgroup", "/etc"), "a directory elsewhere")
        h.check("is not a cgroup" in t.refused("--cgroup", tree.name("a/cgroup.procs")), "a file")
        h.check("is not a cgroup" in t.refused("--cgroup", tree.mount + "/" + "../" * 20 + "etc"), "a way out")
        h.check("are the same cgroup" in t.refused("--cgroup", a, "--cgroup", tree.directory("a")), "twice")
    for directory, kind, options in t.mounts():
        if kind == "cgroup" and "perf_event" not in options:
            h.check("a cgroup of another controller" in t.refused("--cgroup", directory), directory)
            break


def test_v1():
    """The perf_event hierarchy of cgroup v1, where the kernel offers it."""
    mount = f"/run/{t.NAME}"
    os.mkdir(mount)
    r = subprocess.run(["mount", "-t", "cgroup", "-o", "perf_event", "none", mount], stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, text=True)
    if r.returncode != 0:
        os.rmdir(mount)
        skip(f"no perf_event hierarchy of cgroup v1: {r.stdout.strip()}")
        return
    try:
        with t.Tree(mount) as tree, contextlib.ExitStack() as stack:
            a, deep = tree.make("a"), tree.make("a/deep")
            in_a, in_deep = t.burner_in(stack, tree, "a"), t.burner_in(stack, tree, "a/deep")
            t.burner_in(stack, tree, "")
            t.burner_in(stack, tree, None)
            with t.Recording("--cgroup", a, "--cgroup", tree.directory("a/deep")) as recording:
                t.burns(in_a, 0.2)
                t.burns(in_deep, 0.1)
                recording.stop()
                rows = recording.report("--by=process")["rows"]
            h.check({row["id"]: row["target"] for row in rows} ==
                    {in_a: f"cgroup {a}", in_deep: f"cgroup {tree.directory('a/deep')}"}, f"rows {rows}")
            # The same numbers stand for other cgroups in the other hierarchy.
            with t.Recording("--cgroup", t.unified()) as recording:
                t.burns(in_a, 0.2)
                recording.stop()
                h.check(in_a in recording.pids() and in_deep in recording.pids(), f"{recording.pids()}")
    finally:
        subprocess.run(["umount", mount], check=True)
        os.rmdir(mount)


t.main(test_inside_and_outside, test_started_inside, test_moves, test_moves_and_executes_outside, test_removed, test_limit,
       test_depth, test_refused, test_v1)
