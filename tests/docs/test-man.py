#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""What --help, the manual pages and the completion say about options is the same, both ways.

usage: test-man.py RINGSIDE SOURCE-DIRECTORY"""

import os
import re
import subprocess
import sys
import tempfile

program, source = os.path.abspath(sys.argv[1]), sys.argv[2]
failures = 0


def report(good, text, detail=""):
    global failures
    failures += not good
    print(("ok " if good else "not ok ") + text + (f": {detail}" if detail and not good else ""))


def compare(text, got, want):
    missing, extra = sorted(want - got), sorted(got - want)
    report(got == want and want, text, f"lacks {missing}, has {extra}" if got or want else "nothing found")


def read(*path):
    with open(os.path.join(source, *path), encoding="utf-8") as f:
        return f.read()


def run(*arguments):
    return subprocess.run([program, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
                          check=False)


def help_options(text):
    """{"-h", "--help", "--sort", ...} with what takes a value as "--sort="."""
    options = set()
    for line in text.splitlines():
        match = re.match(r" {2,6}(?:(-\w), )?(--[\w-]+)(=\S+)?", line)
        if match:
            options |= {o for o in (match[1], match[2]) if o}
            if match[3]:
                options.add(match[2] + "=")
    return options


def page_options(text):
    options = set()
    for line in text.splitlines():
        if not line.startswith(".It Fl "):
            continue
        for flag in re.finditer(r"\bFl (\\-)?([\w\\-]+)( Ns = )?", line):
            name = ("--" if flag[1] else "-") + flag[2].replace("\\", "")
            options.add(name)
            if flag[3]:
                options.add(name + "=")
    return options


def section(text, title):
    match = re.search(rf"^\.Sh {title}\n(.*?)(?=^\.Sh |\Z)", text, re.M | re.S)
    return match[1] if match else ""


def complete(*words, path=()):
    """What the completion offers for the last of words, without the bash-completion package's functions."""
    script = """
        source "$1"; shift
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
        _ringside
        printf '%s\\n' "${COMPREPLY[@]}" """
    result = subprocess.run(["bash", "--norc", "-c", script, "bash", os.path.join(source, "completion/ringside"), *words],
                            capture_output=True, text=True, timeout=60, check=False,
                            env=os.environ | {"PATH": os.pathsep.join([*path, os.environ["PATH"]])})
    report(result.stderr == "", f"completing {' '.join(words)} is quiet", result.stderr)
    return set(result.stdout.split())


def check_command(command):
    result = run(command, "--help")
    report(result.returncode == 0 and result.stderr == "", f"{command} --help succeeds", result.stderr)
    options, page = help_options(result.stdout), read("man", f"ringside-{command}.1")
    compare(f"ringside-{command}(1) has the options", page_options(page), options)
    # Those with a value are offered with their "=".
    long = {o for o in options if o.startswith("--")}
    offered = {o for o in long if o.endswith("=") or f"{o}=" not in long}
    compare(f"the completion of {command} has the options", complete("ringside", command, "--"), offered)

    status = {int(n) for n in re.findall(r"\b(\d+)\b", result.stdout[result.stdout.index("Exit status:"):])}
    told = {int(n) for n in re.findall(r"^\.It (\d+)$", section(page, "EXIT STATUS"), re.M)}
    compare(f"ringside-{command}(1) has the exit codes", told | {0, 1, 128}, status | {0, 1, 128})
    for option in sorted(o for o in offered if o.endswith("=")):
        check_values(command, option[:-1])
    return options


def check_values(command, option):
    """A value that is offered is one the program takes."""
    if option in ("--pid", "--output"):
        return
    for value in sorted(complete("ringside", command, option, "=", "")):
        result = run(command, f"{option}={value}", "--help")
        report(result.returncode == 0, f"{command} {option}={value} is taken", result.stderr)


def check_program():
    text = run("--help").stdout
    page = read("man", "ringside.1")
    commands = set(re.findall(r"^  (\w+)  ", text, re.M))
    compare("ringside(1) has the commands", set(re.findall(r"^\.It Cm (\w+)", page, re.M)), commands)
    compare("the completion has commands and options", complete("ringside", ""), commands | {"--help", "--version"})
    compare("ringside(1) has the options", page_options(page), help_options(text))
    compare("the completion of help has the commands", complete("ringside", "help", ""), commands - {"help"})
    compare("ringside(1) has the exit codes", {int(n) for n in re.findall(r"^\.It (\d+)$", section(page, "EXIT STATUS"), re.M)},
            {0, 1, 2, 125, 126, 127})
    pages = set(re.findall(r"^\.Xr (ringside\\-\w+)", page, re.M))
    compare("ringside(1) names the other pages", pages, {rf"ringside\-{c}" for c in commands - {"help"} | {"helper"}})
    compare("every command has its page", {f for f in os.listdir(os.path.join(source, "man")) if re.search(r"\.[18]$", f)},
            {f"ringside-{c}.1" for c in commands - {"help"}} | {"ringside.1", "ringside-helper.8"})
    return commands - {"help"}


def check_helper():
    roles = set(re.findall(r'strcmp\(role, "(--\w+)"\)', read("helper", "main.c")))
    compare("ringside-helper(8) has the options", page_options(read("man", "ringside-helper.8")), roles)


def check_program_completion():
    """Behind the program's name everything is the program's."""
    for words in (["--", "true", "--"], ["-F", "99", "true", "--"], ["--label", "k", "=", "v", "true", "--"],
                  ["--event", "=", "cpu-clock", "@", "99", "true", "--"], ["-e", "cpu-clock", "@", "99", "true", "--"]):
        offered = complete("ringside", "record", *words)
        report("--frequency=" not in offered, f"record {' '.join(words)} offers no options of record", str(offered))
    for words in (["-F", "99"], ["-e", "cpu-clock", "@", "99"], ["--label", "k", "=", "v"],
                  ["--label", "=", "k", "=", "v"], ["--event", "=", "cpu-clock", "@", "99"], ["--no-wait"]):
        report("--frequency=" in complete("ringside", "record", *words, "--"), f"record {' '.join(words)} offers more options")


def check_units():
    """Of the systemd that is meant: a systemctl of ours says which was asked."""
    with tempfile.TemporaryDirectory() as directory:
        fake = os.path.join(directory, "systemctl")
        with open(fake, "w", encoding="utf-8") as f:
            f.write('#!/bin/sh\ncase "$1" in --user) echo own.service loaded ;; *) echo system.service loaded ;; esac\n')
        os.chmod(fake, 0o755)
        for words, unit in ((["--unit", "="], "system"), (["--user", "--unit", "="], "own"),
                            (["--user", "--unit", "=", "x", "--unit", "="], "own")):
            offered = complete("ringside", "record", *words, "", path=[directory])
            report(offered == {f"{unit}.service"}, f"record {' '.join(words)} offers units", str(offered))


def check_markup():
    for name in sorted(os.listdir(os.path.join(source, "man"))):
        if not re.search(r"\.[18]$", name):
            continue
        # -Z: groff's intermediate output, so that only the pages' own faults can be heard of.
        result = subprocess.run(["man", "--warnings=w", "-E", "UTF-8", "-l", "-Tutf8", "-Z", os.path.join(source, "man", name)],
                                stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False,
                                env=dict(os.environ, MANWIDTH="80", LC_ALL="C.UTF-8"))
        report(result.returncode == 0 and result.stdout and result.stderr == "", f"{name} has no warnings", result.stderr)


for each in sorted(check_program()):
    check_command(each)
check_helper()
check_program_completion()
check_units()
check_markup()
sys.exit(1 if failures else 0)
