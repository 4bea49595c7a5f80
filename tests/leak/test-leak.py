#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""
Does anything that reaches a user tell where the kernel lies?

User A profiles its own processes with kernel frames, over the real bus. Every byte it is given is compared with what
root knows: the ring's pages, the counters and the memory for unwind tables, watched while they are filled and swept as
a whole; every record; each message and memfd of the session; replies, errors and properties of the bus; a recording,
and what the program prints. The memory for tables, which only its client writes, is to stay as that leaves it.
Secret are the core text, the modules' and the run-time code's area, the direct map, and each task's own addresses: as
64-bit values at any offset, and as two halves. Ids of stacks are compared with hashes over raw frames for every
base the kernel may have been loaded at.

What stands in the ring for a moment only is found at any offset near the producer's position; elsewhere, where it is not
aligned, by one look of sixteen.

What can be said of halves. Half an address is 32 bits like any others; and of the million different words of a session,
in which times and ids are as good as random, a few are in any set of thousands. So wherever a half stands, near the
other or not, it cannot be told by itself, but by their number (halves.c):

- Lower halves of the core text, whose upper one is known to all. The 512 places it may be at are compared: at the
  real one there must not be CLEARLY times as many words as at any other, and SOME more. So a leak that gives away fewer
  different addresses than that, some thirty, is not found here. Where it stands in one record with its frame not one is
  chance, and none is overlooked.
- Lower halves of the modules' text, the same way, against the same modules moved by up to 256 pages: they begin
  at one of 1024 pages (module_load_offset). Ten to twenty different addresses are found; fewer are not, but where they
  stand in one record with their frame. A kernel without modules shows nothing of this: that halves of modules are
  found is shown with some that are made up.
- Lower halves of tasks and what belongs to them, against the same set moved by a little, the same way: some eight
  objects are found. Of those that begin a page, as stacks do, nothing can be said: so do offsets in files.
- Upper halves of these, which tell where the direct map and the stacks are: there are a handful, and chance has one of
  them in perhaps one of a thousand runs. So one is enough.

What is found by numbers counts if it is there again in a second run, for a leak is and chance is not. So does what is
in the area of modules and run-time code, which half of all numbers with an upper half of ones are: where a program's
stack has a word of ones, it stands behind the id of another for a moment, now and then.

    test-leak.py SCAN ADDRESSES HASH HALVES TEXT-MUTANT RENAME N-MUTANTS

The mutants are helpers that leak on purpose, each in one way: that the leak is found is what shows that the rest of
this test means something.
"""

import contextlib
import mmap
import os
import random
import re
import signal
import sqlite3
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "helper"))

import harness as h

SCAN, ADDRESSES, HASH, HALVES, TEXT_MUTANT, RENAME = sys.argv[1:7]
N_MUTANTS = int(sys.argv[7])
PROGRAMS = os.path.join(os.environ["RINGSIDE_TEST_BUILD"], "tests", "access")
A = h.User("RINGSIDE_TEST_USER_A")
RING = 1 << 20
TABLES = 4 << 20  # unwind-table.h
COUNTER_SIZE = 256  # record.h
HZ = 9999
HZ_EVERYBODY = 1999
HZ_RENAMES = 19000
RULES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib")
SECONDS = float(os.environ.get("RINGSIDE_LEAK_SECONDS", "4"))
# arch/x86: the kernel is put at a multiple of 2 MiB in this GiB (CONFIG_RANDOMIZE_BASE, Documentation/x86/x86_64/mm).
TEXT_AREA, TEXT_STEP, BASES = 0xffffffff80000000, 2 << 20, 512
MODULES_END = 0xffffffffff000000
MODULE_STEP = 4096
MADE_AT_RUN_TIME = re.compile(r"\[(bpf|__builtin__)")
CLEARLY, SOME = 3, 4
BY_CHANCE = {"many text", "many modules", "many objects", "upper", "page", "ring", "modules-and-jit in ring"}


def told():
    """Of each task where the kernel has it, and what goes into the ids of its stacks: addresses.c."""
    return subprocess.run([ADDRESSES], stdout=subprocess.PIPE, check=True, text=True).stdout.splitlines()


class Secrets:
    """What root knows, as the file that the scanner reads."""

    def __init__(self):
        symbols, self.modules = {}, {}
        with open("/proc/kallsyms", encoding="ascii", errors="replace") as f:
            for line in f:
                fields = line.split()
                if len(fields) == 3:
                    symbols[fields[2]] = int(fields[0], 16)
                elif len(fields) == 4 and fields[1] in "tTwW" and not MADE_AT_RUN_TIME.match(fields[3]):
                    functions = self.modules.setdefault(fields[3][1:-1], {})
                    functions[fields[2]] = min(int(fields[0], 16), functions.get(fields[2], 1 << 64))
        self.stext, self.etext = symbols["_stext"], symbols["_etext"]
        self.places = {a - self.stext for a in symbols.values() if self.stext <= a < self.etext}
        h.check(self.stext >= TEXT_AREA, "root does not see where the kernel is")
        lines = [(self.stext, self.etext, "core-text"), (self.etext, MODULES_END, "modules-and-jit")]
        lines += [(min(f.values()), (max(f.values()) | 4095) + 1, "module") for f in self.modules.values()]
        tasks = [[int(field, 16) for field in line.split()] for line in told()]
        h.check(len(tasks) > 50, f"only {len(tasks)} tasks")
        stacks = {task[1] for task in tasks} - {0}
        allocated = {address for task in tasks for address in task[:6]} - {0}
        # Slab objects are in the direct map; so much around them as there is memory. The first task's are in the image.
        slab = sorted(address for address in allocated - stacks if address < TEXT_AREA)
        lines.append((slab[0] & -(1 << 30), (slab[-1] | ((1 << 30) - 1)) + 1, "direct-map"))
        lines += [(stack, stack + 16384, "kernel-stack") for stack in stacks]
        self.ranges = sorted(lines)
        self.directory = tempfile.TemporaryDirectory(prefix="ringside-secrets-")
        self.path = self.write("secrets", self.ranges)
        # Small numbers in a long row, as the names' offsets are, look at odd offsets like anything within so many GiB.
        objects = [(a & -4096, (a & -4096) + 16384, "object") for a in slab]
        self.narrow = self.write("narrow", sorted([r for r in lines if r[2] != "direct-map"] + objects))

    def write(self, name, ranges):
        path = os.path.join(self.directory.name, name)
        with open(path, "w", encoding="ascii") as f:
            for start, end, what in ranges:
                f.write(f"{start:x} {end:x} {what}\n")
        return path

    def has(self, value):
        """The name of the secret that a number gives away."""
        return next((name for start, end, name in self.ranges if start <= value < end), None)

    def processes(self):
        """What goes into ids besides frames: a file for the hasher."""
        path = os.path.join(self.directory.name, "processes")
        with open(path, "w", encoding="ascii") as f:
            for line in told():
                f.write(" ".join(line.split()[6:8]) + "\n")
        return path

    def note_objects(self):
        """Of the tasks that there are now, what halves are compared with. Aligned as most words are not."""
        addresses = {int(field, 16) for line in told() for field in line.split()[:6]}
        self.objects = {a for a in addresses if 0 < a < TEXT_AREA and a % 64 == 0}
        h.check(len(self.objects) > 200, f"only {len(self.objects)} objects")

    def starts(self, names):
        """Where each module begins, by the number in a session's names (kernel-names.h): at its first function."""
        starts = {0: self.stext}
        if not names:
            return starts
        n, n_symbols = struct.unpack_from("<II", names, 16)
        symbols = 32 + 16 * n

        def string(at):
            at += symbols + 8 * n_symbols
            return names[at:names.index(b"\0", at)].decode()
        for i in range(n):
            number, name, first, _ = struct.unpack_from("<IIII", names, 32 + 16 * i)
            functions = self.modules.get(string(name), {})
            function = string(struct.unpack_from("<I", names, symbols + 8 * first + 4)[0])
            if number and function in functions:
                starts[number] = functions[function]
        return starts

    def halves(self, addresses, words):
        """
        Words (halves.c) for what there are too many halves among these files' words: a set of what. addresses: those
        of frames, besides what root knows.
        """
        in_text = {a for a in addresses if a < self.etext}
        in_modules = {a for functions in self.modules.values() for a in functions.values()} | addresses - in_text
        first = min(in_modules, default=MODULES_END) & -MODULE_STEP
        sets = {"text": (self.stext, TEXT_AREA + (self.stext & TEXT_STEP - 1), TEXT_STEP, BASES,
                         *self.places, *(a - self.stext for a in in_text)),
                "modules": (first, first - BASES // 2 * MODULE_STEP, MODULE_STEP, BASES,
                            *(a - first for a in in_modules)),
                "objects": self.objects}
        paths = [os.path.join(self.directory.name, name) for name in sets]
        for path, numbers in zip(paths, sets.values()):
            with open(path, "w", encoding="ascii") as f:
                f.write("".join(f"{number:x}\n" for number in numbers))
        out = subprocess.run([HALVES, *paths, *words], stdout=subprocess.PIPE, check=True, text=True).stdout
        found, file = set(), -1
        for what, *counts in (line.split() for line in out.splitlines()):
            file += what == "text"
            hits, most, _ = map(int, counts)
            many = hits > 0 if what == "upper" else hits >= CLEARLY * most + SOME
            if many or file == 0:
                print(f"{os.path.basename(words[file])}: {what} {' '.join(counts)}", flush=True)
            if many:
                found.add("upper" if what == "upper" else "many " + what)
        return found

    def scan(self, words, *arguments, narrow=False, **kwargs):
        """The scanner's totals by name, how many bytes it saw, and all it said. words: a file for those it has seen."""
        out = subprocess.run([SCAN, self.narrow if narrow else self.path, words, *map(str, arguments)],
                             stdout=subprocess.PIPE, check=True, text=True, **kwargs).stdout
        totals = {name: int(n) for name, n in re.findall(r"^total (\S+) (\d+)$", out, re.M)}
        return totals, int(re.search(r"^scanned (\d+)$", out, re.M)[1]), out


class Given:
    """Everything that reached the user beside the ring, by where it came from."""

    def __init__(self):
        self.directory = tempfile.TemporaryDirectory(prefix="ringside-given-")
        self.data = {}
        self.files = []

    def add(self, name, data):
        self.data[name] = self.data.get(name, b"") + data

    def write(self):
        """As files: the ones that are files already stay."""
        for name, data in self.data.items():
            path = os.path.join(self.directory.name, name)
            with open(path, "wb") as f:
                f.write(data)
            self.files.append(path)
        return self.files


def receive_into(session, given):
    """All messages of the session go to given as well."""
    receive = session.receive

    def recorded(timeout=h.PATIENCE):
        message = receive(timeout)
        if message:
            given.add("messages", message[0])
        return message

    session.receive = recorded


WORK = {
    "calls": "import os\nwhile True:\n os.stat('/')\n os.getppid()\n os.uname()",
    "pages": "import mmap\nwhile True:\n m = mmap.mmap(-1, 1 << 20)\n for i in range(0, 1 << 20, 4096): m[i] = 1\n"
             " m.close()",
    "pipes": "import os\nr, w = os.pipe()\nwhile True:\n os.write(w, b'x' * 4096); os.read(r, 4096)",
    "forks": "import os\nwhile True:\n pid = os.fork()\n if not pid: os._exit(0)\n os.waitpid(pid, 0)",
    "files": "import os\nwhile True:\n for d, _, names in os.walk('/usr/share'):\n"
             "  [os.stat(os.path.join(d, n)) for n in names]",
}


@contextlib.contextmanager
def work():
    """User A's processes, each busy in another part of the kernel."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(h.killed(A.spawn("/usr/bin/python3", "-c", program))) for program in WORK.values()]


def open_session(connection, everybody):
    if everybody:
        return h.open_session(connection, scope=("s", "system"), hz=HZ_EVERYBODY, ring=RING, tables=TABLES,
                              kernel=("s", "quiet"))
    return h.open_session(connection, targets=True, hz=HZ, ring=RING, tables=TABLES, kernel=("s", "quiet"))


def name_targets(session, processes):
    # A stranger's process, refused; then the real ones.
    h.check(session.target(os.getpid())[0] == h.E_TARGET_HIDDEN, "a process of root is a target")
    for p in processes:
        h.until("the target is its user's", lambda p=p: os.stat(f"/proc/{p.pid}").st_uid == A.uid)
        with A.act():
            h.check(session.target(p.pid)[0] == h.OK, "TARGET refused")


def bus_errors(connection, given):
    """Replies, errors and properties that the helper has for everybody."""
    for member, signature, args in (("ListEvents", "", ()), ("OpenSession", "a{sv}", ([("x", ("s", "y"))],)),
                                    ("OpenSession", "a{sv}", ([],)), ("Nothing", "", ()),
                                    ("OpenSession", "a{sv}", (h.options(hz=20000),)),
                                    ("OpenSession", "a{sv}", (h.options(scope=("s", "system")),))):
        try:
            given.add("bus", repr(h.call(connection, member, signature, args)).encode())
        except h.DBusError as e:
            given.add("bus", e.name.encode() + b"\n" + e.text.encode() + b"\n")
    given.add("bus", repr(connection.call(h.NAME, h.PATH, "org.freedesktop.DBus.Properties", "GetAll", "s",
                                          [h.NAME])).encode())


def read_all(fd, size=0):
    """Of a file; or so much of a map."""
    with mmap.mmap(fd, size or os.fstat(fd).st_size, prot=mmap.PROT_READ) as m:
        return m[:]


def counters_size():
    """Bytes that can be mapped of a session's counters."""
    with open("/sys/devices/system/cpu/possible", encoding="ascii") as f:
        cpus = int(re.search(r"(\d+)$", f.read().strip())[1]) + 1
    page = os.sysconf("SC_PAGESIZE")
    return (COUNTER_SIZE * cpus + page - 1) // page * page


def profile(secrets, given, dump, everybody, seconds):
    """One session: the scanner's totals for its ring, and what else it gave. The ring's dump is for the caller."""
    with A.connect() as connection, work() as processes:
        bus_errors(connection, given)
        with open_session(connection, everybody) as session:
            receive_into(session, given)
            with A.act():
                h.check(session.hello() == h.OK, "HELLO refused")
            h.check(len(session.fds) == 3, f"{len(session.fds)} descriptors, not a ring, counters and tables")
            ring, counters, tables = session.fds
            beside = {"counters": (counters, counters_size()), "tables": (tables, TABLES)}
            if not everybody:
                name_targets(session, processes)
            secrets.note_objects()
            h.check(session.start() == h.OK, "START refused")
            totals, scanned, out = secrets.scan(
                dump + ".words", "ring", ring, RING, seconds, dump,
                *(argument for name, memory in beside.items() for argument in (name, *memory)), pass_fds=session.fds)
            known = secrets.processes()
            session.stats()
            if everybody:
                mapped = [session.maps(pid)[1] for pid in (os.getpid(), 1, processes[0].pid)]
                h.check(mapped[0] and mapped[2], "no mappings of other users' processes")
            names = None
            error, data = session.ask(h.SYMBOLS)
            if error == h.OK:
                names = read_all(session.fds[-1])
                given.add("names", names)
            session.stop()
            for name, memory in beside.items():
                given.add(name, read_all(*memory))
            session.send(b"nonsense")
            session.ended()
    return totals, scanned, out, names, known


def recording(given):
    """What the program itself makes of it: its file, and all that it prints."""
    path = os.path.join(given.directory.name, "leak.ringside")
    os.chmod(given.directory.name, 0o777)
    with h.killed(A.spawn("/usr/bin/python3", "-c", WORK["files"])):
        for command in (["record", "-F", "999", "-d", "1", "-o", path], ["report", path],
                        ["report", "--format=json", path]):
            p = subprocess.run(["as-user", A.name, "ringside", *command], stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, check=True)
            given.add("printed", p.stdout)
    given.files.append(path)


class Records:
    """The dump of a ring: the records that were in it."""

    SAMPLE, WSAMPLE, STACK = 1, 2, 3
    KERNEL = 1 << 63

    def __init__(self, path):
        self.samples, self.stacks = [], []
        with open(path, "rb") as f:
            data = f.read()
        position = 0
        while position + 4 <= len(data):
            length, = struct.unpack_from("<I", data, position)
            record = data[position + 4:position + 4 + length]
            position += 4 + length
            if record[0] in (self.SAMPLE, self.WSAMPLE):
                self.samples.append(record)
            elif record[0] == self.STACK:
                self.stacks.append(record)

    @staticmethod
    def frames(stack):
        n = sum(struct.unpack_from("<HH", stack, 20))
        return struct.unpack_from(f"<{n}Q", stack, 24)

    def addresses(self, record, starts):
        """Of the kernel frames that this record tells: each with its offset into the core's or a module's text."""
        frames = self.frames(record) if record[0] == self.STACK else struct.unpack_from("<Q", record, 24)
        offsets = {(f >> 48 & 0x7fff, f & 0xffffffffffff) for f in frames if f & self.KERNEL}
        return {(starts[module] + offset, offset) for module, offset in offsets if module in starts}

    def halves(self, starts):
        """How many frames have the lower half of their address beside them, at any offset of their record."""
        hits = 0
        for record in self.samples + self.stacks:
            for address, offset in self.addresses(record, starts):
                low = struct.pack("<I", address & 0xffffffff)
                # A frame's own bytes hold its offset, not its address.
                hits += low in record and low != struct.pack("<I", offset & 0xffffffff)
        return hits


def texts(secrets, path, numbers):
    """Numbers that are written out, in any of the usual ways; they go to numbers as well."""
    with open(path, "rb") as f:
        data = f.read()
    found = set()
    for match in re.finditer(rb"[0-9a-fA-F]{8,16}|\d{9,20}", data):
        for base in (10, 16):
            with contextlib.suppress(ValueError):
                numbers.add(int(match[0], base) & (1 << 64) - 1)
                name = secrets.has(int(match[0], base))
                if name:
                    found.add(f"{name} {match[0].decode()} in {os.path.basename(path)}")
    return found


def cells(secrets, path, numbers):
    """Integers of a database, which have a form of their own on disk; they go to numbers as well."""
    found, n = set(), 0
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    for table, in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall():
        rows = db.execute(f"SELECT * FROM {table}")
        names = [c[0] for c in rows.description]
        for row in rows:
            for column, cell in zip(names, row):
                # Time before the recording is negative, as an address would be.
                if isinstance(cell, int) and (table, column) != ("process", "start"):
                    n += 1
                    numbers.add(cell & (1 << 64) - 1)
                    name = secrets.has(cell & (1 << 64) - 1)
                    if name:
                        found.add(f"{name} {cell:x} in {table}.{column}")
    db.close()
    h.check(n > 1000, f"the recording has only {n} numbers")
    return found


def ids(secrets, dump, processes):
    """Ids that can be computed, at each base there is."""
    base = TEXT_AREA + (secrets.stext & TEXT_STEP - 1)
    out = subprocess.run([HASH, dump, f"{base:x}", f"{TEXT_STEP:x}", str(BASES), processes], stdout=subprocess.PIPE,
                         check=True, text=True).stdout
    return re.findall(r"^id .*$", out, re.M), int(re.search(r"^compared (\d+)$", out, re.M)[1])


def look(secrets, whole, everybody=False, seconds=0):
    """
    Every way in which this helper leaks: a set of words. whole: all that there is, and enough of it. seconds: for how
    long the ring is looked at, 0: SECONDS.
    """
    leaks = set()
    given, numbers = Given(), set()
    with given.directory as directory:
        dump = os.path.join(directory, "dump")
        totals, scanned, out, names, known = profile(secrets, given, dump, everybody, seconds or SECONDS)
        looked = {name: list(map(int, numbers)) for name, *numbers in
                  re.findall(r"^looked (\S+) (\d+) (\d+) (\d+)$", out, re.M)}
        leaks |= {name for name, (_, _, hits) in looked.items() if hits}
        if sum(totals.values()) > sum(hits for _, _, hits in looked.values()):
            leaks |= {"ring"} | {f"{name} in ring" for name in totals}
        if totals:
            print("".join(re.findall(r"^hit.*\n", out, re.M)[:8]), end="")
        where = set(re.findall(r"^hit \S+ \S+ (page|sweep|consumer|producer|record)\+", out, re.M))
        if where and "record" not in where:
            leaks.add("page")
        records = Records(dump)
        starts = secrets.starts(names)
        if records.halves(starts):
            leaks.add("halves")
        matches, compared = ids(secrets, dump, known)
        if matches:
            leaks.add("ids")
        if whole:
            recording(given)
            leaks |= cells(secrets, given.files[-1], numbers)
        words = [dump + ".words"]
        for path in given.write():
            words.append(os.path.join(directory, f"{len(words)}.words"))
            totals, _, out = secrets.scan(words[-1], "file", path, narrow=os.path.basename(path) == "names")
            leaks |= {f"{name} in {os.path.basename(path)}" for name in totals}
        if given.data["tables"].strip(b"\0"):
            leaks.add("tables written")
        for path in given.files:
            if texts(secrets, path, numbers):
                leaks.add("text")
        told_of = {a for r in records.samples + records.stacks for a, _ in records.addresses(r, starts)}
        in_text = {a for a in told_of if a < secrets.etext}
        with open(dump + ".numbers", "wb") as f:
            f.write(b"".join(struct.pack("<Q", number) for number in numbers))
        leaks |= secrets.halves(told_of, [*words, dump + ".numbers"])
        kernel = sum(records.frames(s)[0] >> 63 for s in records.stacks)
        print(f"{scanned >> 20} MiB of pages looked at, {len(records.samples)} samples, {len(records.stacks)} "
              f"stacks, {kernel} of them with the kernel's part, {len(in_text)} places in the core text, "
              f"{len(told_of - in_text)} in modules, {compared} hashes, "
              f"{', '.join(f'{name} looked at {n[0]} times, {n[1]} changes' for name, n in looked.items())}, "
              f"{', '.join(sorted(leaks)) or 'no leak'}", flush=True)
        if whole:
            # Without these the rest would show nothing.
            h.check(len(records.samples) > 1000 and kernel > 300 and len(in_text) > 300 and compared > 300 * BASES,
                    "too little came for this to mean anything")
            h.check(not secrets.modules or len(told_of - in_text) > 3, "too little came of modules")
            h.check(not everybody or len({struct.unpack_from("<I", r, 16) for r in records.samples}) > 2 * len(WORK),
                    "hardly anybody else was seen")
            h.check(names and len(names) > 1 << 20, "no names of the kernel's functions")
            h.check(looked["counters"][1] > 300, "too little of the counters was seen to change")
            h.check(looked["tables"][0] > 2 * (TABLES >> 10), "too little of the tables was looked at")
            h.check(len(given.files) == 7, f"only {given.files}")
    return leaks


def leaks_of(**kwargs):
    """What may be chance, once, is to be found twice: the rest is right the first time."""
    leaks = look(Secrets(), whole=True, **kwargs)
    if leaks and leaks <= BY_CHANCE:
        print(f"{leaks}: is it there again?", flush=True)
        leaks &= look(Secrets(), whole=True, **kwargs)
    return leaks


def test_scanner():
    """What a ring shows at odd offsets, out of the sweeps' way, and beside its positions, which both are 0 here."""
    secrets = Secrets()
    page = os.sysconf("SC_PAGESIZE")
    beside = 2 * page + 2 * RING
    for where, at in (("page", 2 * page + RING + 1003), ("consumer", 1003), ("producer", page + 1003),
                      ("tables", beside + TABLES - 1003)):
        with open(os.memfd_create("ring"), "r+b", buffering=0) as f, \
             open(os.memfd_create("tables"), "r+b", buffering=0) as tables:
            f.truncate(beside)
            tables.truncate(TABLES)
            file, at = (tables, at - beside) if at >= beside else (f, at)
            os.pwrite(file.fileno(), struct.pack("<Q", secrets.stext + 0x1234), at)
            _, _, out = secrets.scan(secrets.path + ".words", "ring", f.fileno(), RING, 0.1, os.devnull, "tables",
                                     tables.fileno(), TABLES, pass_fds=[f.fileno(), tables.fileno()])
        h.check(re.search(rf"^hit core-text \S+ {where}\+", out, re.M), f"not found in a {where}: {out}")


def test_halves_of_modules():
    """Of modules that are made up, for there may be none here, among words that are as good as random."""
    secrets = Secrets()
    secrets.note_objects()
    numbers = random.Random(1)
    functions = [0xffffffffc0123000 + 16 * at for at in numbers.sample(range(1 << 16), 5000)]
    secrets.modules = {"module": {str(a): a for a in functions}}
    told_of = {a + 5 for a in functions[:100]}
    words = [numbers.getrandbits(32) for _ in range(1 << 18)]
    for leak, expected in ([], False), (functions[:20], True), (sorted(told_of)[:20], True):
        path = secrets.path + ".words"
        with open(path, "wb") as f:
            f.write(struct.pack(f"<{len(words) + len(leak)}I", *words, *(a & 0xffffffff for a in leak)))
        found = secrets.halves(told_of, [path])
        h.check(("many modules" in found) == expected, f"{len(leak)} halves of modules: {found}")
    # Its names, as of a session; and a stack of one frame, with the half of its address in the id and without.
    first = min(functions)
    names = (struct.pack("<IIQIIQ", 0x6e6b7372, 1, 1, 2, 2, 0) + struct.pack("<IIII", 0, 0, 0, 1) +
             struct.pack("<IIII", 7, 7, 1, 1) + struct.pack("<IIII", 0, 0, 0, 14) +
             f"kernel\0module\0{first}\0".encode())
    starts = secrets.starts(names)
    h.check(starts == {0: secrets.stext, 7: first}, f"modules begin at {starts}")
    for half, expected in (0, 0), (first + 0x125 & 0xffffffff, 1):
        record = struct.pack("<B7xIIIHHQ", Records.STACK, half, 1, 1, 1, 0, Records.KERNEL | 7 << 48 | 0x125)
        with open(path, "wb") as f:
            f.write(struct.pack("<I", len(record)) + record)
        h.check(Records(path).halves(starts) == expected, "the half of a module's address beside its frame")


def test_nothing_leaks():
    """
    What user A's own processes show. Modules are among it where the kernel has some: that is so where tests/system
    runs this.
    """
    leaks = leaks_of()
    h.check(not leaks, f"leaks: {leaks}")


def test_everybody():
    """The same with all that profile-system shows: other users, kernel threads, mappings that are asked for."""
    subprocess.run(["polkit-rules", os.path.join(RULES, "profile-system.rules")], check=True)
    leaks = leaks_of(everybody=True)
    subprocess.run(["polkit-rules", os.path.join(RULES, "profile-kernel.rules")], check=True)
    h.check(not leaks, f"leaks: {leaks}")


def test_renames():
    """
    Names of files that change while they are read, in a session without kernel frames: the lengths of one name with
    the bytes of another show what stands behind it.
    """
    secrets = Secrets()
    with tempfile.TemporaryDirectory(prefix="ringside-rename-") as directory, A.connect() as connection:
        os.chmod(directory, 0o777)
        dump = os.path.join(secrets.directory.name, "dump")
        with h.killed(A.spawn(RENAME, os.path.join(directory, "d"))) as p, \
             h.open_session(connection, targets=True, hz=HZ_RENAMES, ring=RING, kernel=("s", "no")) as session:
            with A.act():
                h.check(session.hello() == h.OK, "HELLO refused")
                h.until("it is its user's", lambda: os.stat(f"/proc/{p.pid}").st_uid == A.uid)
                h.check(session.target(p.pid)[0] == h.OK, "TARGET refused")
            h.check(session.start() == h.OK, "START refused")
            ring = session.fds[0]
            totals, _, out = secrets.scan(dump + ".words", "ring", ring, RING, 3 * SECONDS, dump, pass_fds=[ring])
            h.check(p.poll() is None, "it does not rename any more")
            session.stop()
        with open(dump, "rb") as f:
            data = f.read()
        names = data.count(b"LLLLLLLL\0") + data.count(b"/d/a\0")
        print(f"{names} paths of the file that is renamed", flush=True)
        h.check(names > 1000, "its mappings are not told of")
        h.check(not totals, f"leaks: {out}")


def install(program):
    """Another helper, in this mount namespace only, from the next call on."""
    path = h.helper_path()
    with open(path + ".new", "wb") as f:
        os.fchmod(f.fileno(), 0o711)
        f.write(program)
    os.rename(path + ".new", path)
    for pid in h.role_pids("front"):
        os.kill(pid, signal.SIGTERM)
    h.until("the old helper has ended", lambda: not h.helpers())


LOOKS = 10
MUTANTS = {1: {"ring"}, 2: {"page"}, 3: {"ids"}, 4: {"halves", "many text"}, 5: {"many text"},
           6: {"many objects", "upper"}, 7: {"counters", "tables", "tables written"}}


def look_for(expected, what):
    """What stands in the ring for a moment is seen by who is on a CPU just then: where others are, it takes longer."""
    leaks = set()
    for i in range(LOOKS):
        leaks = look(Secrets(), whole=False, seconds=SECONDS / 2 if i == 0 else SECONDS)
        if expected <= leaks:
            return
        print(f"{what}: {leaks}, not {expected}; again", flush=True)
    h.check(False, f"{what} is not found: {leaks}")


def test_planted():
    """Each planted leak is found, and by what it is."""
    h.check(set(range(1, N_MUTANTS + 1)) == set(MUTANTS), "a mutant that nothing is known to find")
    original = h.read(h.helper_path(), "rb")
    try:
        for number, found in MUTANTS.items():
            install(h.read(f"{PROGRAMS}/ringside-helper-leak-{number}", "rb"))
            look_for(found, f"planted leak {number}")
        install(h.read(TEXT_MUTANT, "rb"))
        look_for({"text"}, "an address in an error's text")
    finally:
        install(original)


if __name__ == "__main__":
    h.main(test_scanner, test_halves_of_modules, test_nothing_leaks, test_everybody, test_renames, test_planted)
