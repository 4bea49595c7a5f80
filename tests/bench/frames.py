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
COMPLETE = 1  # enum rs_walk_end
PT_LOAD, PT_GNU_EH_FRAME = 1, 0x6474e550
# A table of pairs of 32-bit numbers that count from its header on: what all linkers write.
TABLE_HEADER = bytes((1, 0x1b, 0x03, 0x3b))


# Where programs and threads begin, by name: what a stack has to begin with to be whole, whatever the walk said of its end.
# Programs that are stripped have no such name; of these it is the file's entry.
ROOTS = {"_start", "_dl_start_user", "__libc_start_main", "__libc_start_call_main", "start_thread", "thread_start",
         "clone", "__clone", "clone3", "__clone3", "runtime.clone", "runtime.clone.abi0"}
# Of Go's own functions those that a goroutine or a thread of Go's may begin with: some are run by `go`, or within a closure that is.
GO_ROOTS = re.compile(r"runtime\.((main|mstart|mcall|systemstack|morestack|rt0_go|goexit|bgsweep|bgscavenge|forcegchelper|gcBgMarkWorker|"
                      r"runfinq|runFinalizers|runCleanups)(\.abi0)?|.*\.(func|gowrap)[0-9.]+)")
IN_KERNEL = ("[kernel]", 0)  # in place of all of the kernel's frames
CUT = ("[cut]", 0)  # in front of a stack that lacks its beginning, where it is beside others


class Image:
    """A file with code: where in it addresses are, and where functions begin."""

    def __init__(self, path):
        self.name = os.path.basename(path)
        self.loads, self.starts, self.entry = [], [], None
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
        self.entry, table = struct.unpack_from("<QQ", data, 24)
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

    def is_entry(self, address):
        return self.entry not in (None, 0) and self.function(address) == self.function(self.entry)


class Images:
    def __init__(self):
        self.by_path = {}

    def get(self, path):
        if path not in self.by_path:
            self.by_path[path] = Image(path)
        return self.by_path[path]


Stacks = collections.namedtuple("Stacks", "whole cut ends frames")
# whole: {frames of the user's from the outermost on, then IN_KERNEL if it was there: samples}; cut: the same, of those that
# lack their beginning; ends: {enum rs_walk_end: samples that lack it}; frames: of the user's, of all samples together.

TREE = """
    SELECT stack.id, parent, kernel, address, CAST(path AS TEXT), CAST(name AS TEXT) FROM stack JOIN frame ON frame.id = frame
    LEFT JOIN file ON file.id = file LEFT JOIN symbol ON symbol.id = symbol ORDER BY stack.id
"""
SAMPLES = """
    SELECT stack, walk_end & 15, count(*) FROM sample JOIN thread ON thread.id = thread JOIN process ON process.id = process
    WHERE CAST(process.comm AS TEXT) = ? GROUP BY 1, 2
"""


def is_root(image, address, symbol, go):
    """
    Goroutines begin with whatever function the program says, which no name tells: of a program in Go it is the walk's own word
    that a stack is whole, but for functions that none can begin with, as most of Go's own and those of libraries.
    """
    if symbol in ROOTS or image.is_entry(address):
        return True
    return go and bool(image.loads) and ".so" not in image.name and (
        not (symbol or "").startswith("runtime.") or bool(GO_ROOTS.fullmatch(symbol)))


def of_recording(path, comm, images, go=False):
    """The stacks of all processes of this name; go: a program in Go."""
    result = Stacks(collections.Counter(), collections.Counter(), collections.Counter(), [0])
    stacks = {None: ((), False, False)}
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as db:
        for number, parent, kernel, address, name, symbol in db.execute(TREE):
            frames, rooted, in_kernel = stacks[parent]
            if not kernel:
                if not frames:
                    rooted = bool(name) and is_root(images.get(name), address, symbol, go)
                frames += (images.get(name).function(address) if name else (None, 0),)
            stacks[number] = frames, rooted, in_kernel or bool(kernel)
        for number, end, n in db.execute(SAMPLES, (comm,)):
            frames, rooted, in_kernel = stacks[number]
            result.frames[0] += n * len(frames)
            if not rooted or end != COMPLETE:
                result.ends[end] += n
            (result.whole if rooted and end == COMPLETE else result.cut)[frames + (IN_KERNEL,) * in_kernel] += n
    return result


def beginnings(stacks):
    """Where programs and threads begin: the first frames, and what of the C library calls what is the program's own."""
    found = set()
    for whole in stacks.whole:
        found.add(whole[0])
        for frame in whole[1:]:
            if not frame[0] or not frame[0].startswith("libc.so"):
                break
            found.add(frame)
    return found


LINE = re.compile(r"\s+([0-9a-f]+) \((.*)\)$")
HEAD = re.compile(r"(.*?)\s+(\d+)/(\d+)\s*$")


class PerfScript:
    """The stacks of what `perf script -F comm,pid,tid,ip,dso` prints: addresses of users' code are places in files."""

    def __init__(self, images, comm, begins):
        self.images, self.comm, self.begins = images, comm, begins
        self.known = {}  # by place in a file: the function, and whether programs begin there, whatever else has been seen
        self.stacks = Stacks(collections.Counter(), collections.Counter(), collections.Counter(), [0])

    def frame(self, offset, path):
        if (offset, path) not in self.known:
            image = self.images.get(path)
            address = image.address_at(offset)
            self.known[offset, path] = image.function(address), image.is_entry(address)
        return self.known[offset, path]

    def add(self, addresses):
        found = [self.frame(*a) for a in reversed(addresses) if a[0] < KERNEL]
        frames = tuple(function for function, _ in found)
        self.stacks.frames[0] += len(frames)
        whole = found and (frames[0] in self.begins or found[0][1])
        (self.stacks.whole if whole else self.stacks.cut)[frames + (IN_KERNEL,) * (len(frames) < len(addresses))] += 1

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


Comparison = collections.namedtuple("Comparison", "all known missing")
# Shares of the weight of the hottest stacks: all: the other run has it, whole; known: the same, but of what it has not only cut;
# missing: [(samples, stack)], those that are not in known.


def excuse(stack, samples, cut):
    """
    Of the other run's cut stacks, {frames: samples}, as many as this one may be; which then are nothing else's. A stack that is
    cut has what is inmost.
    """
    rest = samples
    for n in range(len(stack), 0, -1):
        taken = min(rest, cut.get(stack[-n:], 0))
        if taken > 0:
            cut[stack[-n:]] -= taken
            rest -= taken
    return samples - rest


def compare(ours, theirs, n=100):
    """
    Of our hottest stacks, cut ones among them: the part of their weight that is in stacks which are whole and which the other run
    has as well. What it has cut is no truth: so, apart, the same without the weight for which it has such stacks.
    """
    begins = beginnings(ours)
    known = {without_beginning(stack, begins) for stack in theirs.whole}
    cut = collections.Counter(theirs.cut)
    hottest = collections.Counter()
    for stack, samples in ours.whole.items():
        hottest[without_beginning(stack, begins)] += samples
    for stack, samples in ours.cut.items():
        hottest[(CUT,) + stack] += samples
    hottest = hottest.most_common(n)
    total = sum(samples for _, samples in hottest)
    missing = [(samples, stack) for stack, samples in hottest if stack not in known]
    same = total - sum(samples for samples, _ in missing)
    missing = [(samples - excuse(stack[stack[:1] == (CUT,):], samples, cut), stack) for samples, stack in missing]
    missing = [(samples, stack) for samples, stack in missing if samples > 0]
    judged = same + sum(samples for samples, _ in missing)
    return Comparison(same / max(1, total), same / max(1, judged), missing)


PERF_DEPTH = 127  # as many frames as `perf script` shows of a stack


def where_cut(stacks):
    """Why stacks of perf's may be cut, by what is outermost in them: {text: samples}."""
    found = collections.Counter()
    for stack, samples in stacks.cut.items():
        n = len(stack) - (stack[-1:] == (IN_KERNEL,))
        if n >= PERF_DEPTH:
            found[f"{PERF_DEPTH} frames"] += samples
        else:
            found["no frame" if n == 0 else f"{stack[0][0]}+{stack[0][1]:#x}{', alone' if n == 1 else ''}"] += samples
    return found
