#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""
What the compiled programs may call, by where they run. Samplers interrupt anything, a hash's locked bucket
included: they never update or delete. Nobody discards a ring record, since a discarded one stays readable.

    test-bpf-object.py OBJECT
"""

import re
import shutil
import subprocess
import sys

# Numbers from include/uapi/linux/bpf.h.
MAP_UPDATE_ELEM, MAP_DELETE_ELEM, RINGBUF_DISCARD, PROBE_READ_USER = 2, 3, 133, 112
RINGBUF_OUTPUT = 130


def disassemble(path):
    """Section -> list of helper numbers called in it."""
    tool = shutil.which("llvm-objdump") or shutil.which("llvm-objdump-14")
    text = subprocess.run([tool, "-d", path], check=True, stdout=subprocess.PIPE, text=True).stdout
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


def main():
    sections = disassemble(sys.argv[1])
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
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
