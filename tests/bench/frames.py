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
        # A file without any functions has its addresses; what is no file, as the vdso, is one place.
        return self.name, self.starts[i - 1] if i > 0 else address if self.loads else 0


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
    SELECT stack, walk_end & 15, count(*) FROM sample JOIN thread ON thread.id = thread JOIN process ON process.id = process
    WHERE CAST(process.comm AS TEXT) = ? GROUP BY 1, 2
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


def beginnings(stacks):
    """Where programs and threads begin: the first frames, and what of the C library calls what is the program's own."""
    found = set()
    for whole in stacks.whole:
        found.add(whole[0])
        for frame in whole[1:]:
            if not frame[0].startswith("libc.so"):
                break
            found.add(frame)
    return found


LINE = re.compile(r"\s+([0-9a-f]+) \((.*)\)$")
HEAD = re.compile(r"(.*?)\s+(\d+)/(\d+)\s*$")


class PerfScript:
    """The stacks of what `perf script -F comm,pid,tid,ip,dso` prints: addresses of users' code are places in files."""

    def __init__(self, images, comm, begins):
        self.images, self.comm, self.begins = images, comm, begins
        self.known = {}
        self.stacks = Stacks(collections.Counter(), collections.Counter(), [0], collections.Counter(), [0])

    def frame(self, offset, path):
        if (offset, path) not in self.known:
            image = self.images.get(path)
            self.known[offset, path] = image.function(image.address_at(offset))
        return self.known[offset, path]

    def add(self, addresses):
        frames = tuple(self.frame(*a) for a in reversed(addresses) if a[0] < KERNEL)
        self.stacks.frames[0] += len(frames)
        if not frames or frames[0] not in self.begins:
            self.stacks.cut[frames] += 1
        elif len(frames) < len(addresses):
            self.stacks.kernel[0] += 1
        else:
            self.stacks.whole[frames] += 1

    def read(self, lines):
        ours, addresses = False, []
        for line in lines:
            frame = LINE.match(line)
            if frame:
                addresses.append((int(frame.group(1), 16), frame.group(2)))
            elif line.strip():
                head = HEAD.match(line.strip())
                ours, addresses = bool(head) and head.group(1) == self.comm, []
            elif ours and addresses:
                self.add(addresses)
                ours, addresses = False, []
        if ours and addresses:
            self.add(addresses)
        return self.stacks


def without_beginning(stack, begins):
    """One tool goes on to _start where the other one does not."""
    n = next((i for i, frame in enumerate(stack) if frame not in begins), len(stack))
    return stack[n:]


def compare(ours, *theirs, n=100):
    """
    Of our hottest stacks: the part of their weight that is in stacks which perf has as well, in any of its runs, for what is
    seen a few times in one may not be seen in another; and those that it has not.
    """
    begins = beginnings(ours)
    known = {without_beginning(stack, begins) for run in theirs for stack in run.whole}
    hottest = collections.Counter()
    for stack, samples in ours.whole.items():
        hottest[without_beginning(stack, begins)] += samples
    hottest = hottest.most_common(n)
    weight = sum(samples for _, samples in hottest)
    missing = [(samples, stack) for stack, samples in hottest if stack not in known]
    return 1 - sum(samples for samples, _ in missing) / max(1, weight), missing
