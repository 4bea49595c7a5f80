#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""
Lines and inlined functions: a program in C++ with over 100 MB of debug information is made, and of its instructions,
without those that only fill gaps, 20,000 are chosen. They are looked up by `ringside symbolize`, with nothing and with
everything in its cache, and by one `addr2line -i -f`; and `ringside report` makes a report of a million samples of them,
with inlined functions. The recording is written and not taken: each address is one stack.

perf has a million samples of some of the addresses, since it takes long: as many as --perf-addresses says, and half of
them. How long it takes for all follows from the two. perf 6.1 shows inlined functions in stacks from `--call-graph dwarf`
alone, so its samples have registers and a stack, of which --max-stack=1 leaves the address.

The names are compared with addr2line's, of those addresses where the two differ. Each of these stands in
symbols-differ.txt, with a reason, and llvm-symbolizer must have our names; else it is told.

Then a program with over 1 GB of debug information is recorded, as much as clang has, and it is measured how long after its
end `ringside record` returns.

Runs inside bus-env; symbols.sh does that.
"""

import argparse
import bisect
import collections
import os
import random
import re
import shutil
import sqlite3
import struct
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.realpath(__file__))
COLD, CACHED, DISAGREE, PERF, RETURN = 3, 0.3, 0.005, 20, 2
ROUNDS = "100"  # of the program that is recorded: some seconds
GAPS = r"(?!nop|xchg   %ax,%ax|data16|cs nop)"


# A program begins with the memory of who started it, so that has to be somebody small. perf leaves its addr2line behind, which
# ends soon after it: the clock stops with perf, and what its addr2line took counts.
STARTER = """
import ctypes, os, resource, subprocess, sys, time
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
before = time.monotonic()
process = subprocess.Popen(sys.argv[2:])
_, status, usage = os.wait4(process.pid, 0)
seconds = time.monotonic() - before
memory = [usage.ru_maxrss / 1024]
try:
    while True:
        memory.append(os.wait3(0)[2].ru_maxrss / 1024)
except ChildProcessError:
    pass
usage = resource.getrusage(resource.RUSAGE_CHILDREN)
with open(sys.argv[1], "w") as f:
    print(seconds, usage.ru_utime + usage.ru_stime, *memory, file=f)
sys.exit(os.waitstatus_to_exitcode(status) != 0)
"""

Usage = collections.namedtuple("Usage", "seconds cpu memory")  # memory: MB, of it and of what it left behind


def run(*command, **options):
    """What it says, and what it took. Of a program that has waited for others memory is that of the one with the most."""
    options = {"stdout": subprocess.PIPE, **options}
    with tempfile.NamedTemporaryFile("r") as usage:
        out = subprocess.run([sys.executable, "-c", STARTER, usage.name, *command], check=True, **options)
        seconds, cpu, *memory = map(float, usage.read().split())
    return out.stdout, Usage(seconds, cpu, memory)


def make_program(directory, units):
    """
    One unit each of templates of its own. Compiling is what takes long, so one unit is compiled, and in copies of it the
    number that all names have is another.
    """
    first, numbers = 100, range(100, 100 + units)
    main = "#include <cstdio>\n#include <cstdlib>\n#include <ctime>\n"
    main += "".join(f"double run{i}();\n" for i in numbers)
    main += "int main(int argc, char **argv) {\ndouble r = 0;\nfor (int n = argc > 1 ? atoi(argv[1]) : 1; n > 0; n--) {\n"
    main += "".join(f"r += run{i}();\n" for i in numbers)
    main += "}\ntimespec t;\nclock_gettime(CLOCK_MONOTONIC, &t);\n"
    main += 'printf("%ld.%09ld\\n", (long) t.tv_sec, t.tv_nsec);\nreturn r < 0;\n}\n'
    with open(os.path.join(directory, "main.cc"), "w") as f:
        f.write(main)
    flags = ["-std=c++17", "-O2", "-g"]
    subprocess.run(["c++", *flags, f"-DUNIT=unit{first}", f"-DRUN=run{first}", f"-DBASE={first}00", "-c",
                    os.path.join(HERE, "symbols-unit.cc"), "-o", "unit.o"], cwd=directory, check=True)
    with open(os.path.join(directory, "unit.o"), "rb") as f:
        unit = f.read()
    for i in numbers:
        copy = re.sub(rb"(unit|run|Li|<)%d" % first, rb"\g<1>%d" % i, unit)
        with open(os.path.join(directory, f"unit{i}.o"), "wb") as f:
            f.write(copy)
    program = os.path.join(directory, "program")
    subprocess.run(["c++", *flags, "main.cc", *(f"unit{i}.o" for i in numbers), "-o", program], cwd=directory, check=True)
    for name in ("unit.o", *(f"unit{i}.o" for i in numbers)):
        os.unlink(os.path.join(directory, name))
    return program


def debug_size(program):
    text = subprocess.run(["size", "-A", program], capture_output=True, text=True, check=True).stdout
    return sum(int(line.split()[1]) for line in text.splitlines() if line.startswith(".debug"))


def choose(program, n):
    """Addresses of instructions."""
    text = subprocess.run(["objdump", "-d", "-j", ".text", "--no-show-raw-insn", program], capture_output=True, text=True,
                          check=True).stdout
    addresses = [int(a, 16) for a in re.findall(r"^\s+([0-9a-f]+):\t" + GAPS, text, re.M)]
    return sorted(random.Random(5).sample(addresses, n))


def functions_of(program):
    """Starts and names, ascending."""
    text = subprocess.run(["nm", "--defined-only", program], capture_output=True, text=True, check=True).stdout
    found = {}
    for line in text.splitlines():
        address, kind, name = line.split(" ", 2)
        if kind in "tTwWiu":
            found.setdefault(int(address, 16), name)
    return sorted(found.items())


def build_id(program):
    text = subprocess.run(["readelf", "-n", program], capture_output=True, text=True, check=True).stdout
    return bytes.fromhex(re.search(r"Build ID: ([0-9a-f]+)", text).group(1))


def make_recording(path, program, addresses, samples):
    """As the recorder would have it: each address a place, each place a stack."""
    if os.path.exists(path):
        os.unlink(path)
    subprocess.run(["ringside", "record", "-q", "--no-lines", "-o", path, "--", "true"], check=True)
    functions = functions_of(program)
    starts = [start for start, _ in functions]
    db = sqlite3.connect(path)
    for table in ("sample", "branch", "place", "function", "mapping", "file", "thread", "process"):
        db.execute(f"DELETE FROM {table}")
    db.execute("INSERT INTO process VALUES(1,77,NULL,0,NULL,?,?,NULL)", (b"program", b"program\0"))
    db.execute("INSERT INTO thread VALUES(1,1,77,?)", (b"program",))
    st = os.stat(program)
    db.execute("INSERT INTO file VALUES(1,?,0,?,?,?)", (program, st.st_ino, st.st_size, build_id(program)))
    known = {}
    for i, address in enumerate(addresses, 1):
        k = bisect.bisect(starts, address) - 1
        if k not in known:
            known[k] = len(known) + 1
            db.execute("INSERT INTO function VALUES(?,1,?,0,?)", (known[k], starts[k], functions[k][1]))
        db.execute("INSERT INTO place VALUES(?,?,?)", (i, known[k], address - starts[k]))
        db.execute("INSERT INTO branch VALUES(?,NULL,0,?)", (i, chr(i)))
    db.executemany("INSERT INTO sample VALUES(?,1,0,0,0,1,?,NULL,NULL)",
                   ((i, i % len(addresses) + 1) for i in range(samples)))
    db.commit()
    db.close()


# What linux/perf_event.h calls PERF_SAMPLE_IP, _TID, _TIME, _CALLCHAIN, _PERIOD, _REGS_USER and _STACK_USER; and mmap, comm
# and mmap2 of the flags.
SAMPLE = 1 | 2 | 4 | 1 << 5 | 1 << 8 | 1 << 12 | 1 << 13
FLAGS = 1 << 8 | 1 << 9 | 1 << 23
SP_AND_IP = 1 << 7 | 1 << 8
BASE = 0x555555554000


def code_segment(program):
    """Offset, address and size."""
    text = subprocess.run(["readelf", "-lW", program], capture_output=True, text=True, check=True).stdout
    at = re.search(r"LOAD\s+(0x\w+) (0x\w+) 0x\w+ 0x\w+ (0x\w+) R E", text)
    return (int(x, 16) for x in at.groups())


def perf_record(kind, body):
    return struct.pack("=IHH", kind, 2, 8 + len(body)) + body  # 2: of user space


def padded(text):
    return text.encode() + bytes(8 - len(text) % 8)


def make_perf_data(path, program, addresses, samples):
    """As perf record --call-graph dwarf would have it, see tools/perf/Documentation/perf.data-file-format.txt."""
    offset, address, size = code_segment(program)
    before = address & 4095
    st = os.stat(program)
    data = [
        perf_record(3, struct.pack("=II", 77, 77) + padded("program")),
        perf_record(10, struct.pack("=IIQQQIIQQII", 77, 77, BASE + address - before, (size + before + 4095) & ~4095,
                                    offset - before, os.major(st.st_dev), os.minor(st.st_dev), st.st_ino, 0, 5, 2) +
                    padded(program)),
    ]
    for i in range(samples):
        ip = BASE + addresses[i % len(addresses)]
        # no callchain; 64-bit registers, 8 bytes of stack, of which 8 are there
        data.append(perf_record(9, struct.pack("=QIIQQQQQQQQQ", ip, 77, 77, 1000 + i, 1000, 0, 2, 0x7ffc00000000, ip, 8, 0, 8)))
    data = b"".join(data)
    attribute = struct.pack("=IIQQQQQ", 1, 128, 0, 1000, SAMPLE, 0, FLAGS).ljust(80, b"\0")
    attribute = (attribute + struct.pack("=QI", SP_AND_IP, 8)).ljust(128, b"\0") + bytes(16)
    header = struct.pack("=8sQQQQQQQQ", b"PERFILE2", 104, len(attribute), 104, len(attribute), 104 + len(attribute), len(data),
                         0, 0) + bytes(32)
    with open(path, "wb") as f:
        f.write(header + attribute + data)


def addr2line_chains(text):
    chains, lines = {}, text.decode(errors="replace").splitlines()
    at = None
    for i, line in enumerate(lines):
        if line.startswith("0x"):
            at, first = int(line, 16), i
            chains[at] = []
        elif (i - first) % 2 == 1:
            chains[at].append(line)
    return chains


def text_of(value):
    return value.decode() if isinstance(value, bytes) else value


def own_chains(path):
    """Innermost first; the outermost has the name of its symbol, as reports do."""
    db = sqlite3.connect(path)
    chains = {a: [text_of(n)] for a, n in db.execute("SELECT start+offset,name FROM place JOIN function ON function.id=function")}
    address_of = dict(db.execute("SELECT place.id,start+offset FROM place JOIN function ON function.id=function"))
    deep = collections.defaultdict(list)
    for frame, name in db.execute("SELECT frame,name FROM line ORDER BY frame,depth"):
        deep[frame].append(text_of(name) if name else "??")
    for frame, names in deep.items():
        chains[address_of[frame]] = names[:-1] + chains[address_of[frame]]
    db.close()
    return chains


def whole(name):
    """Without what compilers add to parts and copies, and the number of a constructor."""
    name = re.sub(r"(\.(isra|constprop|part|cold|lto_priv)(\.\d+)?)+$", "", name)
    return re.sub(r"([CD])[124](E|I)", r"\g<1>4\2", name)


def compare(own, theirs):
    kinds, listed = collections.Counter(), []
    for address, names in theirs.items():
        mine = own[address]
        if list(map(whole, mine)) == list(map(whole, names)):
            kinds["agree" if mine == names else "agree but for the suffix of a part or copy"] += 1
        else:
            kinds["differ"] += 1
            listed.append((address, mine, names))
    return kinds, listed


def reasons():
    """By address: the names that are expected to differ, ours and addr2line's."""
    with open(os.path.join(HERE, "symbols-differ.txt")) as f:
        return {int(a, 16): (own.split(" < "), other.split(" < "))
                for a, own, other in (line.rstrip().split(" | ") for line in f if line.startswith("0x"))}


def dwarf_says(program, address):
    """A third reader of it."""
    text = subprocess.run(["llvm-symbolizer", "--inlines", "--no-demangle", "--functions=linkage", "-e", program,
                           hex(address)], capture_output=True, text=True, check=True).stdout
    return text.rstrip().splitlines()[::2]


def without_reason(program, listed):
    expected = reasons()
    return [x for x in listed if expected.get(x[0]) != x[1:] or
            list(map(whole, dwarf_says(program, x[0]))) != list(map(whole, x[1]))]


def goal(text, reached):
    print(f"{text}: {'reached' if reached else 'MISSED'}")


def row(name, usage):
    memory = " + ".join(f"{m:.0f}" for m in usage.memory)
    print(f"{name:30} {usage.seconds:8.2f} {usage.cpu:8.2f} {memory:>12}", flush=True)


def bench_perf(options, directory, program, addresses):
    """What perf's report would take for all, and the memory it took for some."""
    path, usages = os.path.join(directory, "perf.data"), {}
    numbers = (options.perf_addresses // 2, options.perf_addresses)
    environment = {**os.environ, "HOME": directory, "PAGER": "cat"}
    for command in ("report", "script"):
        for n in numbers:
            make_perf_data(path, program, sorted(random.Random(5).sample(addresses, n)), options.samples)
            _, usages[command, n] = run("perf", command, "-i", path, "--max-stack=1",
                                        *(["--stdio"] if command == "report" else []), stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL, env=environment)
            row(f"perf {command}, {n} addresses", usages[command, n])
    os.unlink(path)
    all_of_it = {}
    for command in ("report", "script"):
        half, whole = (usages[command, n] for n in numbers)
        of_one = [(whole[i] - half[i]) / (numbers[1] - numbers[0]) for i in (0, 1)]
        all_of_it[command] = Usage(*(whole[i] + of_one[i] * (len(addresses) - numbers[1]) for i in (0, 1)), whole.memory)
        row(f"perf {command}, {len(addresses)} (reckoned)", all_of_it[command])
    return all_of_it


def bench_return(options, directory):
    os.mkdir(directory)
    program = make_program(directory, options.large_units)
    recording = os.path.join(directory, "x.ringside")
    print(f"\n{debug_size(program) / 1e6:.0f} MB of debug information")
    process = subprocess.run(["ringside", "record", "-q", "-o", recording, "--", program, ROUNDS], stdout=subprocess.PIPE,
                             check=True)
    late = time.monotonic() - float(process.stdout)
    db = sqlite3.connect(recording)
    places, = db.execute("SELECT count(*) FROM place").fetchone()
    found, = db.execute("SELECT count(*) FROM place_code").fetchone()
    db.close()
    print(f"record returned {late:.2f} s after the program's end, with lines for {found} of {places} places")
    goal(f"record returns in {RETURN} s", late < RETURN)


def bench(options, directory):
    program = options.program or make_program(directory, options.units)
    addresses = choose(program, options.addresses)
    print(f"{debug_size(program) / 1e6:.0f} MB of debug information, {len(addresses)} addresses, {options.samples} samples")
    recording = os.path.join(directory, "x.ringside")
    os.environ["XDG_CACHE_HOME"] = directory
    usages = {}
    print(f"{'':30} {'s':>8} {'CPU s':>8} {'MB':>12}")
    for name in ("cold", "cached"):
        make_recording(recording, program, addresses, options.samples)
        _, usages[name] = run("ringside", "symbolize", recording)
        row(name, usages[name])
    _, usages["report"] = run("ringside", "report", "--format=json", recording)
    row("report", usages["report"])
    listed = os.path.join(directory, "addresses")
    with open(listed, "w") as f:
        f.writelines(f"{a:#x}\n" for a in addresses)
    with open(listed) as f:
        text, addr2line = run("addr2line", "-a", "-i", "-f", "-e", program, stdin=f)
    row("addr2line -i -f", addr2line)
    perf = bench_perf(options, directory, program, addresses) if options.perf_addresses > 1 else {}

    kinds, listed = compare(own_chains(recording), addr2line_chains(text))
    print("names:", ", ".join(f"{n} {kind}" for kind, n in kinds.most_common()))
    unexpected = without_reason(program, listed)
    for address, mine, names in unexpected:
        print(f"{address:#x} | {' < '.join(mine)} | {' < '.join(names)}")

    ours = usages["cold"].seconds + usages["report"].seconds
    memory = max(max(u.memory) for u in usages.values())
    goal(f"cold under {COLD} s", usages["cold"].seconds < COLD)
    goal(f"cached under {CACHED} s", usages["cached"].seconds < CACHED)
    goal("cold and report no slower than addr2line", ours <= addr2line.seconds)
    goal("in less memory", memory < max(addr2line.memory))
    for command, usage in perf.items():
        goal(f"cold and report {PERF} times faster than perf {command} ({usage.seconds / ours:.0f} times)",
             usage.seconds >= PERF * ours)
        goal("in less memory", memory < sum(usage.memory))
    goal(f"names differ in less than {DISAGREE:.1%}", kinds["differ"] < DISAGREE * len(addresses))
    goal("each of those has its reason", not unexpected)
    if options.large_units > 0:
        bench_return(options, os.path.join(directory, "large"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--units", type=int, default=32, help="units of the program, 4.4 MB of debug information each")
    parser.add_argument("--large-units", type=int, default=230, help="of the one that is recorded; 0: none")
    parser.add_argument("--program", help="take this one, made earlier")
    parser.add_argument("--addresses", type=int, default=20000)
    parser.add_argument("--perf-addresses", type=int, default=1000, help="how many of them perf looks up; 0: none")
    parser.add_argument("--samples", type=int, default=1000000)
    options = parser.parse_args()
    directory = tempfile.mkdtemp(prefix="ringside-symbols-")
    try:
        bench(options, directory)
    finally:
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
