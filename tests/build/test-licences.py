#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""
Every file says under which licence it is, in its first lines: LGPL-2.1-or-later, BPF programs GPL-2.0-only.

    test-licences.py SOURCE
"""

import os
import re
import sys

# Texts of licences, prose, and inputs that are bytes and not text.
EXEMPT = re.compile(r"(^|/)(LICENSES?(/.*)?|[^/]*\.md|tests/fuzz/corpus/.*)$")


def files(source):
    for directory, names, entries in os.walk(source):
        names[:] = [n for n in names if n not in (".git", "__pycache__") and not n.startswith("build")
                    or directory.endswith("tests") and n == "build"]
        for entry in set(entries) - {".git"}:  # a file in worktrees
            yield os.path.relpath(os.path.join(directory, entry), source)


def main():
    source = sys.argv[1]
    failed = looked_at = 0
    for path in sorted(files(source)):
        if EXEMPT.search(path) or path.endswith((".log", ".pyc", ".ringside")):
            continue
        looked_at += 1
        with open(os.path.join(source, path), encoding="utf-8", errors="replace") as f:
            head = "".join(f.readline() for _ in range(6))
        found = re.search(r"SPDX-License-Identifier: (.*?)\s*(\*/|-->|$)", head, re.M)
        wanted = "GPL-2.0-only" if path.endswith(".bpf.c") else "LGPL-2.1-or-later"
        if not found or wanted not in found.group(1) and "GPL-2.0-only" not in found.group(1):
            print(f"not ok - {path}: {found.group(1) if found else 'no licence'}, not {wanted}")
            failed += 1
    print("ok" if looked_at > 200 else "not ok", f"- {looked_at} files looked at")
    return 1 if failed or looked_at <= 200 else 0


if __name__ == "__main__":
    sys.exit(main())
