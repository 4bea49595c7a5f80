# SPDX-License-Identifier: LGPL-2.1-or-later
"""
Unwind tables (common/unwind-table.h), written by hand for a program whose every frame is known: with them its stacks
are whole, and while they are spoilt, a word at a time or all at once, nothing is told but what a call stands before,
every sample is accounted for, and the helper goes on.

    test-tables.py TARGET COUNTING-HELPER SECONDS [TEST...]
"""

import collections
import json
import mmap
import os
import random
import signal
import struct
import subprocess
import sys
import threading
import time

import harness as h

A, B = h.users()
# meson's paths are those in the build directory, which users reach by another one.
TARGET, COUNTING = (os.path.join(os.environ["RINGSIDE_TEST_BUILD"], path) for path in sys.argv[1:3])
SECONDS = int(sys.argv[3])
MIB = 1 << 20
HZ, RING, TABLES = 4999, 32 * MIB, 4 * MIB
# common/unwind-table.h
PROCESSES, PROBES, RULES_AT, HEAP_AT, PAGE = 8192, 8, 8192 * 32, 8192 * 32 + 65536 * 16, 256
CFA_REG, AT_CFA, SAME, UNDEFINED, SIGNAL, AT_BASE = 1, 1, 0, 3, 0x80, 2
CFA_DEREF = 2
FRAME_POINTERS = 1 << 31
RBP, RSP = 6, 7
# common/record.h
RECORD_STACK, RECORD_PROCESS, STACK_GUESSED, FRAME_EXACT = 3, 4, 1, 1 << 62
COMPLETE, BAD_RETURN, NO_TABLES, NO_MAPPING, NO_RULE, NO_CALL, END_MAX = 1, 5, 7, 8, 9, 12, 13
Stack = collections.namedtuple("Stack", "guessed kernel frames")
Sample = collections.namedtuple("Sample", "pid leaf stack end kernel")


def symbols():
    text = subprocess.run(["nm", TARGET], check=True, stdout=subprocess.PIPE, text=True).stdout
    return {name: int(address, 16) for address, kind, name in map(str.split, text.splitlines()) if kind in "tTdD"}


S = symbols()
CODE, CODE_END = S["_start"], S["inner_end"]


def rule(cfa=0, reg=0, offset=0, ra=AT_CFA, ra_offset=-8, fp=SAME, fp_offset=0):
    return struct.pack("<BBBBiii", cfa, reg, fp, ra, offset, fp_offset, ra_offset)


RULES = [
    rule(ra=0, ra_offset=0),
    rule(CFA_REG, RSP, 8, ra=UNDEFINED),                        # _start
    rule(CFA_REG, RSP, 8),                                      # inner, and all at their first instruction
    rule(CFA_REG, RSP, 32),                                     # outer
    rule(CFA_REG, RSP, 56, fp=AT_CFA, fp_offset=-16),           # middle
    rule(CFA_REG, RSP, 16),                                     # handler
    rule(CFA_DEREF, RSP, 160, ra=SIGNAL | AT_BASE, ra_offset=168, fp=AT_BASE, fp_offset=120),
    rule(CFA_REG, RBP, 16, fp=AT_CFA, fp_offset=-16),           # holder
]
OF_START, OF_INNER, OF_OUTER, OF_HOLDER = 1, 2, 3, 7
FORMS = [f"form_{i}" for i in range(1, 14)]
# Where each rule begins; framed has none. push %rbp is one byte, sub from %rsp four.
ROWS = sorted([(S["_start"], 1), (S["outer"], 2), (S["outer"] + 4, 3), (S["framed"], 0), (S["middle"], 2),
               (S["middle"] + 5, 4), (S["handler"], 2), (S["handler"] + 4, 5), (S["restorer"] - 1, 6), (S["holder"], OF_HOLDER), (S["inner"], OF_INNER)] +
              [row for form in FORMS for row in ((S[form], 2), (S[form] + 4, 5))] +
              [(S["jumper"], 5), (S["starts"], 0), (S["nearly"], 0), (S["former"], 1), (S["become"], 0), (S["latter"], 1)])


class Tables:
    """The memory of a session's tables, and where in it what stands."""

    def __init__(self, session):
        h.check(len(session.fds) >= 3, f"{len(session.fds)} descriptors with tables")
        self.map = mmap.mmap(session.fds[2], TABLES)
        self.place, self.generation = None, 0
        self.used = [(RULES_AT, len(RULES) * 16)]
        at = HEAP_AT
        self.list, at = at, at + 3 * 32
        self.pages, at = at, at + (CODE_END - CODE + PAGE - 1) // PAGE * 8
        self.rows = at = (at + 4095) // 4096 * 4096
        self.used += [(self.list, 96), (self.pages, self.rows - self.pages), (self.rows, 4 * (len(ROWS) + 1))]
        self.fill()

    def fill(self):
        self.map[RULES_AT:RULES_AT + 16 * len(RULES)] = b"".join(RULES)
        # One mapping below and one above: the search has something to look for.
        entries = [(0x1000, 0x2000, 0, 0, 0), (CODE, CODE_END, CODE & ~(PAGE - 1), self.pages // 8, (CODE_END - CODE + PAGE - 1) // PAGE),
                   (0x7ffff0000000, 0x7ffff0001000, 0, 0, 0)]
        self.map[self.list:self.list + 96] = b"".join(struct.pack("<QQQII", *e) for e in entries)
        first = self.rows // 4 + 1
        rows = [0] + [(address & 0xff) << 24 | number for address, number in ROWS]
        self.map[self.rows:self.rows + 4 * len(rows)] = struct.pack(f"<{len(rows)}I", *rows)
        for i, page in enumerate(range(CODE & ~(PAGE - 1), CODE_END, PAGE)):
            here = [address for address, _ in ROWS if page <= address < page + PAGE]
            struct.pack_into("<Q", self.map, self.pages + 8 * i, first << 32 | len(here))
            first += len(here)

    def set_rule(self, number, to):
        self.map[RULES_AT + 16 * number:RULES_AT + 16 * (number + 1)] = to
        self.forget()

    def add_mapping(self, address, of):
        """What is around an address is walked by the rule of another, which is the only one of its page."""
        page = (of - (CODE & ~(PAGE - 1))) // PAGE
        self.map[self.list + 64:self.list + 96] = struct.pack("<QQQII", address - 4, address + 4, address - 4 & ~(PAGE - 1),
                                                              self.pages // 8 + page, 1)
        self.forget()

    def slot(self, pid, start):
        return ((start ^ pid) * 0x9e3779b97f4a7c15 & (1 << 64) - 1) >> 40 & PROCESSES - 1

    def publish(self, pid, start, probe=0):
        place = (self.slot(pid, start) + probe) % PROCESSES * 32
        struct.pack_into("<QIIQQ", self.map, place, start, pid, 0, 0, 0)
        self.place = place
        self.forget()
        struct.pack_into("<Q", self.map, place + 16, self.list // 32 << 32 | 3)
        self.used.append((place, 32))

    def share(self, pid, start):
        """To another process the same list is published, and as of the same generation."""
        place = (self.slot(pid, start) + (self.slot(pid, start) * 32 == self.place)) % PROCESSES * 32
        struct.pack_into("<QIIQQ", self.map, place, start, pid, 0, 0, self.generation)
        struct.pack_into("<Q", self.map, place + 16, self.list_of())

    def forget(self):
        """Has the programs look again at what they remember."""
        self.generation += 1
        if self.place is not None:
            struct.pack_into("<Q", self.map, self.place + 24, self.generation)

    def list_of(self):
        return struct.unpack_from("<Q", self.map, self.place + 16)[0]


def parse(records):
    """Samples, {id: stack}, {pid: start}."""
    samples, stacks, starts = [], {}, {}
    for r in records:
        if r[0] in (h.RECORD_SAMPLE, h.RECORD_WSAMPLE):
            flags, = struct.unpack_from("<H", r, 6)
            pid, _, leaf, stack = struct.unpack_from("<IIQQ", r, 16)
            samples.append(Sample(pid, leaf, stack, flags >> 10, flags & 1))
        elif r[0] == RECORD_STACK:
            flags, = struct.unpack_from("<H", r, 6)
            number, _, n_kernel, n_user = struct.unpack_from("<QIHH", r, 8)
            frames = struct.unpack_from(f"<{n_kernel + n_user}Q", r, 24)
            stacks[number] = Stack(flags & STACK_GUESSED, n_kernel, frames[:n_kernel] + tuple(
                f & ~FRAME_EXACT for f in frames[n_kernel:]))
        elif r[0] == RECORD_PROCESS:
            pid, = struct.unpack_from("<I", r, 16)
            starts[pid], = struct.unpack_from("<Q", r, 32)
    return samples, stacks, starts


class Run:
    """A session on one target, sampling."""

    def __init__(self, *arguments, way="direct"):
        self.target = A.spawn(TARGET, *arguments)
        h.until("the target is its user's", lambda: os.stat(f"/proc/{self.target.pid}").st_uid == A.uid and
                h.read(f"/proc/{self.target.pid}/comm").startswith(os.path.basename(TARGET)[:15]))
        self.session = h.open_direct(targets=True, hz=HZ, ring=RING, tables=TABLES)
        h.check(self.session.hello() == h.OK, "HELLO")
        self.tables = Tables(self.session)
        h.check(self.session.target(self.target.pid) == (h.OK, 1), "TARGET")
        h.check(self.session.start() == h.OK, "START")
        self.pid = self.target.pid
        self.start = h.until("it was seen", lambda: self.parse()[2].get(self.pid))

    def parse(self):
        return parse(h.ring_records(self.session, RING)[0])

    def more(self, n=300):
        """So many samples more, and the stacks there are by then."""
        before = len(self.parse()[0])
        h.until("samples", lambda: len(self.parse()[0]) >= before + n)
        samples, stacks, _ = self.parse()
        return samples[before:], stacks

    def counters(self):
        """taken, emitted, lost; samples by how their walk ended."""
        n = os.sysconf("SC_NPROCESSORS_CONF")
        with mmap.mmap(self.session.fds[1], (256 * n + 4095) // 4096 * 4096, mmap.MAP_SHARED, mmap.PROT_READ) as m:
            each = [struct.unpack_from("<32Q", m, 256 * i) for i in range(n)]
        sums = [sum(c) for c in zip(*each)]
        return sums[0], sums[1], sums[2], sums[16:]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.target.kill()
        self.target.wait()
        self.tables.map.close()
        self.session.close()


def check_stacks(samples, stacks, *expected, least=0.99):
    """Whole stacks, by names of addresses; those that another sample's are may be few: where it begins."""
    found = collections.Counter()
    names = {address: name for name, address in S.items()}
    h.check(len(samples) < 200 or {bool(s.kernel) for s in samples} == {False, True}, "not both of the user's and the kernel's mode")
    for s in samples:
        stack = stacks[s.stack] if s.stack else Stack(0, 0, ())
        frames = list(stack.frames[stack.kernel:])
        if s.kernel and frames and S["inner"] <= frames[0] < S["inner_end"]:
            frames = frames[1:]
        elif not (S["inner"] <= s.leaf < S["inner_end"]):
            frames = [s.leaf] + frames
        found[tuple(names.get(f, hex(f)) for f in frames), s.end, bool(stack.guessed)] += 1
    good = sum(found[e] for e in expected)
    h.check(good >= least * len(samples), f"{good} of {len(samples)} are {expected}: {found}")


CHAIN = ("after_inner", "after_middle", "after_framed", "after_outer")
IN_HANDLER = ("after_handled", "restorer", "interrupted", "after_middle", "after_framed", "after_outer")


def test_whole():
    """Without tables of the process nothing but the leaf; with them all; and without again after an exec."""
    with Run() as run:
        samples, stacks = run.more(50)
        check_stacks(samples, stacks, ((), NO_TABLES, False))
        for probe in (0, PROBES - 1):
            run.tables.publish(run.pid, run.start, probe)
            run.more(20)
            samples, stacks = run.more()
            check_stacks(samples, stacks, (CHAIN, COMPLETE, True))
            struct.pack_into("<Q", run.tables.map, run.tables.place + 16, 0)
        # One further is not looked at.
        run.tables.publish(run.pid, run.start, PROBES)
        run.more(20)
        check_stacks(*run.more(50), ((), NO_TABLES, False))
        struct.pack_into("<Q", run.tables.map, run.tables.place + 16, 0)
        # Another process's.
        run.tables.publish(run.pid, run.start + 1)
        run.tables.publish(run.pid + 1, run.start)
        run.more(20)
        check_stacks(*run.more(50), ((), NO_TABLES, False))


def test_lost_frame_pointer():
    """After a guess a frame pointer of 0 is the end; but not one that a rule has lost since, and which was 0 before."""
    with Run() as run:
        run.tables.publish(run.pid, run.start)
        run.tables.set_rule(OF_START, rule())
        run.more(20)
        check_stacks(*run.more(), (CHAIN, COMPLETE, True))
        run.tables.set_rule(OF_OUTER, rule(CFA_REG, RSP, 32, fp=UNDEFINED))
        run.more(20)
        check_stacks(*run.more(), (CHAIN, NO_RULE, True))


def test_frame_pointers():
    """
    In place of a list it may be said that there is none to come. Each stack ends as one by frame pointers does; but
    only return addresses are told.
    """
    with Run() as run:
        run.tables.publish(run.pid, run.start)
        struct.pack_into("<Q", run.tables.map, run.tables.place + 16, FRAME_POINTERS)
        run.more(20)
        samples, stacks = run.more(100)
        ends = {s.end for s in samples}
        h.check(ends and not ends & {COMPLETE, NO_TABLES, NO_MAPPING, NO_RULE}, f"ends {ends}")
        frames = {f for s in samples if s.stack for f in stacks[s.stack].frames[stacks[s.stack].kernel + s.kernel:]}
        h.check(all(map(called, frames)), f"told: {[hex(f) for f in frames]}")


def test_signal():
    """What a signal interrupted has no call before it, and is told; and a frame that only says it is one of a signal is not."""
    with Run("signal") as run:
        run.tables.publish(run.pid, run.start)
        run.more(20)
        check_stacks(*run.more(), (IN_HANDLER, COMPLETE, True))
        # inner claims to have been called by a signal that interrupted what is in fact where the stack was.
        run.tables.set_rule(OF_INNER, rule(CFA_REG, RSP, 8, ra=SIGNAL | AT_BASE, ra_offset=24 + 160))
        run.more(20)
        samples, stacks = run.more(100)
        frames = {f for s in samples if s.stack for f in stacks[s.stack].frames[stacks[s.stack].kernel:]
                  if not S["inner"] <= f < S["inner_end"]}
        h.check(all(f in (S["restorer"],) or called(f) for f in frames), f"told: {[hex(f) for f in frames]}")


def test_children():
    """What has been forked and executed nothing is walked by its parent's tables."""
    with Run("and", "children") as run:
        run.tables.publish(run.pid, run.start)
        run.more(20)
        samples, stacks = run.more()
        children = [s for s in samples if s.pid != run.pid]
        h.check(len({s.pid for s in children}) > 2, "hardly any children")
        # They fork, begin and exit.
        check_stacks(children, stacks, (CHAIN, COMPLETE, True), least=0.9)


def test_calls():
    """Every form of a call is one; and what is none ends the walk."""
    with Run("the", "forms", "of") as run:
        run.tables.publish(run.pid, run.start)
        run.more(20)
        check_stacks(*run.more(), (tuple(f"after_{form}" for form in FORMS[::-1]) + ("after_forms",), COMPLETE, False))
    with Run("not", "a", "call", "here") as run:
        run.tables.publish(run.pid, run.start)
        run.more(20)
        check_stacks(*run.more(), ((), NO_CALL, False))


def test_thread_of_go():
    """It begins where it seems to, and not where its frame pointer leads to, which is the one of whoever made it."""
    inside = ("after_inner", "after_middle")
    for words, chain in ((9, inside + ("after_starts",)), (10, inside + ("after_nearly", "after_outer"))):
        with Run(*["word"] * words) as run:
            run.tables.publish(run.pid, run.start)
            run.more(20)
            check_stacks(*run.more(), (chain, COMPLETE, True))


def test_remembered():
    """
    That a call stands before an address is not remembered for another process where none does, nor for itself once it
    has executed something else, even if a client gives both the same list and generation.
    """
    def of(pid):
        run.more(20)
        samples, stacks = run.more(800)
        samples = [s for s in samples if s.pid == pid]
        h.check(len(samples) > 100, f"{len(samples)} samples")
        return samples, stacks

    with Run("seven", "words", "for", "what", "calls", "inner", "first") as run:
        run.tables.publish(run.pid, run.start)
        check_stacks(*of(run.pid), (("after_formerly",), COMPLETE, False))
        with h.killed(A.spawn(TARGET, "and", "eight", "for", "what", "has", "no", "call", "there")) as other:
            h.until("it runs", lambda: h.read(f"/proc/{other.pid}/comm").startswith(os.path.basename(TARGET)[:15]))
            h.check(run.session.stop() == h.OK and run.session.target(other.pid) == (h.OK, 1) and
                    run.session.start() == h.OK, "another target")
            run.tables.share(other.pid, h.until("it was seen", lambda: run.parse()[2].get(other.pid)))
            check_stacks(*of(other.pid), ((), COMPLETE, False))
        words = run.tables.list_of()
        os.kill(run.pid, signal.SIGUSR1)
        h.until("it has executed", lambda: run.tables.list_of() == 0)
        run.tables.map[run.tables.place + 16:run.tables.place + 24] = struct.pack("<Q", words)
        check_stacks(*of(run.pid), ((), COMPLETE, False))


# The numbers of words that holder has: two that are neither addresses nor far from each other, two of data, two far from the stack,
# and 0; and where a function begins, before which no rule is.
KNOWN, NEXT, DATA_1, DATA_2, ABOVE, BELOW, NOTHING, BEGINNING = range(8)
# Of inner: its caller found, and the secret taken for the frame pointer, or for the return address.
TO_FRAME_POINTER = rule(CFA_REG, RSP, 8, fp=AT_BASE, fp_offset=8)
TO_RETURN = rule(CFA_REG, RSP, 16)
GIB = 1 << 30


def outcome(secret, inner, holder, mapped=(), until=None):
    """
    All that is told of walks of inner, by so hostile rules: {(end, guessed, names of callers)}. until: from when one has ended
    so, for what is mapped at an address is asked for one address at a time, and not while others are asked for.
    """
    names = {address: name for name, address in S.items()}
    with Run("what", "is", "it", "then", str(secret)) as run:
        run.tables.set_rule(OF_INNER, inner)
        run.tables.set_rule(OF_HOLDER, holder)
        if mapped:
            run.tables.add_mapping(*mapped)
        run.tables.publish(run.pid, run.start)
        run.more(20)
        if until is not None:
            h.until("a walk ends as it has to", lambda: any(s.end == until for s in run.more(20)[0]))
        samples, stacks = run.more(150)
        found = collections.Counter()
        for s in samples:
            stack = stacks[s.stack] if s.stack else Stack(0, 0, ())
            if not s.kernel and S["inner"] <= s.leaf < S["inner_end"]:
                found[s.end, stack.guessed, tuple(names.get(f, hex(f)) for f in stack.frames[stack.kernel:])] += 1
        return found


def check_untold(what, one, other, *tables):
    """Two words of the stack are not told apart."""
    a, b = outcome(one, *tables), outcome(other, *tables)
    print(f"    {what}: {dict(a)}", flush=True)
    h.check(a and set(a) == set(b), f"{what}: one word gives {a}, the other {b}")


def test_secrets():
    """Rules cannot compare a word with anything, nor tell anything of it by what they have for it."""
    # Once it has been made the stack pointer, a word that is known is what any other one is compared with.
    inner = rule(CFA_DEREF, RSP, 16, ra=AT_BASE, ra_offset=0)
    check_untold("with a known word", KNOWN, NEXT, inner, rule(CFA_DEREF, RBP, -16, ra=AT_BASE, ra_offset=8))
    check_untold("with the stack pointer", KNOWN, BELOW, rule(CFA_REG, RSP, 8), rule(CFA_DEREF, RSP, 0, ra=AT_BASE, ra_offset=24))
    check_untold("far above", KNOWN, ABOVE, TO_FRAME_POINTER, rule(CFA_REG, RBP, -GIB))
    check_untold("far below", KNOWN, BELOW, TO_FRAME_POINTER, rule(CFA_REG, RBP, GIB))
    check_untold("deep in the stack", KNOWN, ABOVE, TO_FRAME_POINTER, rule(CFA_DEREF, RBP, -GIB))
    check_untold("as a frame pointer", KNOWN, NEXT, TO_FRAME_POINTER, rule(CFA_REG, RSP, 32))
    check_untold("as a return address", KNOWN, NEXT, TO_RETURN, rule())
    # Two words of data, one of them where a mapping is said to be, in which a walk ends, or in which it does not.
    for what, holder in (("beyond a cut", rule(CFA_REG, RBP, 16, ra=AT_BASE, ra_offset=-16)),
                         ("a guess beyond a cut", rule(CFA_REG, RBP, -8, ra=AT_BASE, ra_offset=-16))):
        check_untold(what, DATA_1, DATA_2, rule(CFA_REG, RSP, 8), holder, (S["data_1"], S["_start"]))
        check_untold(what + ", of a signal", DATA_1, DATA_2, rule(CFA_REG, RSP, 8), holder, (S["data_1"], S["restorer"]))


def test_false_end():
    """
    A 0 is the end where the frame pointer is one, too, and so is where a function begins; else the walk went astray. What lies
    where nothing is mapped is not what is not in memory.
    """
    marked = rule(CFA_REG, RSP, 16, fp=AT_BASE, fp_offset=24)
    for word, inner, end in ((NOTHING, TO_RETURN, BAD_RETURN), (NOTHING, marked, COMPLETE), (BEGINNING, TO_RETURN, NO_CALL),
                             (BEGINNING, marked, COMPLETE), (ABOVE, TO_RETURN, NO_MAPPING)):
        found = outcome(word, inner, rule(), until=end)
        # What is known may be forgotten for another.
        good = sum(n for (e, _, frames), n in found.items() if (e, frames) == (end, ()))
        h.check(good >= 0.9 * sum(found.values()) > 0, f"word {word}, {'' if inner == marked else 'not '}marked: {found}")


def test_fake_signal():
    """What a process has in its data is not taken for a frame of the kernel's."""
    with Run("a", "stack", "that", "looks", "like", "one") as run:
        run.tables.set_rule(OF_INNER, TO_RETURN)
        run.tables.add_mapping(S["fake_code"], S["restorer"])
        run.tables.publish(run.pid, run.start)
        run.more(20)
        samples, stacks = run.more(100)
        found = collections.Counter((s.end, stacks[s.stack].frames[stacks[s.stack].kernel + s.kernel:] if s.stack else ())
                                    for s in samples)
        h.check(set(found) <= {(NO_CALL, ()), (NO_MAPPING, ())} and found[NO_CALL, ()], f"of a fake frame of a signal: {found}")


def by_scope(scope, own):
    """Whole stacks, and ends, of a target, where Yama says this; own: the client has started it."""
    h.check(h.libc.unshare(0x20000) == 0, "no mount namespace")
    for command in (["mount", "--make-rprivate", "/"], ["mkdir", "-p", "/run/real-sysctl"],
                    ["mount", "--bind", "/proc/sys", "/run/real-sysctl"], ["mount", "-t", "tmpfs", "tmpfs", "/proc/sys"]):
        subprocess.run(command, check=True)
    os.makedirs("/proc/sys/kernel/yama")
    for name in os.listdir("/run/real-sysctl/kernel"):
        if name != "yama":
            os.symlink("/run/real-sysctl/kernel/" + name, "/proc/sys/kernel/" + name)
    with open("/proc/sys/kernel/yama/ptrace_scope", "w") as f:
        f.write(f"{scope}\n")
    target = A.spawn(TARGET) if own else None
    if not own:
        # Its parent is gone at once.
        text = subprocess.run(["sh", "-c", f'"{TARGET}" >/dev/null & echo $!'], check=True, stdout=subprocess.PIPE, text=True,
                              user=A.uid, group=A.gid, extra_groups=[]).stdout
    pid = target.pid if own else int(text)
    try:
        h.until("it runs", lambda: h.read(f"/proc/{pid}/comm") == os.path.basename(TARGET) + "\n")
        with h.open_direct(targets=True, hz=HZ, ring=RING, tables=TABLES) as session:
            h.check(session.hello() == h.OK, "HELLO")
            tables = Tables(session)
            h.check(session.target(pid) == (h.OK, 1) and session.start() == h.OK, "TARGET")
            start = h.until("it was seen", lambda: parse(h.ring_records(session, RING)[0])[2].get(pid))
            tables.publish(pid, start)
            before = len(parse(h.ring_records(session, RING)[0])[0]) + 20
            h.until("samples", lambda: len(parse(h.ring_records(session, RING)[0])[0]) > before + 50)
            samples, stacks, _ = parse(h.ring_records(session, RING)[0])
            tables.map.close()
        ends = collections.Counter(s.end for s in samples[before:])
        return dict(ends)
    finally:
        os.kill(pid, 9)


def test_scope():
    """Where Yama says that an administrator alone may trace, tables are for what the client has started."""
    for scope, own, by_tables in ((0, False, True), (1, False, True), (2, False, False), (3, False, False), (2, True, True),
                                  (3, True, True)):
        ends = {int(end): n for end, n in h.fork(by_scope, scope, own).items()}
        whole, total = ends.get(COMPLETE, 0), sum(ends.values())
        h.check(whole > 0.9 * total if by_tables else whole == 0 and all(end < NO_TABLES for end in ends),
                f"ptrace_scope {scope}, started by the client: {own}: {ends}")


def test_exec():
    """An exec takes the tables of what was there before out of use."""
    r, w = os.pipe()
    target = A.spawn("/bin/bash", "-c", f'for ((i = 0; i < 300000; i++)); do :; done; read x <&{r}; exec "{TARGET}"', pass_fds=[r])
    os.close(r)
    session = h.open_direct(targets=True, hz=HZ, ring=RING, tables=TABLES)
    with h.killed(target), session:
        h.check(session.hello() == h.OK, "HELLO")
        tables = Tables(session)
        h.check(session.target(target.pid) == (h.OK, 1) and session.start() == h.OK, "TARGET")
        start = h.until("it was seen", lambda: parse(h.ring_records(session, RING)[0])[2].get(target.pid))
        tables.publish(target.pid, start)
        h.check(tables.list_of() != 0, "it has executed before it was told to")
        os.write(w, b"\n")
        h.until("the exec is known to its tables", lambda: tables.list_of() == 0)
        os.close(w)
        tables.map.close()


# Hostile tables.

with open(TARGET, "rb") as f:
    FILE = f.read()


def code_offset():
    """Of CODE in the file, by its program headers."""
    at, = struct.unpack_from("<Q", FILE, 32)
    size, n = struct.unpack_from("<HH", FILE, 54)
    for i in range(n):
        kind, _, offset, address, _, length = struct.unpack_from("<IIQQQQ", FILE, at + i * size)
        if kind == 1 and address <= CODE < address + length:
            return offset + CODE - address
    raise h.Failure("no code in the file")


OFFSET = code_offset()


def called(address):
    """A call that this program has stands before it."""
    if not CODE < address < CODE_END:
        return False
    before = FILE[OFFSET:OFFSET + address - CODE][-5:]
    return before[0] == 0xe8 or before[-2:] in (b"\xff\xd0", b"\xff\xd1")


def spoil(tables, rng, all_of_it):
    if all_of_it:
        for at, size in tables.used:
            tables.map[at:at + size] = rng.randbytes(size)
        tables.forget()
        return
    if rng.randrange(4) == 0:
        # A rule of any kind that is well-formed, by the same or other registers.
        tables.map[RULES_AT + 32:RULES_AT + 48] = rule(rng.randrange(6), rng.choice((RSP, RBP, rng.randrange(32))),
                                                       8 * rng.randrange(-2, 32), rng.choice((0, 1, 2, 3, 0x21, 0x81, 0x82)),
                                                       8 * rng.randrange(-4, 32), rng.randrange(4), 8 * rng.randrange(-4, 32))
        tables.forget()
        return
    at, size = rng.choice(tables.used)
    at += rng.randrange(size)
    size = rng.choice((1, 2, 4, 8))
    tables.map[at:at + size] = rng.choice((rng.randbytes(size), b"\0" * size, b"\xff" * size))
    tables.forget()


def counted(name):
    """Of the counting helper's programs (bpf/unwind.h)."""
    text = subprocess.run(["bpftool", "-j", "map", "dump", "id", str(bss_of(h.only("session")))], check=True,
                          stdout=subprocess.PIPE, text=True).stdout
    for variable in json.loads(text)[0]["formatted"]["value"][".bss"]:
        if name in variable:
            return variable[name]
    raise h.Failure("the helper does not count")


def rule_hits():
    """What was followed, by kind."""
    hits = counted("rule_hits")
    names = [f"cfa {i}" for i in range(6)] + [f"fp {i}" for i in range(4)] + [f"ra {i}" for i in range(4)] + ["plain", "signal", "saves none", "saves"]
    return dict(zip(names, hits[:6] + hits[8:12] + hits[12:16] + hits[16:20]))


def check_times():
    """
    Samples, not their mean, take a bounded time: less than a millisecond, which is far more than the longest walk takes. But
    for those in which the machine itself stood still, as one of many virtual ones may: one in fifty, at most.
    """
    times = {bit: n for bit, n in enumerate(counted("sample_times")) if n}
    print(f"    samples by the highest bit of ns: {times}", flush=True)
    total, slow = sum(times.values()), sum(n for bit, n in times.items() if bit >= 20)
    h.check(total > 0 and slow <= total / 50 + 1, f"{slow} of {total} samples took long: {times}")


def bss_of(session):
    """The number of the map of a session's global variables: it has closed it, and its programs have not."""
    held = h.maps_of(h.bpf_held([session]))
    return next(m["id"] for m in h.bpf_show("map") if m.get("name", "").endswith(".bss") and ("map", m["id"]) in held)


def hostile(*arguments):
    with h.installed(COUNTING):
        spoiled(*arguments)


def spoiled(*arguments):
    seed = int(os.environ.get("RINGSIDE_TEST_SEED", random.randrange(1 << 32)))
    rng = random.Random(seed)
    print(f"    seed {seed}", flush=True)
    with Run(*arguments) as run:
        stop, rounds = threading.Event(), 0

        def write():
            nonlocal rounds
            while not stop.is_set():
                run.tables.fill()
                run.tables.publish(run.pid, run.start)
                del run.tables.used[5:]
                for _ in range(rng.randrange(1, 20)):
                    spoil(run.tables, rng, rounds % 16 == 0)
                    time.sleep(0.0002)
                rounds += 1

        writer = threading.Thread(target=write)
        run.tables.publish(run.pid, run.start)
        writer.start()
        time.sleep(SECONDS)
        h.check(run.session.stop() == h.OK, "STOP")
        stop.set()
        writer.join()
        taken, emitted, lost, ends = run.counters()
        samples, stacks, _ = run.parse()
        print(f"    {rounds} rounds, {taken} samples, {len(stacks)} stacks; ends: {ends[:END_MAX]}", flush=True)
        h.check(taken == emitted + lost and taken > 100 * SECONDS, f"{taken} samples taken, {emitted} emitted, {lost} lost")
        h.check(sum(ends) == taken, f"{sum(ends)} ends of {taken} samples")
        h.check(sum(1 for n in ends[:END_MAX] if n) >= 7, f"hardly any ends: {ends}")
        hits = rule_hits()
        print(f"    rules: {hits}", flush=True)
        h.check(all(hits.values()), f"some kinds of rules were never followed: {hits}")
        check_times()
        h.check(run.session.start() == h.OK, "START after all that")
        bad = set()
        exempt = {S["restorer"], S["interrupted"]} if arguments else set()
        kernel_mode = {s.stack for s in samples if s.kernel}
        for number, stack in stacks.items():
            frames = stack.frames[stack.kernel:]
            # The first of a sample in the kernel is where that was entered.
            bad |= {f for f in frames[number in kernel_mode:] if not called(f) and f not in exempt}
        h.check(not bad, f"told, and no call stands before: {[hex(f) for f in bad]}")


def test_hostile():
    hostile()


def test_hostile_signal():
    hostile("signal")


if __name__ == "__main__":
    TESTS = [test_whole, test_lost_frame_pointer, test_frame_pointers, test_signal, test_children, test_calls, test_thread_of_go, test_remembered, test_secrets, test_false_end, test_fake_signal,
             test_scope, test_exec, test_hostile, test_hostile_signal]
    h.main(*[t for t in TESTS if t.__name__ in sys.argv[4:] or len(sys.argv) < 5])
