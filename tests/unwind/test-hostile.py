#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""
test-hostile.py SECONDS: tables that are valid but for one field, another one each time, while walks use them; then random ones.
Nothing hangs, every sample is accounted for, a sample takes bounded time, and no address is told that is not one of a
call's return. Runs inside bus-env.
"""

import collections
import ctypes
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import time

from tables import HEAP_AT, RULES, RULES_AT, RULE_SIZE, SYS_BPF, Tables, writing
from unwinding import ends, program

import harness as h
from truth import USER, Recording, check, exit_status

RATE = 4999
HOLD = 0.0005
# Far more than any walk takes, on any machine, at any load; far less than a hang.
SAMPLE_NS_MAX = 1000000
BPF_ENABLE_STATS = 32
WORKLOADS = ("realigned", "prologue", "plt", "vdso")

# {field: (code, offset)}; of a page and a row the fields are parts of a word.
PROCESS = {"start": ("<Q", 0), "pid": ("<I", 8), "list": ("<Q", 16), "list.n": ("<I", 16), "list.place": ("<I", 20),
           "generation": ("<Q", 24)}
MAPPING = {"start": ("<Q", 0), "end": ("<Q", 8), "bias": ("<Q", 16), "pages": ("<I", 24), "n_pages": ("<I", 28)}
PAGE = {"n": ("<I", 0), "rows": ("<I", 4)}
ROW = {"rule": ("<H", 0), "rule.high": ("<B", 2), "pc": ("<B", 3)}
RULE = {"cfa": ("<B", 0), "reg": ("<B", 1), "fp": ("<B", 2), "ra": ("<B", 3), "cfa_offset": ("<i", 4), "fp_offset": ("<i", 8),
        "ra_offset": ("<i", 12)}
SIZES = {"<Q": 64, "<I": 32, "<i": 32, "<H": 16, "<B": 8}


def other_value(code, old):
    bits = SIZES[code]
    value = random.choice((
        0, 2**bits - 1, old + 1, old - 1, old + 8, old - 8, old + 16, old ^ 1 << random.randrange(bits), 2**(bits - 1),
        random.getrandbits(bits), random.randrange(8), 8 * random.randrange(-16, 16))) % 2**bits
    return value - 2**bits if code == "<i" and value >= 2**(bits - 1) else value


def forget(tables, slots):
    """Has walks look at the tables again, where they have not to as long as nobody says that there are others."""
    for slot in slots:
        tables.put("<Q", slot + PROCESS["generation"][1], random.getrandbits(64))


class Mutator:
    """One field of what a walk may come by, for as long as a few samples take; then it is as it was."""

    def __init__(self, tables):
        self.tables = tables
        self.counts = collections.Counter()
        self.slots = []

    def choose(self):
        """(what, fields, place) along the way that a walk goes, in processes of the workloads."""
        t = self.tables
        self.slots = list(t.slots().values())
        if not self.slots:
            return None
        slot = random.choice(self.slots)
        mappings = t.mappings(slot)
        level = random.randrange(5)
        if level == 0 or not mappings:
            return "process", PROCESS, slot
        # The first is the program itself: the smallest, and the one most frames are in.
        mapping = mappings[0] if random.random() < 0.7 else random.choice(mappings)
        if level == 1:
            return "mapping", MAPPING, mapping
        page = 8 * (t.get("<I", mapping + 24) + random.randrange(t.get("<I", mapping + 28)))
        if level == 2:
            return "page", PAGE, page
        n = t.get("<I", page)
        row = 4 * (t.get("<I", page + 4) + (random.randrange(n) if 0 < n <= 256 else -1))
        if level == 3:
            return "row", ROW, row
        return "rule", RULE, RULES_AT + (t.get("<I", row) & RULES - 1) * RULE_SIZE

    def mutate(self):
        chosen = self.choose()
        if not chosen:
            time.sleep(HOLD)
            return
        what, fields, place = chosen
        name, (code, offset) = random.choice(list(fields.items()))
        old = self.tables.get(code, place + offset)
        self.tables.put(code, place + offset, other_value(code, old))
        forget(self.tables, self.slots)
        time.sleep(HOLD)
        self.tables.put(code, place + offset, old)
        forget(self.tables, self.slots)
        self.counts[f"{what}.{name}"] += 1

    def run(self, stop):
        while not stop.is_set():
            self.mutate()


class Randomizer:
    """One of the layers that a walk goes through, anything at all, with what leads to it as it was; then another one."""

    LAYERS = ("processes", "mappings", "pages", "rows", "rules")

    def __init__(self, tables):
        self.tables = tables
        self.counts = collections.Counter()
        self.before = tables.memory[:]
        self.slots = list(tables.slots().values())
        mappings = [m for slot in self.slots for m in tables.mappings(slot)]
        self.mappings = mappings
        self.pages = sorted({8 * (tables.get("<I", m + 24) + i) for m in mappings for i in range(tables.get("<I", m + 28))})
        self.rows = [(4 * tables.get("<I", page + 4), min(tables.get("<I", page), 256)) for page in self.pages]

    @staticmethod
    def rule():
        """In ways that a walk may follow for a while."""
        offset = 8 * random.randrange(-32, 64)
        return (bytes((random.randrange(7), random.choice((6, 7, random.randrange(256))), random.randrange(5),
                       random.choice((1, 1, 1, 2, 0x81, random.randrange(256))))) +
                b"".join(n.to_bytes(4, "little", signed=True) for n in (
                    offset, 8 * random.randrange(-8, 8), random.choice((-8, 8 * random.randrange(-64, 64))))))

    def write(self, layer):
        t = self.tables
        if layer == "rules":
            rules = b"".join(self.rule() for _ in range(256))
            for place in range(RULES_AT, HEAP_AT, len(rules)):
                t.memory[place:place + len(rules)] = rules
        elif layer == "processes":
            for slot in self.slots:
                t.put("<Q", slot + 16, random.getrandbits(random.choice((20, 64))))
        elif layer == "mappings":
            for mapping in self.mappings:
                t.put("<Q", mapping + 8 * random.randrange(4), random.getrandbits(random.choice((16, 47, 64))))
        elif layer == "pages":
            for page in self.pages:
                t.put("<Q", page, random.getrandbits(32) << 32 | random.choice((1, 2, 16, 256, random.getrandbits(32))))
        else:
            for place, n in self.rows:
                if place + 4 * n <= t.size:
                    t.memory[place:place + 4 * n] = os.urandom(4 * n)
        forget(t, self.slots)
        self.counts[layer] += 1

    def run(self, stop):
        while not stop.is_set():
            for layer in self.LAYERS:
                until = time.monotonic() + 0.2
                while time.monotonic() < until and not stop.wait(HOLD):
                    self.write(layer)
                self.tables.memory[:] = self.before
                stop.wait(0.05)


def samplers():
    held = h.bpf_held(h.role_pids("session"))
    return [item for item in h.bpf_show("prog") if item["type"] == "perf_event" and ("prog", item["id"]) in held]


def is_call(code):
    """Whether a call ends these bytes; independently of how the programs decide."""
    if len(code) >= 5 and code[-5] == 0xe8:
        return True
    for n in range(2, 8):
        if len(code) >= n and code[-n] == 0xff and code[-n + 1] >> 3 & 7 == 2:
            return True
    return False


FRAMES = """
    SELECT DISTINCT CAST(path AS TEXT), address, frame.id FROM stack JOIN frame ON frame.id = frame JOIN file ON file.id = file
    WHERE kernel = 0 AND stack.id IN (SELECT parent FROM stack)
    AND stack.id NOT IN (SELECT stack.parent FROM stack JOIN frame ON frame.id = frame WHERE kernel = 1 AND parent IS NOT NULL)
"""

# What has been called by it, as frames go: where a signal's handler returns to was interrupted where its caller is.
CALLERS = "SELECT outer.frame FROM stack JOIN stack AS outer ON outer.id = stack.parent WHERE stack.frame = ?"
# mov $15, %rax; syscall
SIGRETURN = bytes.fromhex("48c7c00f0000000f05")


class Code:
    """Bytes of files by address."""

    def __init__(self, path):
        with open(path, "rb") as f:
            self.data = f.read()
        table, = h.struct.unpack_from("<Q", self.data, 32)
        size, count = h.struct.unpack_from("<HH", self.data, 54)
        headers = [h.struct.unpack_from("<IIQQQQ", self.data, table + i * size) for i in range(count)]
        self.loads = [(offset, address, length) for kind, _, offset, address, _, length in headers if kind == 1]

    def before(self, address):
        for offset, start, length in self.loads:
            if start <= address <= start + length:
                end = address - start + offset
                return self.data[max(0, end - 7):end]
        return b""

    def is_sigreturn(self, address):
        return any(self.data[address - start + offset:][:len(SIGRETURN)] == SIGRETURN for offset, start, length in self.loads
                   if start <= address < start + length)


def check_addresses(title, recording):
    """
    A caller's address in a recording is that of the call's last byte; where a signal interrupted it, the address as it was.
    Rules that are wrong may lead to a frame of a signal that was handled before.
    """
    code, wrong, n, elsewhere, interrupted = {}, [], 0, [], set()
    with sqlite3.connect(f"file:{recording.path}?mode=ro", uri=True) as db:
        rows = db.execute(FRAMES).fetchall()
        for path, address, frame in rows:
            if path.startswith("/") and Code(path).is_sigreturn(address):
                interrupted |= {frame} | {caller for caller, in db.execute(CALLERS, (frame,))}
    for path, address, frame in rows:
        if not path.startswith("/"):
            if path != "[vdso]":
                elsewhere.append((path, hex(address)))
            continue
        n += 1
        if path not in code:
            code[path] = Code(path)
        if frame not in interrupted and not any(is_call(code[path].before(a)) for a in (address + 1, address)):
            wrong.append((path, hex(address)))
    check(n > 0 and not wrong, f"{title}: {n} return addresses, {len(wrong)} without a call before: {wrong[:5]}")
    check(not elsewhere, f"{title}: {len(elsewhere)} of no file: {elsewhere[:5]}")


class Session:
    """A recording of the workloads, while somebody writes to its tables."""

    def __init__(self, directory, name, seconds, writer):
        self.title = name
        path = os.path.join(directory, name + ".ringside")
        script = " & ".join(f"{program(w)} {seconds}" for w in WORKLOADS) + "; wait"
        began = time.monotonic()
        p = subprocess.Popen(["as-user", USER, "ringside", "record", "-q", "--no-ask", "--unwind=table", "-F", str(RATE), "-o",
                              path, "--", "sh", "-c", script], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        tables = Tables(self.pid_of_workload())
        h.until("the workloads have tables", lambda: len(tables.slots()) >= len(WORKLOADS))
        self.writer = writer(tables)
        self.worst = 0.0
        before = {}
        with writing(self.writer.run):
            while p.poll() is None:
                for item in samplers():
                    self.look(before, item)
                if time.monotonic() - began > 20 * seconds + 60:
                    p.kill()
                time.sleep(0.2)
        self.recording = Recording.of_file(path, p.communicate()[0])
        check(p.returncode == 0, f"{name}: exit {p.returncode}")

    def look(self, before, item):
        """The mean of a moment with enough samples; that of each alone is looked at where they are counted (helper-tables)."""
        runs, ns = item.get("run_cnt", 0), item.get("run_time_ns", 0)
        old_runs, old_ns = before.get(item["id"], (0, 0))
        if runs - old_runs >= RATE / 20:
            self.worst = max(self.worst, (ns - old_ns) / (runs - old_runs))
            before[item["id"]] = runs, ns

    @staticmethod
    def pid_of_workload():
        """Which belongs to nobody else's test: there is one in this mount namespace."""
        comm = f"unwind-{WORKLOADS[0]}"[:15]
        h.until("the workloads run", lambda: h.named(comm))
        return h.named(comm)

    def check(self):
        with sqlite3.connect(f"file:{self.recording.path}?mode=ro", uri=True) as db:
            counter = dict(db.execute("SELECT name, value FROM counter"))
        found = ends(self.recording)
        check(counter["taken"] > 0 and counter["taken"] == counter["emitted"] + counter["lost"],
              f"{self.title}: {counter['taken']} taken = {counter['emitted']} emitted + {counter['lost']} lost")
        check(0 < self.worst <= SAMPLE_NS_MAX, f"{self.title}: {self.worst:.0f} ns a sample at worst")
        check(sum(n for end, n in found.items() if end > 1) > 0, f"{self.title}: walks ended so: {found}")
        check_addresses(self.title, self.recording)
        print(f"   written: {dict(sorted(self.writer.counts.items()))}")
        check(all(self.writer.counts.values()) and self.writer.counts, f"{self.title}: each kind of field was written")


def main():
    seconds = float(sys.argv[1]) / len(WORKLOADS)
    fields = {"process": PROCESS, "mapping": MAPPING, "page": PAGE, "row": ROW, "rule": RULE}
    random.seed()
    # For as long as this is open, whatever others want meanwhile.
    stats = h.libc.syscall(SYS_BPF, BPF_ENABLE_STATS, ctypes.create_string_buffer(4), 4)
    h.check(stats >= 0, f"the kernel does not count: {os.strerror(ctypes.get_errno())}")
    try:
        with tempfile.TemporaryDirectory(prefix="ringside-hostile-") as directory:
            os.chmod(directory, 0o777)
            mutated = Session(directory, "mutated", seconds, Mutator)
            mutated.check()
            missing = [f"{what}.{name}" for what, names in fields.items() for name in names
                       if mutated.writer.counts[f"{what}.{name}"] == 0]
            check(not missing, f"mutated: each field was, but for {missing}")
            Session(directory, "random", seconds, Randomizer).check()
            # And the helper goes on as if nothing had been.
            front = h.only("front")
            again = Recording(directory, "again", "--unwind=table", "--", program("realigned"), "1")
            check(h.only("front") == front and ends(again).get(1, 0) > 900, f"afterwards: walks ended so: {ends(again)}")
    finally:
        os.close(stats)
    return exit_status()


if __name__ == "__main__":
    sys.exit(main())
