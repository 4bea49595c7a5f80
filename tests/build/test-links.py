#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""
What each binary links, exactly, and what the library exports: everything its header declares and nothing else.

    test-links.py HELPER CLI LIBRARY HEADER
"""

import re
import subprocess
import sys

# A client without rights has no use for libbpf or libcap; a helper has none for parsers and databases.
EXPECTED = {
    "helper": {"libbpf", "libsystemd", "libcap", "libseccomp", "libc"},
    "cli": {"libringside", "libjson-c", "libc"},
    "library": {"libsystemd", "libdw", "libelf", "liblzma", "libsqlite3", "libz", "libprotobuf-c", "libjson-c", "libc"},
}
# Where a sanitizer is built in.
IGNORED = {"libasan", "libubsan", "libm", "libgcc_s", "ld-linux-x86-64"}


def needed(path):
    text = subprocess.run(["readelf", "-dW", path], check=True, stdout=subprocess.PIPE, text=True).stdout
    return {re.sub(r"\.so.*", "", name) for name in re.findall(r"\(NEEDED\).*\[(.*)\]", text)} - IGNORED


def exports(path):
    text = subprocess.run(["nm", "-D", "--defined-only", path], check=True, stdout=subprocess.PIPE, text=True).stdout
    names = {line.split()[-1].split("@")[0] for line in text.splitlines() if line.split()[-2] != "A"}
    return {name for name in names if not name.startswith("__asan") and not name.startswith("__odr")}


def main():
    helper, cli, library, header = sys.argv[1:]
    failed = 0
    for name, path in (("helper", helper), ("cli", cli), ("library", library)):
        right = needed(path) == EXPECTED[name]
        print("ok" if right else "not ok", f"- {name} links {', '.join(sorted(needed(path)))}")
        failed += not right
    with open(header, encoding="utf-8") as f:
        text = re.sub(r"/\*.*?\*/", "", f.read(), flags=re.S)
    declared = set(re.findall(r"RINGSIDE_PUBLIC[^;]*?\b(ringside_\w+)\(", text))
    for name in sorted(declared ^ exports(library)):
        print("not ok -", name, "is declared but not exported" if name in declared else "is exported but not declared")
        failed += 1
    print("ok" if len(declared) > 20 else "not ok", f"- {len(declared)} functions declared")
    return 1 if failed or len(declared) <= 20 else 0


if __name__ == "__main__":
    sys.exit(main())
