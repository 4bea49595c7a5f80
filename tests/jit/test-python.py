#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""
Python as it is: its functions have their names from what it writes for perf, by a map and by a dump, and stacks go on
through what it puts between them. So it is in a child that it forks, which makes the code of functions anew, but for those
that it was forked in. It is Debian 13's, in a tree of its own (build-tree.sh), which the test's user has for a root. Runs
inside bus-env.
"""

import concurrent.futures
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "truth"))

from truth import Recording, check, exit_status  # pylint: disable=wrong-import-position

# One calls the other; the time each takes itself is not to be in any ratio to the sampling period.
SCRIPT = """
import os
import sys
import time

def hot_inner(n):
    x = n
    for i in range(n):
        x = (x * 31 + i) % 1000003
    return x

def hot_outer(n):
    x = hot_inner(n)
    for i in range(n):
        x = (x * 17 + i) % 1000033
    return x

def hot(seconds):
    n = 1
    while time.process_time() < seconds:
        n = (n * 7919 + 13) % 65537
        hot_outer(n)

hot(0.8)
pid = os.fork()
if pid == 0:
    hot(0.8)
    sys.exit()  # which writes what is in the dump's buffer
print(pid)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
OPTIONS = {"map": "perf", "dump": "perf_jit"}
# Percent of all samples that each is in, with what it calls; far from what it has, 50 and 98, and from what it would have
# if stacks ended at the innermost function.
LEAST = {"hot_inner": 20.0, "hot_outer": 70.0, "hot": 70.0, "<module>": 70.0}
TRUNCATED_MOST = UNNAMED_MOST = 20.0


def build_tree():
    """The directory, or None where it cannot be had."""
    built = subprocess.run([os.path.join(HERE, "build-tree.sh")], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                           check=False)
    if built.returncode not in (0, 77):
        raise RuntimeError(f"build-tree.sh: {built.returncode}")
    return built.stdout.strip() if built.returncode == 0 else None


def record(directory, name, option):
    return Recording(directory, name, "--", "unshare", "--user", "--map-root-user", f"--root={directory}/root", "--wd=/tmp",
                     "/usr/bin/python3.13", "-B", "-X", option, "script.py")


def check_named(title, recording, *options):
    """Each function has its share, with whom it calls; and what has no name, or no caller, is little."""
    report = recording.report("function", *options)
    check(report["samples"] > 200, f"{title}: {report['samples']} samples")
    rows = [row for row in report["rows"] if row["file"] == "[jit]"]
    totals = {row["name"]: 100.0 * row["total_samples"] / report["samples"] for row in rows}
    for function, least in LEAST.items():
        share = totals.get(f"py::{function}:/tmp/script.py", 0.0)
        check(share >= least, f"{title}: {function} has {share:.1f} %, to be {least} % at least")
    unnamed = sum(totals[name] for name in totals if name.startswith("[jit]+0x"))
    check(unnamed <= UNNAMED_MOST, f"{title}: {unnamed:.1f} % in code without a name, to be {UNNAMED_MOST} % at most")
    truncated = 100.0 * report["truncated"] / report["samples"]
    check(truncated <= TRUNCATED_MOST, f"{title}: {truncated:.1f} % are truncated, to be {TRUNCATED_MOST} % at most")


def run(directory):
    os.mkdir(directory + "/tmp")
    os.chmod(directory + "/tmp", 0o1777)
    with open(directory + "/tmp/script.py", "w", encoding="ascii") as f:
        f.write(SCRIPT)
    subprocess.run(["mount", "--bind", directory + "/tmp", directory + "/root/tmp"], check=True)
    # At the same time, since what counts is CPU time.
    with concurrent.futures.ThreadPoolExecutor() as pool:
        runs = {name: pool.submit(record, directory, name, option) for name, option in OPTIONS.items()}
        recordings = {name: run.result() for name, run in runs.items()}
    for name, recording in recordings.items():
        check_named(name, recording)
        check_named(name + ", the child", recording, "--process", recording.printed.strip())


def main():
    tree = build_tree()
    if not tree:
        print("no tree with python3.13 can be had")
        return 1 if os.environ.get("RINGSIDE_MUST_RUN") == "1" else 77
    with tempfile.TemporaryDirectory(prefix="ringside-python-") as directory:
        os.chmod(directory, 0o777)
        os.mkdir(directory + "/root")
        # The cache is root's alone. All that is mounted is in bus-env's own namespace.
        subprocess.run(["mount", "--bind", "-o", "ro", tree, directory + "/root"], check=True)
        try:
            run(directory)
        finally:
            subprocess.run(["umount", "--recursive", directory + "/root"], check=True)
    return exit_status()


if __name__ == "__main__":
    sys.exit(main())
