# SPDX-License-Identifier: LGPL-2.1-or-later
"""
A number that another process has after a target is not the target: not its samples, not its name, not that it began.
The number is asked for, which root may do (clone3 with set_tid).
"""

import contextlib
import ctypes
import errno
import os
import signal
import sqlite3
import struct
import subprocess

import targets as t
from targets import h

SYS_CLONE3 = 435
RULES = t.SOURCE + "/tests/lib/profile-system.rules"


def clone_as(pid):
    """fork() to a child of this number in the initial pid namespace; OSError where somebody has it already."""
    wanted = (ctypes.c_int * 1)(pid)
    arguments = struct.pack("<11Q", 0, 0, 0, 0, signal.SIGCHLD, 0, 0, 0, ctypes.addressof(wanted), 1, 0)
    r = h.libc.syscall(SYS_CLONE3, arguments, len(arguments))
    if r < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return r


def run_as(pid, *command):
    """A program of user A's under this number."""
    child = clone_as(pid)
    if child == 0:
        try:
            t.A.become()
            os.execv(command[0], command)
        finally:
            os._exit(1)
    return child


def reuse(pid, *command):
    """Until it is ours: others start processes as well, and may be first."""
    for _ in range(100):
        try:
            return run_as(pid, *command)
        except OSError as e:
            if e.errno != errno.EEXIST:
                raise
    raise h.Failure(f"{pid} is always taken")


def test_reuse():
    with h.killed(t.burner()) as stays, h.killed(t.burner()) as p, \
            t.Recording("-p", f"{p.pid},{stays.pid}") as recording:
        t.burns(p.pid, 0.2)
        p.kill()
        p.wait()
        # A shell that executes another program: a new process, two names, and much CPU time.
        again = reuse(p.pid, "/bin/sh", "-c", f"sleep 0.1; exec {h.workload('gated')} 1000 </dev/null")
        try:
            h.until("the other program", lambda: h.read(f"/proc/{again}/comm") == "workload-gated\n")
            t.burns(again, 0.4)
            recording.stop()
        finally:
            os.kill(again, signal.SIGKILL)
            os.waitpid(again, 0)
        found = recording.samples("process", f"--target=process {p.pid}")
        h.check(set(found) == {"workload-busy"} and found["workload-busy"] >= 0.1 * t.RATE, f"samples {found}")
        names = recording.samples("function")
        h.check("gated_work" not in names, f"the second program is there: {names}")
        h.check(recording.pids() == {p.pid, stays.pid}, f"processes {recording.pids()}")
        # One row: the number was not told to begin again.
        h.check(rows_of(recording, p.pid) == 1, "the second process is told of")


def rows_of(recording, pid):
    with contextlib.closing(sqlite3.connect(f"file:{recording.path}?mode=ro", uri=True)) as db:
        return db.execute("SELECT count(*) FROM process WHERE pid=?", [pid]).fetchone()[0]


# A thread ends, and clone3 makes another one of its number, which never comes back from its system call: it returns to
# what its stack begins with, a jump to itself.
PROGRAM = """
import ctypes, mmap, os, struct, sys, threading, time
def burn():
    print(threading.get_native_id(), flush=True)
    while not stop.is_set():
        pass
    print(time.thread_time(), flush=True)
stays = threading.Thread(target=threading.Event().wait)
stays.start()
print(stays.native_id, flush=True)
stop = threading.Event()
first = threading.Thread(target=burn)
first.start()
sys.stdin.readline()
stop.set()
first.join()
while os.path.exists(f"/proc/self/task/{first.native_id}"):
    time.sleep(0.01)
page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
address = ctypes.addressof(ctypes.c_char.from_buffer(page))
page[:2] = bytes([0xeb, 0xfe])
page[4080:4088] = struct.pack("<Q", address)
wanted = (ctypes.c_int * 1)(first.native_id)
flags = 0x50f00 # CLONE_VM, FS, FILES, SIGHAND, THREAD, SYSVSEM
arguments = struct.pack("<11Q", flags, 0, 0, 0, 0, address, 4080, 0, ctypes.addressof(wanted), 1, 0)
while ctypes.CDLL(None).syscall(435, arguments, len(arguments)) < 0:
    time.sleep(0.01)
print("again", flush=True)
sys.stdin.readline()
"""


def test_reuse_by_thread():
    """
    A number that another thread of the same process has after a target: the thread alone is the target; beside its
    process, the other is the process's. A program of root's, who may ask for a number.
    """
    if os.uname().machine != "x86_64":
        print("not here: its machine code is that of x86-64", flush=True)
        return
    subprocess.run(["polkit-rules", RULES], check=True)
    p = subprocess.Popen(["/usr/bin/python3", "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with h.killed(p):
        stays, first = int(p.stdout.readline()), int(p.stdout.readline())
        with t.Recording("-a", "-t", f"{first},{stays}") as alone, \
                t.Recording("-a", "-t", str(first), "-p", str(p.pid)) as beside:
            t.burns(f"{p.pid}/task/{first}", 0.3)
            p.stdin.write("\n")
            p.stdin.flush()
            used = float(p.stdout.readline())
            h.until("another thread has the number", lambda: p.stdout.readline() == "again\n")
            t.burns(f"{p.pid}/task/{first}", 1)
            alone.stop()
            beside.stop()
            label, most = f"thread {first}", (used + 0.05) * t.RATE
            for recording in alone, beside:
                n = recording.samples().get(label, 0)
                h.check(0.2 * t.RATE <= n <= most, f"{n} samples of {label}, which had {used} s")
            h.check(set(alone.samples()) <= {label, f"thread {stays}"}, f"targets {alone.samples()}")
            h.check(beside.samples().get(f"process {p.pid}", 0) >= 0.8 * t.RATE, f"targets {beside.samples()}")
    subprocess.run(["polkit-rules", "default"], check=True)


t.main(test_reuse, test_reuse_by_thread)
