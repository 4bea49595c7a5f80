# SPDX-License-Identifier: LGPL-2.1-or-later
"""
What a session of ring-dump.c delivered: its records as the library tells them, and the ring's memory.
"""

import collections
import struct
import subprocess
import tempfile

from world import PROGRAMS, check

# kind: "sample", "stack", or what happened to a process. 0 and "" where a record has no such thing.
Record = collections.namedtuple("Record", "kind time pid tid ppid comm mode leaf stack")
STACK, MAPPING = 3, 5  # enum rs_record_type


class Dump:
    """What one session delivered."""

    def __init__(self, output, raw):
        self.records, self.targets, self.statistics = [], {}, {}
        for line in output.decode(errors="replace").splitlines():
            self.parse(*line.split(" "))
        check(self.statistics, "the session gave no statistics")
        self.position, size = struct.unpack("<QQ", raw[:16])
        check(self.position < size, "the ring wrapped around: too much for this test")
        self.memory = raw[16:]
        self.bytes = self.memory.rstrip(b"\0")
        self.words = set(memoryview(self.bytes + b"\0" * (-len(self.bytes) % 4)).cast("I"))

    def parse(self, word, *rest):
        if word == "sample":
            time_, pid, tid, mode, _, leaf, stack = rest
            self.records.append(Record(word, int(time_), int(pid), int(tid), 0, "", mode, leaf, stack))
        elif word == "stack":
            self.records.append(Record(word, 0, int(rest[0]), 0, 0, "", "", "", rest[1]))
        elif word == "process":
            what, time_, pid, tid, ppid, *comm = rest
            self.records.append(
                Record(what, int(time_), int(pid), int(tid), int(ppid), " ".join(comm), "", "", ""))
        elif word == "mapping":
            time_, pid, addresses, _, _, _, _, _, *path = rest
            self.records.append(Record(word, int(time_), int(pid), 0, 0, " ".join(path), "", "", addresses))
        elif word == "target":
            self.targets[int(rest[0])] = int(rest[1])
        elif word == "statistics":
            self.statistics = {k: int(v) for k, v in (field.split("=") for field in rest)}

    def raw_records(self):
        """The ring's own walk through what was written, without the library: (type, pid, tid)."""
        at = 0
        while at < self.position:
            length, = struct.unpack_from("<I", self.memory, at)
            check(not length & 0xc0000000, "a record that is unfinished or discarded")
            kind, _, size = struct.unpack_from("<BBH", self.memory, at + 8)
            check(size == length, "a record whose length is not the ring's")
            if kind == MAPPING:
                pid, tid = *struct.unpack_from("<I", self.memory, at + 8 + 56), 0
            else:
                pid, tid = struct.unpack_from("<II", self.memory, at + 8 + 16)
            yield kind, pid, tid if kind != STACK else 0
            at += (length + 8 + 7) & ~7

    def of(self, target):
        return [r for r in self.records if r.pid == target.pid]


class Session:
    """ring-dump, in a place."""

    def __init__(self, prefix, *options):
        self.raw = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [*prefix, PROGRAMS + "/ring-dump", "--raw", str(self.raw.fileno()), *options], cwd="/",
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=(self.raw.fileno(),))
        self.head = b""
        self.expect(b"open\n")

    def expect(self, expected):
        while True:
            line = self.process.stdout.readline()
            self.head += line
            if line == expected:
                break
            check(line, f"no session: {' '.join(self.process.args)}")

    def start(self):
        """Returns when whatever happens next is told."""
        self.process.stdin.write(b"start\n")
        self.process.stdin.flush()
        self.expect(b"started\n")

    def stop(self):
        output = self.process.communicate(timeout=300)[0]  # it may have all of the ring to tell
        check(self.process.returncode == 0, "ring-dump failed")
        self.raw.seek(0)
        return Dump(self.head + output, self.raw.read())
