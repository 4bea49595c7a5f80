# SPDX-License-Identifier: LGPL-2.1-or-later
"""
Kernel frames: names that are root's /proc/kallsyms without its addresses, in a file nobody can change; stacks that
go from the kernel into the user's program; and neither without the grant, or where the kernel tells nothing.
"""

import array
import contextlib
import errno
import fcntl
import mmap
import os
import re
import resource
import socket
import struct
import subprocess
import termios
import time

import harness as h

A, _ = h.users()
LIB = os.environ["RINGSIDE_TEST_SOURCE"] + "/tests/lib"
KERNEL_BIT = 1 << 63
MARKER, JIT, UNKNOWN = (KERNEL_BIT | n << 48 for n in (0x7fff, 0x7ffe, 0x7ffd))
MARKERS = {MARKER, JIT, UNKNOWN}
F_ADD_SEALS, F_GET_SEALS, ALL_SEALS = 1033, 1034, 1 | 2 | 4 | 8
NOISE = re.compile(r"^(__pfx_|__cfi_|\$|\.)")
QUIET = {"kernel": ("s", "quiet")}


def rules(name):
    subprocess.run([LIB + "/polkit-rules", name if name == "default" else f"{LIB}/{name}.rules"], check=True)


def kallsyms():
    """{module: {offset or address: {names}}} of all code, and where the core's begins."""
    start = end = 0
    lines = []
    for line in h.read("/proc/kallsyms").splitlines():
        m = re.match(r"([0-9a-f]+) ([tTwW]) (\S+)(?:\t\[(\S+)\])?$", line)
        if not m:
            continue
        address = int(m[1], 16)
        start, end = (address if m[3] == name and not m[4] else old for name, old in (("_stext", start), ("_etext", end)))
        if not NOISE.match(m[3]) and not (m[4] or "").startswith(("bpf", "__builtin__")):
            lines.append((m[4], address, m[3]))
    found = {}
    for module, address, name in lines:
        if module or start <= address < end:
            found.setdefault(module or "kernel", {}).setdefault(address - (0 if module else start), set()).add(name)
    return found, start, end


class Names:
    """struct rs_kernel_names."""

    def __init__(self, data):
        self.magic, self.version, self.generation, n_modules, n_symbols, size = struct.unpack_from("<IIQIIQ", data)
        h.check((self.magic, self.version) == (0x6e6b7372, 1), "not kernel names")
        symbols = 32 + 16 * n_modules
        strings = symbols + 8 * n_symbols
        h.check(len(data) == strings + size, f"{len(data)} bytes, not {strings + size}")

        def string(at):
            return data[strings + at:data.index(b"\0", strings + at)].decode()
        self.modules, self.numbers = {}, {}
        for i in range(n_modules):
            number, name, first, n = struct.unpack_from("<IIII", data, 32 + 16 * i)
            table = [struct.unpack_from("<II", data, symbols + 8 * j) for j in range(first, first + n)]
            h.check(table == sorted(table), "offsets are not sorted")
            self.modules[number] = [(offset, string(at)) for offset, at in table]
            self.numbers[string(name)] = number
        h.check(list(self.modules) == sorted(self.modules), "modules are not sorted")

    def name(self, frame):
        """Of a frame's function; None: a marker."""
        if frame in MARKERS:
            return None
        h.check(frame & KERNEL_BIT, f"{frame:#x} is no kernel frame")
        module, offset = frame >> 48 & 0x7fff, frame & (1 << 48) - 1
        below = [name for at, name in self.modules[module] if at <= offset]
        h.check(below, f"{frame:#x} is before its module")
        return below[-1]


def symbols(session):
    """(error, names, fd); fd is -1 where there is nothing newer than what the session gave last."""
    n, last = len(session.fds), getattr(session, "names", None)
    error, data = session.ask(h.SYMBOLS)
    h.check(len(data) == 40, f"SYMBOL_NAMES has {len(data)} bytes")
    generation, size = struct.unpack_from("<QQ", data, 24)
    if error != h.OK:
        h.check(generation == 0 and size == 0 and len(session.fds) == n, "an error, and names")
        return error, None, -1
    if len(session.fds) == n:
        h.check(last and last.generation == generation, f"generation {generation}, whose names were never given")
        return error, last, -1
    h.check(not last or last.generation < generation, f"the names of generation {generation} once more")
    fd = session.fds[-1]
    with mmap.mmap(fd, size, prot=mmap.PROT_READ) as m:
        names = Names(m[:])
    h.check(os.fstat(fd).st_size == size and names.generation == generation, "SYMBOL_NAMES says what is not in the file")
    session.names = names
    return error, names, fd


def sample(way, session, seconds=1.0):
    """(samples, stacks, raw) of a process of A's that is in system calls nearly all the time."""
    with h.killed(A.spawn("dd", "if=/dev/zero", "of=/dev/null", "bs=1M", stderr=subprocess.DEVNULL)) as p:
        h.until("the target runs", lambda: h.read(f"/proc/{p.pid}/comm") == "dd\n")
        with way.act():
            h.check(session.target(p.pid)[0] == h.OK, "TARGET refused")
        h.check(session.start() == h.OK, "START refused")
        h.until("samples", lambda: sum(r[0] == 1 for r in h.ring_records(session, 1 << 20)[0]) > 200, timeout=60)
        h.check(session.stop() == h.OK, "STOP refused")
    records, raw = h.ring_records(session, 1 << 20)
    samples, stacks = [], {}
    for r in records:
        if r[0] == 1:
            flags, = struct.unpack_from("<H", r, 6)
            samples.append((flags, *struct.unpack_from("<QQ", r, 24)))
        elif r[0] == 3:
            ident, _, nr_kernel, nr_user = struct.unpack_from("<QIHH", r, 8)
            frames = struct.unpack_from(f"<{nr_kernel + nr_user}Q", r, 24)
            h.check(len(r) == 24 + 8 * len(frames), "STACK has a wrong length")
            stacks[ident] = (frames[:nr_kernel], frames[nr_kernel:])
    return samples, stacks, raw


def ready(way, **kwargs):
    kwargs = dict(QUIET, **kwargs) if way.connection else dict(kwargs, kernel=True)
    return way.ready(targets=True, hz=999, ring=1 << 20, **kwargs)


@contextlib.contextmanager
def way(name):
    """The bus with a rule that grants, or directly."""
    if name == "direct":
        yield h.Way(name, A)
        return
    rules("profile-kernel")
    try:
        with A.connect() as c:
            yield h.Way(name, A, c)
    finally:
        rules("default")


def refused(what, func):
    try:
        func()
    except OSError as e:
        h.check(e.errno in (errno.EPERM, errno.EACCES, errno.EBADF, errno.EINVAL), f"{what}: {e}")
    else:
        raise h.Failure(f"{what} was not refused")


def check_sealed(fd):
    h.check(fcntl.fcntl(fd, F_GET_SEALS) == ALL_SEALS, f"seals are {fcntl.fcntl(fd, F_GET_SEALS):#x}")

    def writable():
        again = os.open(f"/proc/self/fd/{fd}", os.O_RDWR)
        os.close(again)
    refused("write", lambda: os.pwrite(fd, b"x", 0))
    refused("ftruncate", lambda: os.ftruncate(fd, 0))
    refused("growing", lambda: os.ftruncate(fd, 1 << 30))
    refused("a writable mapping", lambda: mmap.mmap(fd, 4096))
    refused("a seal more", lambda: fcntl.fcntl(fd, F_ADD_SEALS, 16))
    with A.act():
        refused("opening it to write", writable)
        refused("chmod", lambda: os.fchmod(fd, 0o777))
        refused("an attribute", lambda: os.setxattr(fd, "user.x", b"x"))


def file_of(session):
    """What identifies the file with the names that the session hands out."""
    error, _, fd = symbols(session)
    h.check(error == h.OK, f"SYMBOLS: error {error}")
    return os.fstat(fd).st_dev, os.fstat(fd).st_ino


def check_names(names):
    wanted, start, _ = kallsyms()
    for module, number in names.numbers.items():
        places = wanted.pop(module)
        base = 0 if module == "kernel" else min(places)
        h.check([offset + base for offset, _ in names.modules[number]] == sorted(places), f"{module}: other places")
        for offset, name in names.modules[number]:
            h.check(name in places[offset + base], f"{module}: {name} is not at {offset:#x}")
    h.check(not wanted, f"no names for {list(wanted)}")


def test_names():
    for name in ("bus", "direct"):
        with way(name) as w, ready(w) as s:
            error, names, fd = symbols(s)
            h.check(error == h.OK, f"SYMBOLS: error {error}")
            h.check(names.generation == 1, f"generation {names.generation}")
            check_sealed(fd)
            check_names(names)
            # It goes on working, and from START on as well.
            with h.killed(A.spin()) as p:
                with w.act():
                    h.check(s.target(p.pid)[0] == h.OK, "TARGET refused")
                h.check(s.start() == h.OK, "START refused")
                h.check(symbols(s)[1].generation == 1, "nothing has changed, and there is a new generation")


def test_shared():
    """Made once for all sessions of a helper, whether they overlap or not."""
    with way("bus") as w:
        with ready(w) as first, ready(w) as second:
            files = {file_of(first), file_of(second)}
        with ready(w) as third:
            files.add(file_of(third))
    h.check(len(files) == 1, f"three sessions got {len(files)} files")


def test_once():
    """However often it is asked, the names come once."""
    for name in ("bus", "direct"):
        with way(name) as w, ready(w) as s:
            n = len(s.fds)
            for _ in range(300):
                h.check(symbols(s)[0] == h.OK, "SYMBOLS refused")
            h.check(len(s.fds) == n + 1, f"{len(s.fds) - n} descriptors")


UNREAD, SESSIONS = 250, 4
PLACES = 8  # BUDGET_SESSIONS_USER


def leave_unread(w, questions=UNREAD):
    """A session that its client has ended, with answers in its socket."""
    s = ready(w)
    for _ in range(questions):
        s.send(s.message(h.SYMBOLS))

    def lying():
        n = array.array("i", [0])
        fcntl.ioctl(s.socket, termios.FIONREAD, n)
        return n[0]
    h.until("all is answered", lambda: lying() == questions * 40)
    s.socket.shutdown(socket.SHUT_WR)
    return s


def test_unread():
    """
    What nobody reads lies in the socket, and counts against the helper's user. There are more answers than descriptors
    may be on their way, and others go on getting theirs. So that there are not ever more, each session stays until
    it is read.
    """
    def sessions():
        resource.setrlimit(resource.RLIMIT_NOFILE, (300, 300))
        w = h.Way("direct", A)
        with contextlib.ExitStack() as stack:
            unread = [stack.enter_context(leave_unread(w)) for _ in range(SESSIONS)]
            # Nothing that they held is left but their sockets.
            h.until("the sessions have ended", lambda: all(len(os.listdir(f"/proc/{pid}/fd")) < 10
                                                           for pid in h.role_pids("session")))
            h.check(len(h.role_pids("session")) == SESSIONS, "those that are not read are not there")
            with ready(w) as s:
                h.check(symbols(s)[2] >= 0, "no names for the next")
            w.works()
            for s in unread:
                for i in range(UNREAD):
                    data, got = s.receive()
                    s.fds += got
                    answer = (h.HEAD.unpack_from(data)[3], *struct.unpack_from("<Q", data, 24), len(got))
                    h.check(answer == (h.OK, 1, int(i == 0)), f"answer {i} is {answer}")
            h.until("what was read is gone", lambda: not h.role_pids("session"))

    h.fork(sessions)


def test_unread_places():
    """A user who leaves descriptors in sockets has no sessions left, and nobody else has fewer."""
    with way("bus") as w, contextlib.ExitStack() as stack:
        unread = [stack.enter_context(leave_unread(w, questions=1)) for _ in range(PLACES)]
        name, text = h.open_error(w.connection, h.options(targets=True, hz=99, **QUIET))
        h.check(name.endswith(".Budget") and "sessions of one user" in text, f"one more: {name}: {text}")
        h.check(unread[0].receive()[1], "what was left is gone")

        def next_one():
            try:
                return ready(w)
            except h.DBusError as e:
                h.check(e.name.endswith(".Budget"), f"{e}")
                return None
        with h.until("its place is free", next_one) as s:
            h.check(symbols(s)[2] >= 0, "no names for the next")
        for s in unread[1:]:
            s.close()
        h.until("all places are free", lambda: not h.role_pids("session"))


def test_frames():
    _, start, end = kallsyms()
    for name in ("bus", "direct"):
        with way(name) as w, ready(w) as s:
            samples, stacks, raw = sample(w, s)
            names = symbols(s)[1]
            in_kernel = [(leaf, stack) for flags, leaf, stack in samples if flags & 1]
            h.check(len(in_kernel) > len(samples) / 2, f"{len(in_kernel)} of {len(samples)} samples in the kernel")
            # What has no frame on its way to user space: the first instructions of an entry, the last of an exit.
            joined = 0
            for leaf, stack in in_kernel:
                h.check(leaf & KERNEL_BIT and leaf != MARKER, f"{leaf:#x} in the kernel")
                kernel, user = stacks[stack]
                h.check(all(f & KERNEL_BIT for f in kernel) and not any(f & KERNEL_BIT for f in user),
                        "kernel frames are not before user frames")
                functions = [names.name(f) for f in (leaf, *kernel)]
                joined += bool(user) and any(f and "syscall" in f.lower() for f in functions)
                # Where it was interrupted, and not what interrupted it.
                h.check(not any(f and re.search("bpf_prog|perf_event_overflow|^bpf_get_stack", f) for f in functions),
                        f"we are in it: {functions}")
            h.check(joined > len(in_kernel) * 0.8, f"{joined} of {len(in_kernel)} go through a system call")
            h.check(any(len(stacks[stack][0]) > 2 for _, stack in in_kernel), "no stack is deeper than two frames")
            # Not one 8 bytes, wherever they begin, are in the kernel's text.
            top = (start >> 32).to_bytes(4, "little")
            at = raw.find(top, 4)
            while at >= 0:
                value = int.from_bytes(raw[at - 4:at + 4], "little")
                h.check(not start <= value < end, f"{value:#x} is in the ring")
                at = raw.find(top, at + 1)


def check_without(w, s, error):
    samples, stacks, _ = sample(w, s)
    h.check(symbols(s)[0] == error, f"SYMBOLS: error {symbols(s)[0]}")
    leaves = {leaf for flags, leaf, _ in samples if flags & 1}
    h.check(leaves == {MARKER}, f"kernel leaves {[hex(leaf) for leaf in leaves]}")
    h.check(not any(kernel for kernel, _ in stacks.values()), "kernel frames, and no grant")


def test_without():
    # Asked for and not granted, not asked for, and directly.
    with A.connect() as c:
        w = h.Way("bus", A, c)
        for extra in (QUIET, {}):
            with w.ready(targets=True, hz=999, ring=1 << 20, **extra) as s:
                check_without(w, s, h.E_STATE)
    w = h.Way("direct", A)
    with w.ready(targets=True, hz=999, ring=1 << 20) as s:
        check_without(w, s, h.E_STATE)


@contextlib.contextmanager
def instead_of(path, text):
    """A /proc file as it would be elsewhere; the helper that is started inside sees it. Yields a function that rewrites it."""
    fake = "/run/fake-" + os.path.basename(path)

    def write(text):
        with open(fake, "w") as f:
            f.write(text)
    write(text)
    subprocess.run(["mount", "--bind", fake, path], check=True)
    try:
        yield write
    finally:
        subprocess.run(["umount", "-l", path], check=True)


def test_restricted():
    """kernel.kptr_restrict is 2, the kernel has no symbols, or the file is no such file."""
    real = h.read("/proc/kallsyms")
    for text in (re.sub("^[0-9a-f]+", "0" * 16, real, flags=re.M), "", "no symbols\n\0\n\xff" * 1000):
        with instead_of("/proc/kallsyms", text):
            w = h.Way("direct", A)
            with ready(w) as s:
                check_without(w, s, h.E_NO_KERNEL_NAMES)


def module(name, address, *symbols, state="Live"):
    """Its lines in /proc/kallsyms, and its line in /proc/modules."""
    return ("".join(f"{address + offset:016x} t {symbol}\t[{name}]\n" for offset, symbol in symbols),
            f"{name} 16384 %d - {state} {address:#018x}\n")


def test_modules():
    """
    A kernel with modules, as this one may not be: they are loaded, used, unloaded, and loaded elsewhere. BPF programs
    come and go. Each change is seen by a session that asks, and only such changes.
    """
    core = "".join(line + "\n" for line in h.read("/proc/kallsyms").splitlines() if "[" not in line)
    at = 0xffffffffc0100000
    a, b = module("fake_a", at, (0, "a_first"), (0x10, "a_second")), module("fake_b", at + 0x8000, (0, "b_first"))
    a_elsewhere = module("fake_a", at + 0x20000, (0, "a_first"), (0x10, "a_second"))
    a_going = module("fake_a", at + 0x20000, (0, "a_first"), (0x10, "a_second"), state="Unloading")
    bpf = f"{at + 0x30000:016x} t bpf_prog_0123456789abcdef_secret\t[bpf]\n"

    def loaded(*modules, used=0, more=""):
        for name, text in (("kallsyms", core + "".join(m[0] for m in modules) + more),
                           ("modules", "".join(m[1] % used for m in modules))):
            with open("/proc/" + name, "w") as f:
                f.write(text)

    def asked(session, generation):
        def look():
            error, names, fd = symbols(session)
            h.check(error == h.OK, f"SYMBOLS: error {error}")
            if fd >= 0:
                session.fds.remove(fd)
                os.close(fd)
            return names if names.generation == generation else None
        return h.until(f"generation {generation}", look)

    def unchanged(session, generation):
        # A look at the modules at least, for there is one each second.
        end = time.monotonic() + 2.2
        while time.monotonic() < end:
            asked(session, generation)
            time.sleep(0.3)

    def session():
        h.hide_proc()
        loaded(a, b)
        with ready(h.Way("direct", A)) as s:
            names = asked(s, 1)
            numbers = {name: names.numbers[name] for name in ("fake_a", "fake_b")}
            h.check(names.modules[numbers["fake_a"]] == [(0, "a_first"), (0x10, "a_second")], "fake_a's symbols")
            loaded(a, b, used=3, more=bpf)
            unchanged(s, 1)
            loaded(b)
            names = asked(s, 2)
            h.check("fake_a" not in names.numbers and names.numbers["fake_b"] == numbers["fake_b"], "fake_a is gone")
            loaded(a_elsewhere, b, more=bpf)
            names = asked(s, 3)
            h.check(names.numbers["fake_b"] == numbers["fake_b"], "fake_b has another number")
            h.check(names.numbers["fake_a"] not in numbers.values(), "a number was used again")
            h.check("bpf" not in names.numbers, "names of BPF programs")
            loaded(a_going, b)
            h.check("fake_a" not in asked(s, 4).numbers, "fake_a has names as it goes")

    h.fork(session)


h.main(test_names, test_shared, test_once, test_unread, test_unread_places, test_frames, test_without, test_restricted, test_modules)
