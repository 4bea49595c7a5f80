# SPDX-License-Identifier: LGPL-2.1-or-later
"""
MAPS: the mappings with code of anybody's process, for a session that profile-system was granted to; as
/proc/PID/maps shows them to root.
"""

import contextlib
import ctypes
import mmap
import os
import signal
import subprocess
import tempfile

import harness as h

A, B = h.users()
MAP_FIXED_NOREPLACE = 0x100000
SYS_bpf, BPF_ENABLE_STATS = {"x86_64": 321, "aarch64": 280}.get(os.uname().machine), 32
libc_syscall = ctypes.CDLL(None, use_errno=True).syscall


def read_maps(pid):
    """{start: (end, offset, device, inode, path)} of what is executable."""
    found = {}
    for line in h.read(f"/proc/{pid}/maps").splitlines():
        addresses, mode, offset, device, inode, *path = line.split(maxsplit=5)
        start, end = (int(n, 16) for n in addresses.split("-"))
        if "x" in mode and path != ["[vsyscall]"]:
            major, minor = (int(n, 16) for n in device.split(":"))
            found[start] = (end, int(offset, 16), (major, minor), int(inode), path[0] if path else "")
    return found


def ask_all(session, pid):
    """All of a process, and how many answers that took."""
    found, start, n = [], 0, 0
    while True:
        error, some, follow = session.maps(pid, start)
        h.check(error == h.OK, f"MAPS: error {error}")
        h.check(all(m.start >= start for m in some), "a mapping below where it was to begin")
        found += some
        n += 1
        if follow == 0:
            return found, n
        h.check(some and follow == some[-1].end, f"goes on at {follow:x}")
        start = follow


def compare(session, pid):
    told, n = ask_all(session, pid)
    real = read_maps(pid)
    h.check([m.start for m in told] == sorted(real), f"{[m.path for m in told]} told, there are {real}")
    begin = int(h.read(f"/proc/{pid}/stat").rpartition(")")[2].split()[19])
    for m in told:
        path = real[m.start][4]
        if m.flags & h.MAPPING_DELETED:
            path = path.removesuffix(" (deleted)")
        # Sparing the test what a name of memory is: the kernel has more of them.
        if m.inode == 0 and path != "[vdso]":
            path = ""
        h.check((m.end, m.offset, m.device, m.inode, m.path) == (*real[m.start][:4], path), f"{m} is {real[m.start]}")
        h.check(bool(m.flags & h.MAPPING_DELETED) == real[m.start][4].endswith(" (deleted)"), f"{m} is {real[m.start]}")
        h.check(m.pid == pid and m.process_start // 10**7 == begin, f"{m}: of another process")
    return told, n


def granted():
    connection = A.connect()
    session = h.open_session(connection, scope=("s", "system"))
    with A.act():
        h.check(session.hello() == h.OK, "HELLO")
    return session


def test_anybodys():
    """Root's, another user's, one's own."""
    with granted() as session:
        for pid in (os.getpid(), h.only("front"), h.only("keeper")):
            told, _ = compare(session, pid)
            h.check(any("libc" in m.path for m in told) and any(m.path == "[vdso]" for m in told), f"{told}")
        for user in (A, B):
            with h.killed(user.spin()) as p:
                h.until("it runs, with all its libraries",
                        lambda: int(h.read(f"/proc/{p.pid}/stat").rpartition(")")[2].split()[11]) > 5)
                compare(session, p.pid)
        # A kernel thread has none.
        h.check(session.maps(2) == (h.OK, [], 0), "kthreadd has mappings")


class Child:
    """func() in a child, which then stays until it is ended."""

    def __init__(self, func):
        r, w = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                func()
                os.write(w, b"x")
                signal.pause()
            finally:
                os._exit(1)
        os.close(w)
        h.check(os.read(r, 1) == b"x", "the child did not come up")
        os.close(r)

    def __enter__(self):
        return self.pid

    def __exit__(self, *_):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


kept = []  # mappings live as long as these do


def map_file(path, executable=True):
    with open(path, "r+b") as f:
        kept.append(mmap.mmap(f.fileno(), 4096, mmap.MAP_PRIVATE,
                              mmap.PROT_READ | (mmap.PROT_EXEC if executable else 0)))


def make(directory, name):
    path = f"{directory}/{name}"
    with open(path, "wb") as f:
        f.write(bytes(4096))
    return path


def map_odd_ones(directory):
    for name in ("with space", "new\nline", "ends in (deleted)", "x" * 255):
        map_file(make(directory, name))
    path = make(directory, "gone")
    map_file(path)
    os.unlink(path)
    deep = directory
    while len(deep) < 900:
        deep += "/" + "d" * 100
    os.makedirs(deep)
    map_file(make(deep, "deep"))
    kept.append(mmap.mmap(-1, 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.PROT_READ | mmap.PROT_EXEC))
    memory = os.memfd_create("jit")
    os.ftruncate(memory, 4096)
    kept.append(mmap.mmap(memory, 4096, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_EXEC))


def test_odd_ones():
    with tempfile.TemporaryDirectory() as d, Child(lambda: map_odd_ones(d)) as pid, granted() as session:
        told, _ = ask_all(session, pid)
        paths = {m.path.removeprefix(d + "/") for m in told}
        wanted = {"with space", "new\nline", "ends in (deleted)", "x" * 255, "gone", "[vdso]", ""}
        h.check(wanted <= paths, f"lacks {wanted - paths}: {paths}")
        h.check({m.path for m in told if m.flags & h.MAPPING_DELETED} >= {d + "/gone"}, "nothing is deleted")
        h.check(not [m for m in told if "ends in" in m.path and m.flags & h.MAPPING_DELETED], "that is its name")
        h.check(any(m.path.endswith("/deep") and len(m.path) > 900 for m in told), "the deep one")
        h.check(any("jit" in m.path and m.inode for m in told), f"the memfd: {[m.path for m in told]}")


def map_many(path, n):
    """Every other page, so that they stay apart."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    with open(path, "rb") as f:
        for i in range(n):
            at = 0x100000000000 + i * 8192
            got = libc.mmap(at, 4096, mmap.PROT_READ | mmap.PROT_EXEC, mmap.MAP_PRIVATE | MAP_FIXED_NOREPLACE,
                            f.fileno(), 0)
            h.check(got == at, f"mapping {i}: {os.strerror(ctypes.get_errno())}")


@contextlib.contextmanager
def counted(helper):
    """How many mappings a session's program has looked at: the kernel counts how often it runs."""
    stats = libc_syscall(SYS_bpf, BPF_ENABLE_STATS, ctypes.create_string_buffer(4), 4)
    h.check(stats >= 0, f"the kernel does not count: {os.strerror(ctypes.get_errno())}")

    def runs():
        held = h.bpf_held([helper])
        return next(p.get("run_cnt", 0) for p in h.bpf_show("prog")
                    if ("prog", p["id"]) in held and p.get("name") == "list_mappings")

    before = runs()
    try:
        yield lambda: runs() - before
    finally:
        os.close(stats)


def test_many():
    """100,000 of them, and each once; and few are looked at again for each answer."""
    n = 100000
    knob = "/proc/sys/vm/max_map_count"
    before = h.read(knob)
    try:
        with open(knob, "w") as f:
            f.write(str(max(int(before), 2 * n)))
        with tempfile.TemporaryDirectory() as d, Child(lambda: map_many(make(d, "file"), n)) as pid, \
                granted() as session:
            helper = h.role_pids("session")[0]
            with counted(helper) as looked_at:
                told, answers = ask_all(session, pid)
                visits = looked_at()
            mine = [m for m in told if m.path == d + "/file"]
            h.check([m.start for m in mine] == [0x100000000000 + i * 8192 for i in range(n)], f"{len(mine)} told")
            fields = h.read(f"/proc/{helper}/stat").rpartition(")")[2].split()
            seconds = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
            print(f"# {len(told)} mappings in {answers} answers, {visits} looked at, {seconds:.2f} s of the session's CPU time")
            # Before there is no more to be had it is looked for from the beginning.
            h.check(visits < 4 * n, f"{visits} mappings were looked at for {n}, in {answers} answers")
            with h.killed(A.spin()) as p:
                # Another's in between: it begins anew, and goes on where it was to.
                first = session.maps(pid)
                other, _ = ask_all(session, p.pid)
                rest = session.maps(pid, first[2])
                h.check(other and {m.pid for m in other} == {p.pid}, f"of {({m.pid for m in other})}")
                h.check([m.start for m in first[1] + rest[1]] == [m.start for m in told][:len(first[1] + rest[1])] and rest[1],
                        "not the same after another's")
                # And so it does where it is asked for something again.
                again = session.maps(pid, first[2])
                h.check([m.start for m in again[1]] == [m.start for m in rest[1]], "not the same when it is asked for again")
    finally:
        with open(knob, "w") as f:
            f.write(before)


def test_threads():
    """Threads with files of their own are no more processes; and without a leader there is the same memory."""
    source = """
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>
static void *run(void *p) { unshare(CLONE_FILES); if (p) { puts("up"); fflush(stdout); } for (;;) pause(); }
int main(int argc, char **argv) { pthread_t t; for (int i = 0; i < 300; i++) pthread_create(&t, 0, run, i == 299 ? &t : 0);
  if (argc > 1) pthread_exit(0); for (;;) pause(); }
"""
    with tempfile.TemporaryDirectory() as d, granted() as session:
        os.chmod(d, 0o755)
        subprocess.run(["cc", "-x", "c", "-", "-o", d + "/threads", "-pthread"], input=source.encode(), check=True)
        lists = []
        for arguments in ([], ["gone"]):
            process = subprocess.Popen([d + "/threads", *arguments], stdout=subprocess.PIPE)
            with h.killed(process):
                h.check(process.stdout.readline() == b"up\n", "no threads")
                if arguments:
                    h.until("the leader is gone", lambda: h.status(process.pid)["State"].startswith("Z"))
                told, _ = ask_all(session, process.pid)
                starts = [m.start for m in told]
                h.check(starts == sorted(set(starts)), "a mapping is told twice")
                h.check({m.pid for m in told} == {process.pid}, f"of {({m.pid for m in told})}")
                lists.append({m.path for m in told})
        # Leaving a thread takes a library more.
        h.check(lists[0] <= lists[1] and d + "/threads" in lists[0], f"{lists}")


def test_refused():
    """Not without the grant; not of the dead; nothing but a process's descriptor."""
    with granted() as session:
        p = subprocess.Popen(["sleep", "1000"])
        fd = os.pidfd_open(p.pid)
        p.kill()
        p.wait()
        h.check(session.maps([fd])[0] == h.E_TARGET_GONE, "the dead have mappings")
        os.close(fd)
        null = os.open("/dev/null", os.O_RDONLY)
        h.check(session.maps([null])[0] == h.E_TARGET_HIDDEN, "/dev/null has mappings")
        os.close(null)
        error, data = session.ask(h.MAPS, bytes(8))
        h.check(error == h.E_STATE and not data[24:].strip(b"\0"), "without a descriptor")
        h.check(session.maps(os.getpid(), 2**64 - 1) == (h.OK, [], 0), "above all addresses")
        h.check(session.stats()[0] == h.OK, "the session is gone")
    with A.connect() as connection, h.open_session(connection) as own:
        with A.act():
            h.check(own.hello() == h.OK, "HELLO")
        for pid in (os.getpid(), 1):
            h.check(own.maps(pid) == (h.E_STATE, [], 0), "granted to nobody, and served")


def test_other_namespace():
    """A client in a pid namespace: no mappings of a process that has no number there."""
    def inside():
        A.become()
        session = h.Session(h.socket.socket(fileno=fd))
        h.check(session.hello() == h.OK, "HELLO")
        outside = session.maps([outer])
        mine = session.maps(os.getpid())
        h.check(mine[0] == h.OK and {m.pid for m in mine[1]} == {os.getpid()} and os.getpid() < 100, f"own: {mine[0]}")
        return outside

    with A.connect() as connection:
        fd = h.call(connection, "OpenSession", "a{sv}", [h.options(scope=("s", "system"))])[0]
        outer = os.pidfd_open(os.getpid())
        h.check(h.libc.unshare(0x20000000) == 0, "no pid namespace")
        try:
            told = h.fork(inside)
        finally:
            back = os.open("/proc/self/ns/pid", os.O_RDONLY)
            h.libc.setns(back, 0x20000000)
            os.close(back)
            os.close(fd)
            os.close(outer)
        h.check(told == [h.OK, [], 0], f"a process of another pid namespace: {told}")


subprocess.run(["polkit-rules", os.environ["RINGSIDE_TEST_SOURCE"] + "/tests/lib/profile-system.rules"], check=True)
with A.connect() as connection:
    h.open_session(connection).close()
h.main(test_anybodys, test_odd_ones, test_threads, test_many, test_refused, test_other_namespace)
