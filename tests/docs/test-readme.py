#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""
Runs every command of README.md and docs/ as a reader would: on a copy of the source, as an ordinary user, and as
root what begins with sudo. The installation is the README's own. Of what the pages show as output, every line
must still be printed, with other numbers.

Runs inside bus-env without --build. With --show prints what the commands printed, to be pasted.
"""

import json
import os
import re
import shutil
import subprocess
import sys

SOURCE = os.environ["RINGSIDE_TEST_SOURCE"]
USER = os.environ["RINGSIDE_TEST_USER_A"]
HOME = f"/run/ringside-test/home/{USER}"
TREE = HOME + "/ringside"
SHIMS = "/run/ringside-test/shims"
PATH = f"{SHIMS}:{os.environ['PATH'].split(':')[0]}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
# These have a test of their own, or are all of them.
ELSEWHERE = ("tests/try.sh", "tests/run.sh")
# Percent. Which functions are the first five changes from run to run; that these have a good part of the time does not.
SHARE_MIN = 5.0

failures = 0
show = "--show" in sys.argv


def report(good, text, detail=""):
    global failures
    failures += not good
    print(("ok - " if good else "not ok - ") + text + (f": {detail}" if detail and not good else ""), flush=True)


# What is not in this environment, as far as the pages need it.
SYSTEMCTL = """#!/bin/sh
case "$*" in
daemon-reload) ;;
"reload dbus") exec busctl call org.freedesktop.DBus /org/freedesktop/DBus org.freedesktop.DBus ReloadConfig ;;
*) exit 1 ;;
esac
"""
XDG_OPEN = """#!/bin/sh
case $1 in *.html) test -s "$1" ;; *) exit 2 ;; esac
"""


def prepare():
    # The mark of bus-env: what follows changes users.
    if not os.path.isdir("/run/ringside-test/log"):
        sys.exit("test-readme: only inside bus-env")
    os.mkdir(SHIMS)
    for name, text in (("systemctl", SYSTEMCTL), ("xdg-open", XDG_OPEN)):
        with open(f"{SHIMS}/{name}", "w") as f:
            f.write(text)
        os.chmod(f"{SHIMS}/{name}", 0o755)

    def other(directory, names):
        """Not part of the source: builds and what they leave."""
        return [n for n in names if n in (".git", "__pycache__") or n.endswith((".log", ".ringside")) or
                os.path.exists(os.path.join(directory, n, "build.ninja")) or
                os.path.exists(os.path.join(directory, n, "meson-private"))]

    shutil.copytree(SOURCE, TREE, symlinks=True, ignore=other)
    subprocess.run(["chown", "-R", f"{USER}:{USER}", TREE], check=True)
    forget_helper_user()


def forget_helper_user():
    """A machine that has had Ringside before has its user; one that follows the pages has not."""
    for name in ("passwd", "shadow", "group", "gshadow"):
        with open("/etc/" + name, encoding="utf-8") as f:
            lines = f.readlines()
        with open("/etc/" + name, "w", encoding="utf-8") as f:
            f.writelines(line for line in lines if not line.startswith("ringside:"))


def blocks(text):
    """(commands, output or None) of each ```sh block, with the ```text block that follows at once."""
    for match in re.finditer(r"^```sh\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", text, re.M | re.S):
        yield match[1].replace("\\\n", " ").splitlines(), match[2]


def run(line):
    """Returns exit status and what was printed."""
    if line.startswith("sudo "):
        command = ["bash", "-c", line[5:]]
    else:
        command = ["as-user", USER, "bash", "-c", line]
    environment = dict(os.environ, PATH=PATH, LANG="C.UTF-8")
    r = subprocess.run(command, cwd=TREE, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, text=True, errors="replace", timeout=200, check=False)
    return r.returncode, r.stdout


ROW = re.compile(r"\s*(\d+\.\d) %(?:\s+\d+\.\d %\s+\d+)?\s+(\S+)")


def shape(line):
    """What of a line stays from run to run: the numbers are others, and so are the functions of a table."""
    row = ROW.match(line)
    if row and not line.rstrip().endswith("start"):
        line = line[: row.start(2)]
    line = re.sub(r"^(Host\s).*", r"\1", line)
    line = re.sub(r"^(Stacks\s[^;]*);.*", r"\1", line)  # what else they are by is another time's
    line = re.sub(r"\b(cpu-clock|cpu-cycles)\b", "EVENT", line)
    return re.sub(r"\s+", " ", re.sub(r"\d+", "0", line)).strip()


def own_functions():
    with open(SOURCE + "/tests/workloads/wordcount.c", encoding="utf-8") as f:
        return set(re.findall(r"^\w.*?\b(\w+)\(", f.read(), re.M))


def measured(name):
    """The function's share of the newest recording, in percent."""
    status, text = run("ringside report --format=json --threshold=0")
    report(status == 0, "the recording can be read", text)
    rows, samples = json.loads(text)["rows"], json.loads(text)["samples"]
    return sum(100 * row["self_samples"] / samples for row in rows if row["name"] == name)


def compare(page, expected, printed):
    shapes, own = {shape(line) for line in printed.splitlines()}, own_functions()
    for line in expected.splitlines():
        if line.strip() in ("", "[...]"):
            continue
        report(shape(line) in shapes, f"{page}: printed: {line}", f"not in:\n{printed}")
        row = ROW.match(line)
        if row and float(row[1]) >= SHARE_MIN and (row[2] in own or line.endswith(" wordcount")):
            share = measured(row[2])
            report(share >= float(row[1]) / 4, f"{page}: {row[2]} takes time", f"{share:.1f} %, where {row[1]} % are promised")


def check_page(page):
    with open(os.path.join(SOURCE, page), encoding="utf-8") as f:
        text = f.read()
    report(text.count("```sh\n") == len(list(blocks(text))), f"{page}: every block is closed")
    report(text.count("```text\n") == sum(out is not None for _, out in blocks(text)), f"{page}: output follows its command")
    for lines, expected in blocks(text):
        printed = ""
        refused = bool(expected and expected.startswith("Call failed"))
        for line in lines:
            if line.strip() in ELSEWHERE:
                report(os.access(os.path.join(TREE, line.strip()), os.X_OK), f"{page}: {line} can be run")
                continue
            status, output = run(line)
            printed += output
            report((status != 0) == refused, f"{page}: $ {line}", f"exit status {status}\n{output}")
            if show:
                print(output)
        if expected is not None:
            compare(page, expected, printed)


def main():
    prepare()
    pages = ["README.md"] + sorted("docs/" + n for n in os.listdir(SOURCE + "/docs") if n.endswith(".md"))
    for page in pages:
        check_page(page)
    sys.exit(failures > 0)


main()
