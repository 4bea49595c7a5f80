#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""
What the compiled programs may call, by where they run. Samplers interrupt anything, a hash's locked bucket
included: they never update or delete. Nobody discards a ring record, since a discarded one stays readable. Of unwind
tables, which the client writes, no place is looked at that was not masked to their size, and to the chunk; nor is a register
that they name, nor user memory where they say whose address was not; and a call is looked for.

    test-bpf-object.py OBJECT
"""

import re
import shutil
import subprocess
import sys

from flow import Flow

# Numbers from include/uapi/linux/bpf.h.
MAP_UPDATE_ELEM, MAP_DELETE_ELEM, RINGBUF_DISCARD, PROBE_READ_USER = 2, 3, 133, 112
RINGBUF_OUTPUT = 130
# Where tables say which word of it is looked at, or written to.
SCRATCH_BY_TABLES = ("unwind_frame",)
CALLS = r"== (232|-1811939328|2483027968)\b"  # call rel32 of x86-64, bl of aarch64


def dump(path):
    tool = shutil.which("llvm-objdump") or shutil.which("llvm-objdump-14")
    return subprocess.run([tool, "-dr", path], check=True, stdout=subprocess.PIPE, text=True).stdout


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
        instruction = re.match(r"\s+(\d+):\t(?:[0-9a-f]{2} ?)+\t(.*?)(?:\s+<.*>)?$", line)
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


def check_tables(check, text):
    parts = functions(text)
    looks = [(name, f, at) for name, f in parts.items() for at, to in enumerate(f.to) if to == "rs_tables"]
    check("the look-ups in unwind tables were found", {"table_find_process", "unwind_find_mapping", "unwind_find_page", "unwind_find_rule"} <=
          {name for name, _, _ in looks})
    bare = [f"{name}+{at}" for name, f, at in looks if not f.masks(at)]
    check(f"each of {len(looks)} look-ups in unwind tables is masked {bare or ''}", not bare)
    sums = [(name, at, to, good) for name, f in parts.items() for at, (to, good) in Flow(f).sums.items()
            if to == "rs_tables" or (to == "rs_scratch" and name in SCRATCH_BY_TABLES)]
    places = [name for name, _, to, _ in sums if to == "rs_tables"]
    # Each step of a search, and what is looked at after it.
    check("the places within a chunk were found", {"table_find_process", "unwind_find_page", "on_exec"} <= set(places) and
          places.count("unwind_find_mapping") >= 17 and places.count("unwind_find_rule") >= 11)
    # A register, and a frame: in one function, or in those that were made part of it.
    check("the registers and frames that rules choose were found",
          {name for name, _, to, _ in sums if to == "rs_scratch"} == set(SCRATCH_BY_TABLES))
    bare = [f"{name}+{at}" for name, at, _, good in sums if not good]
    check(f"each of {len(sums)} places, rows, registers and frames is masked {bare or ''}", not bare)
    # The walk by frame pointers is not one of tables, and looks at what is in a register.
    reads = [(name, f, at) for name, f in parts.items() if name != "walk_step"
             for at, code in enumerate(f.code) if code == f"call {PROBE_READ_USER}"]
    check("the reads of user memory were found", {"call_before", "unwind_look_at_signal", "unwind_guess", "unwind_frame"} <=
          {name for name, _, _ in reads})
    bare = [f"{name}+{at}" for name, f, at in reads if not f.masks_address(at)]
    check(f"the address of each of {len(reads)} reads of user memory is masked {bare or ''}", not bare)
    called = parts.get("call_before", Function()).code
    check("what is before a return address is read", f"call {PROBE_READ_USER}" in called and any(re.search(CALLS, c) for c in called))
    check("each return address is looked at", all("call_before" in parts.get(name, Function()).to for name in ("unwind_frame", "unwind_guess", "walk_step")))


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
    check_tables(check, text)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
