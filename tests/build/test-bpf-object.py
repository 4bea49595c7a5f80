#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""
What the compiled programs may call, by where they run. Samplers interrupt anything, a hash's locked bucket
included: they never update or delete. Nobody discards a ring record, since a discarded one stays readable. Of unwind
tables, which the client writes, no place is looked at that was not masked to their size, and to within the chunk; nor is a register
that they name that was not to within the registers, nor user memory where they say whose address was not; and a call is looked for.

    test-bpf-object.py OBJECT
"""

import collections
import copy
import json
import re
import shutil
import subprocess
import sys

from flow import Flow

# Numbers from include/uapi/linux/bpf.h.
MAP_UPDATE_ELEM, MAP_DELETE_ELEM, RINGBUF_DISCARD, PROBE_READ_USER = 2, 3, 133, 112
RINGBUF_OUTPUT = 130
# Where tables say which word of it is looked at, or written to; and the arrays that these words are of.
SCRATCH_BY_TABLES = ("unwind_turn", "unwind_read_part")
ARRAYS = (("unwind", "state", "regs"), ("unwind", "part", "words"), ("frames",))
CALLS = r"== (232|-1811939328|2483027968)\b"  # call rel32 of x86-64, bl of aarch64


def dump(path):
    tool = shutil.which("llvm-objdump") or shutil.which("llvm-objdump-14")
    return subprocess.run([tool, "-dr", path], check=True, stdout=subprocess.PIPE, text=True).stdout


class Layout:
    """Where in a struct what stands, in bytes."""

    def __init__(self, path):
        text = subprocess.run([shutil.which("bpftool") or "/usr/sbin/bpftool", "-j", "btf", "dump", "file", path], check=True,
                              stdout=subprocess.PIPE, text=True).stdout
        self.types = {t["id"]: t for t in json.loads(text)["types"]}

    def struct(self, name):
        return next(t for t in self.types.values() if t["kind"] == "STRUCT" and t["name"] == name)

    def size(self, kind):
        if kind["kind"] == "ARRAY":
            return kind["nr_elems"] * self.size(self.types[kind["type_id"]])
        return kind["size"] if "size" in kind else self.size(self.types[kind["type_id"]])

    def member(self, name, path):
        """Its first byte, and the one after its last."""
        kind, at = self.struct(name), 0
        for part in path:
            member = next(m for m in kind["members"] if m["name"] == part)
            at, kind = at + member["bits_offset"] // 8, self.types[member["type_id"]]
        return at, at + self.size(kind)


def calls_by_section(text):
    """Section -> list of helper numbers called in it."""
    sections, calls = {}, None
    for line in text.splitlines():
        found = re.match(r"Disassembly of section (\S+):", line)
        if found:
            calls = sections.setdefault(found.group(1), [])
            continue
        found = re.search(r"\bcall (\d+)$", line)
        if found and calls is not None:
            calls.append(int(found.group(1)))
    return sections


class Function:
    """Its instructions, and for each what it is relocated to, or "", and its place, in words."""

    def __init__(self):
        self.code, self.to, self.numbers = [], [], []

    def last(self, at, pattern):
        """The nearest instruction before that one that is like this; None: there is none."""
        return next((i for i in range(at - 1, -1, -1) if re.fullmatch(pattern, self.code[i])), None)

    def masks_address(self, at):
        """
        Whether the address of user memory that is read by the call at this instruction is masked, to below where the kernel
        begins, as the last thing that is done to it.
        """
        register = "r3"
        while True:
            change = self.last(at, rf"{register} (.?)= .*")
            how = re.fullmatch(rf"{register} (.?)= (r\d+)", self.code[change]) if change is not None else None
            if not how or how[1] not in ("", "&"):
                return False
            at, register = change, how[2]
            if how[1] == "&":
                load = self.last(at, rf"{register} = .*")
                return load is not None and self.code[load] in (f"{register} = {(1 << bits) - 1} ll" for bits in (47, 48))

    def masks(self, at):
        """
        Whether the key of the look-up that begins at this instruction, which loads the map, is masked as the last thing
        before it is put where it is looked up from, and by what stands in table_mask.
        """
        key = self.last(at, r"r2 \+= -\d+")
        store = self.last(at, rf"\*\(u32 \*\)\(r10 - {self.code[key].split('-')[1]}\) = [rw]\d+") if key is not None else None
        if store is None or at - store > 4:
            return False
        register = self.code[store][-1]
        mask = re.fullmatch(rf"r{register} &= (r\d+)", self.code[store - 1])
        load = mask and self.last(store - 1, rf"{mask[1]} = .*")
        source = load and re.fullmatch(rf"{mask[1]} = \*\(u64 \*\)\((r\d+) \+ 0\)", self.code[load])
        address = source and self.last(load, rf"{source[1]} = .*")
        return bool(address is not None and self.to[address] == "table_mask")


def functions(text):
    """Name -> Function. Labels within one do not end it."""
    found, function = {}, Function()
    for line in text.splitlines():
        name = re.match(r"[0-9a-f]+ <(\w+)>:", line)
        instruction = re.match(r"\s+(\d+):\t(?:[0-9a-f]{2} ?)+\t(.*?)(?:\s+<[^<> ]*>)?$", line)
        relocated = re.match(r"\s+[0-9a-f]+:\s+R_BPF_\w+\s+(\S+)", line)
        if name and not name[1].startswith("LBB"):
            function = found.setdefault(name[1], Function())
        elif relocated:
            function.to[-1] = relocated[1]
        elif instruction:
            function.code.append(instruction[2])
            function.numbers.append(int(instruction[1]))
            function.to.append("")
    return found


class Places:
    """
    What is added to pointers into tables, and to those into the scratch where tables say what: found, {name of a function: how many};
    arrays, those of the scratch that are looked at; wide, where what is added may be too much.
    """

    def __init__(self, parts, layout):
        chunk, scratch = (layout.size(layout.struct(name)) for name in ("table_chunk", "scratch"))
        self.found, self.arrays, self.wide = collections.Counter(), set(), []
        for name, function in parts.items():
            flow = Flow(function)
            for at, into in flow.sums.items():
                if self.is_chosen(name, into):
                    self.found[name] += 1
                    self.want(0 <= into.low <= into.high < (chunk if "rs_tables" in into.names else scratch), name, at)
            for at, into in flow.accesses.items():
                if self.is_chosen(name, into) and "rs_tables" in into.names:
                    self.want(0 <= into.low <= into.high <= chunk, name, at)
                elif self.is_chosen(name, into):
                    ranges = {path[-1]: layout.member("scratch", path) for path in ARRAYS}
                    of = [array for array, (start, end) in ranges.items() if start <= into.low <= into.high <= end]
                    self.want(of, name, at)
                    self.arrays.update(of)

    @staticmethod
    def is_chosen(name, into):
        return "rs_tables" in into.names or ("rs_scratch" in into.names and name in SCRATCH_BY_TABLES)

    def want(self, good, name, at):
        if not good:
            self.wide.append(f"{name}+{at}")


def check_places(check, parts, layout):
    places = Places(parts, layout)
    # Each step of a search, and what is looked at after it.
    check("the places within a chunk were found", {"table_find_process", "unwind_find_page", "on_exec"} <= set(places.found) and
          places.found["unwind_find_mapping"] >= 17 and places.found["unwind_find_rule"] >= 11)
    # In one function, or in those that were made part of it.
    check("the registers, words and frames that rules choose were found", places.arrays == {path[-1] for path in ARRAYS})
    check(f"each of {sum(places.found.values())} places, rows, registers, words and frames is masked to what there is {places.wide or ''}", not places.wide)
    for name in ("unwind_find_page", *SCRATCH_BY_TABLES):
        function = copy.copy(parts.get(name, Function()))
        function.code = [re.sub(r" &= \d+$", " &= 2147483647", code) for code in function.code]
        check(f"a wider mask in {name} would be seen", Places({name: function}, layout).wide)


def check_tables(check, text, layout):
    parts = functions(text)
    looks = [(name, f, at) for name, f in parts.items() for at, to in enumerate(f.to) if to == "rs_tables"]
    check("the look-ups in unwind tables were found", {"table_find_process", "unwind_find_mapping", "unwind_find_page", "unwind_find_rule"} <=
          {name for name, _, _ in looks})
    bare = [f"{name}+{at}" for name, f, at in looks if not f.masks(at)]
    check(f"each of {len(looks)} look-ups in unwind tables is masked {bare or ''}", not bare)
    check_places(check, parts, layout)
    # The walk by frame pointers is not one of tables, and looks at what is in a register.
    reads = [(name, f, at) for name, f in parts.items() if name != "walk_step"
             for at, code in enumerate(f.code) if code == f"call {PROBE_READ_USER}"]
    check("the reads of user memory were found", {"call_before", "unwind_look_at_signal", "unwind_guess", "unwind_read_part"} <=
          {name for name, _, _ in reads})
    bare = [f"{name}+{at}" for name, f, at in reads if not f.masks_address(at)]
    check(f"the address of each of {len(reads)} reads of user memory is masked {bare or ''}", not bare)
    called = parts.get("call_before", Function()).code
    check("what is before a return address is read", f"call {PROBE_READ_USER}" in called and any(re.search(CALLS, c) for c in called))
    check("each return address is looked at", all("call_before" in parts.get(name, Function()).to for name in ("unwind_turn", "unwind_guess", "walk_step")))


def main():
    text = dump(sys.argv[1])
    sections = calls_by_section(text)
    failed = 0

    def check(what, good):
        nonlocal failed
        print("ok" if good else "not ok", "-", what)
        failed += not good

    # The functions of .text are called by every program, samplers included.
    samplers = sections.get("perf_event", []) + sections.get(".text", [])
    check("the samplers were found", RINGBUF_OUTPUT in samplers and PROBE_READ_USER in samplers)
    check("samplers update no map by call", MAP_UPDATE_ELEM not in samplers)
    check("samplers delete from no map", MAP_DELETE_ELEM not in samplers)
    check("the check can see updates elsewhere", MAP_UPDATE_ELEM in sections.get("tp_btf/sched_process_fork", []))
    check("nobody discards a record", all(RINGBUF_DISCARD not in calls for calls in sections.values()))
    preempted = [name for name in sections if name.startswith("tp_btf/")]
    check("programs that can be preempted only copy records out",
          preempted and all(131 not in sections[name] for name in preempted))
    # A raw tracepoint is told when it is attached, by who may have been taken over; this, when it is loaded.
    check("no program attaches to whatever one likes", not [name for name in sections if name.startswith("raw_tp")])
    check_tables(check, text, Layout(sys.argv[1]))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
