# SPDX-License-Identifier: LGPL-2.1-or-later
"""
Stacks as two tools have them, made comparable: each frame as its file and where its function begins there, by the file's
own table of call frame information, which is in every file that can be unwound; so that neither tool's taste in
names decides. Outwards from where a program or a thread begins, nothing counts.
"""

import bisect
import collections
import os
import re
import sqlite3
import struct
import subprocess

KERNEL = 1 << 63
PT_LOAD, PT_GNU_EH_FRAME = 1, 0x6474e550
# A table of pairs of 32-bit numbers that count from its header on: what all linkers write.
TABLE_HEADER = bytes((1, 0x1b, 0x03, 0x3b))


class Image:
    """A file with code: where in it addresses are, and where functions begin."""

    def __init__(self, path):
        self.name = os.path.basename(path)
        self.loads, self.starts = [], []
        try:
            with open(path, "rb") as f:
                self.read(f.read())
        except (OSError, struct.error):
            pass  # the vdso, or one that is gone: one place for all of it
        if self.loads and not self.starts:
            text = subprocess.run(["nm", "--defined-only", path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                  text=True, errors="replace", check=False).stdout
            self.starts = sorted(int(line.split()[0], 16) for line in text.splitlines() if line.split()[1] in "tTwW")

    def read(self, data):
        if data[:5] != b"\x7fELF\x02":
            return
        table, = struct.unpack_from("<Q", data, 32)
        size, count = struct.unpack_from("<HH", data, 54)
        for i in range(count):
            kind, _, offset, address, _, length = struct.unpack_from("<IIQQQQ", data, table + i * size)
            if kind == PT_LOAD:
                self.loads.append((offset, length, address))
            elif kind == PT_GNU_EH_FRAME and data[offset:offset + 4] == TABLE_HEADER:
                n, = struct.unpack_from("<I", data, offset + 8)
                pairs = struct.iter_unpack("<ii", data[offset + 12:offset + 12 + 8 * n])
                self.starts = sorted(address + start for start, _ in pairs)

    def address_at(self, offset):
        for begin, length, address in self.loads:
            if begin <= offset < begin + length:
                return offset - begin + address
        return offset

    def function(self, address):
        i = bisect.bisect_right(self.starts, address)
        return self.name, self.starts[i - 1] if i > 0 else 0


class Images:
    def __init__(self):
        self.by_path = {}

    def get(self, path):
        if path not in self.by_path:
            self.by_path[path] = Image(path)
        return self.by_path[path]


Stacks = collections.namedtuple("Stacks", "whole cut kernel ends frames")
# whole: {frames from the outermost on: samples}, of samples in user code; cut: the same, of those that lack their beginning;
# kernel: samples in the kernel that have their beginning; ends: {enum rs_walk_end: samples that lack it};
# frames: of all samples together.

TREE = "SELECT stack.id, parent, kernel, address, CAST(path AS TEXT) FROM stack JOIN frame ON frame.id = frame " \
       "LEFT JOIN file ON file.id = file ORDER BY stack.id"
SAMPLES = """
    SELECT stack, walk_end, count(*) FROM sample JOIN thread ON thread.id = thread JOIN process ON process.id = process
    WHERE CAST(process.comm AS TEXT) = ? GROUP BY stack, walk_end
"""


def of_recording(path, comm, images):
    """The stacks of all processes of this name."""
    result = Stacks(collections.Counter(), collections.Counter(), [0], collections.Counter(), [0])
    stacks = {None: ((), False)}
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as db:
        for number, parent, kernel, address, name in db.execute(TREE):
            frames, in_kernel = stacks[parent]
            if not kernel:
                frames += (images.get(name).function(address) if name else (None, 0),)
            stacks[number] = frames, in_kernel or bool(kernel)
        for number, end, n in db.execute(SAMPLES, (comm,)):
            frames, in_kernel = stacks[number]
            result.frames[0] += n * len(frames)
            # What is shown as code of no file is no beginning either.
            if not frames or frames[0][0] in (None, "[unknown]", "[anon]"):
                result.ends[end] += n
                result.cut[frames] += n
            elif in_kernel:
                result.kernel[0] += n
            else:
                result.whole[frames] += n
    return result


def roots(stacks):
    return {frames[0] for frames in stacks.whole}


MAPPING = re.compile(r"PERF_RECORD_MMAP2? (\d+)/\d+: \[(0x[0-9a-f]+)\((0x[0-9a-f]+)\) @ (0x[0-9a-f]+|0) [^]]*\]: (\S+) (.*)")


class PerfScript:
    """The stacks of what `perf script --show-mmap-events -F comm,pid,tid,ip` prints."""

    def __init__(self, images, comm, begins):
        self.images, self.comm, self.begins = images, comm, begins
        self.mappings, self.known = {}, {}
        self.stacks = Stacks(collections.Counter(), collections.Counter(), [0], collections.Counter(), [0])

    def frame(self, pid, address):
        if (pid, address) not in self.known:
            found = (None, 0)
            for start, length, offset, path in reversed(self.mappings.get(pid, [])):
                if start <= address < start + length:
                    image = self.images.get(path)
                    found = image.function(image.address_at(address - start + offset))
                    break
            self.known[pid, address] = found
        return self.known[pid, address]

    def add(self, pid, addresses):
        frames = [self.frame(pid, a) for a in reversed(addresses) if a < KERNEL]
        first = next((i for i, frame in enumerate(frames) if frame in self.begins), None)
        self.stacks.frames[0] += len(frames)
        if first is None:
            self.stacks.cut[tuple(frames)] += 1
        elif any(a >= KERNEL for a in addresses):
            self.stacks.kernel[0] += 1
        else:
            self.stacks.whole[tuple(frames[first:])] += 1

    def read(self, lines):
        pid, addresses = None, []
        for line in lines:
            mapping = MAPPING.search(line)
            if mapping:
                start, length, offset = (int(n, 16) for n in mapping.group(2, 3, 4))
                if "x" in mapping.group(5):
                    # Its own way to say where there is no file; and one program has followed another.
                    self.mappings.setdefault(int(mapping.group(1)), []).append((start, length, offset, mapping.group(6)))
                    self.known = {key: frame for key, frame in self.known.items() if key[0] != int(mapping.group(1))}
                continue
            words = line.split()
            if not words:
                if pid is not None and addresses:
                    self.add(pid, addresses)
                pid, addresses = None, []
            elif line[0] in "\t " and pid is not None and len(words) == 1:
                addresses.append(int(words[0], 16))
            else:
                head = re.match(r"\s*(.*?)\s+(\d+)/(\d+)\s*$", line)
                pid = int(head.group(2)) if head and head.group(1) == self.comm else None
                addresses = []
        if pid is not None and addresses:
            self.add(pid, addresses)
        return self.stacks


def agreement(ours, theirs, n=100):
    """Of the weight of our hottest stacks, the part that is in stacks which perf has as well."""
    hottest = ours.whole.most_common(n)
    weight = sum(samples for _, samples in hottest)
    return sum(samples for stack, samples in hottest if stack in theirs.whole) / max(1, weight)
