#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""
Lines and inlined functions: a program in C++ with over 100 MB of debug information is made, and of its instructions,
without those that only fill gaps, 20,000 are chosen. They are looked up by `ringside symbolize`, with nothing and with
everything in its cache, and by one `addr2line -i -f`; and `ringside report` makes a report of a million samples of them,
with inlined functions. The recording is written and not taken: each address is one stack.

Then the names are compared, of those addresses where the two differ. Runs inside bus-env; symbols.sh does that.
"""

import argparse
import bisect
import collections
import os
import random
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.realpath(__file__))
COLD, CACHED, DISAGREE = 3, 0.3, 0.005
GAPS = r"(?!nop|xchg   %ax,%ax|data16|cs nop)"


# A program begins with the memory of who started it, so that has to be somebody small.
STARTER = """
import os, resource, subprocess, sys, time
before = time.monotonic()
status = subprocess.call(sys.argv[2:])
usage = resource.getrusage(resource.RUSAGE_CHILDREN)
with open(sys.argv[1], "w") as f:
    print(time.monotonic() - before, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, file=f)
sys.exit(status)
"""


def run(*command, **options):
    """What it says, and how long it took, on the clock and of CPUs, and the most memory that one of its processes had, in MB."""
    with tempfile.NamedTemporaryFile("r") as usage:
        out = subprocess.run([sys.executable, "-c", STARTER, usage.name, *command], stdout=subprocess.PIPE, check=True,
                             **options)
        return out.stdout, *map(float, usage.read().split())


def make_program(directory, units):
    """One unit each of templates of its own."""
    main = "".join(f"double run{i}();\n" for i in range(units)) + "int main() { double r = 0;\n"
    main += "".join(f"r += run{i}();\n" for i in range(units)) + "return r < 0; }\n"
    with open(os.path.join(directory, "main.cc"), "w") as f:
        f.write(main)
    flags = ["-std=c++17", "-O2", "-g"]
    waiting = []
    for i in range(units):
        command = ["c++", *flags, f"-DUNIT=unit{i}", f"-DRUN=run{i}", f"-DBASE={i}00", "-c",
                   os.path.join(HERE, "symbols-unit.cc"), "-o", f"unit{i}.o"]
        waiting.append(subprocess.Popen(command, cwd=directory))
        if len(waiting) >= (os.cpu_count() or 1):
            if waiting.pop(0).wait() != 0:
                sys.exit("c++ failed")
    if any(process.wait() != 0 for process in waiting):
        sys.exit("c++ failed")
    program = os.path.join(directory, "program")
    subprocess.run(["c++", *flags, "main.cc", *(f"unit{i}.o" for i in range(units)), "-o", program], cwd=directory,
                   check=True)
    for i in range(units):
        os.unlink(os.path.join(directory, f"unit{i}.o"))
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


def goal(text, reached):
    print(f"{text}: {'reached' if reached else 'MISSED'}")


def bench(options, directory):
    program = options.program or make_program(directory, options.units)
    addresses = choose(program, options.addresses)
    print(f"{debug_size(program) / 1e6:.0f} MB of debug information, {len(addresses)} addresses, {options.samples} samples")
    recording = os.path.join(directory, "x.ringside")
    os.environ["XDG_CACHE_HOME"] = directory
    times = {}
    for name in ("cold", "cached"):
        make_recording(recording, program, addresses, options.samples)
        _, *times[name] = run("ringside", "symbolize", recording)
    _, *times["report"] = run("ringside", "report", "--format=json", recording)
    listed = os.path.join(directory, "addresses")
    with open(listed, "w") as f:
        f.writelines(f"{a:#x}\n" for a in addresses)
    with open(listed) as f:
        text, *times["addr2line -i"] = run("addr2line", "-a", "-i", "-f", "-e", program, stdin=f)
    print(f"{'':14} {'s':>8} {'CPU s':>8} {'MB':>8}")
    for name, (seconds, cpu, memory) in times.items():
        print(f"{name:14} {seconds:8.2f} {cpu:8.2f} {memory:8.0f}")
    kinds, listed = compare(own_chains(recording), addr2line_chains(text))
    print("names:", ", ".join(f"{n} {kind}" for kind, n in kinds.most_common()))
    for address, mine, names in listed:
        print(f"  {address:#x} {' < '.join(mine)} | {' < '.join(names)}")
    goal(f"cold under {COLD} s", times["cold"][0] < COLD)
    goal(f"cached under {CACHED} s", times["cached"][0] < CACHED)
    goal("cold and report no slower than addr2line", times["cold"][0] + times["report"][0] <= times["addr2line -i"][0])
    goal(f"names differ in less than {DISAGREE:.1%}", kinds["differ"] < DISAGREE * len(addresses))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--units", type=int, default=32, help="units of the program, 5 MB of debug information each")
    parser.add_argument("--program", help="take this one, made earlier")
    parser.add_argument("--addresses", type=int, default=20000)
    parser.add_argument("--samples", type=int, default=1000000)
    options = parser.parse_args()
    directory = tempfile.mkdtemp(prefix="ringside-symbols-")
    try:
        bench(options, directory)
    finally:
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
