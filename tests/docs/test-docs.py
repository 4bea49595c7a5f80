#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""What the pages say, compared with the code: names, types, numbers, exit codes, links. Both ways where a page
claims to have all of something.

usage: test-docs.py SOURCE-DIRECTORY"""

import os
import re
import sys
import xml.etree.ElementTree as ET

SOURCE = sys.argv[1]
failures = 0


def report(good, text, detail=""):
    global failures
    failures += not good
    print(("ok - " if good else "not ok - ") + text + (f": {detail}" if detail and not good else ""))


def compare(text, page, code):
    """The page's set and the code's; neither may be empty, or the pattern that looks for it is wrong."""
    page, code = set(page), set(code)
    report(page == code and code, text,
           f"page lacks {sorted(code - page)}, has {sorted(page - code)}" if code else "nothing found")


def read(*path):
    with open(os.path.join(SOURCE, *path), encoding="utf-8") as f:
        return f.read()


def pages():
    for top in (".", "docs"):
        for name in sorted(os.listdir(os.path.join(SOURCE, top))):
            if name.endswith(".md"):
                yield os.path.normpath(os.path.join(top, name))


def section(text, title):
    """From a heading to the next one."""
    match = re.search(rf"^#+ {re.escape(title)}\n(.*?)(?=^#|\Z)", text, re.M | re.S)
    return match[1] if match else ""


def rows(text):
    """Cells of every table row but headings and rulers."""
    lines = text.splitlines()
    for i, line in enumerate(lines):
        ruled = i + 1 < len(lines) and re.match(r"\|[-|]+\|$", lines[i + 1])
        if line.startswith("|") and not ruled and not re.match(r"\|[-|]+\|$", line):
            yield [cell.strip() for cell in line.strip("|").split("|")]


def code_span(cell):
    match = re.fullmatch(r"`([^`]+)`", cell)
    return match[1] if match else None


# The constants of the code.

def constants():
    """{name: number} of every #define that is one, in the headers the pages speak of."""
    values = {}
    for path in ("helper/budget.h", "helper/grant.h", "helper/front.h", "helper/session.h", "common/protocol.h", "common/record.h",
                 "common/unwind-table.h", "bpf/control.h"):
        for name, text in re.findall(r"^#define (\w+) (\(?[\dUL* <]+\)?)(?:\s*/\*.*)?$", read(path), re.M):
            values[name] = eval(re.sub(r"(?<=\d)U?L*", "", text))  # digits, spaces, *, < and () only
    return values


def number(value):
    return f"{value:,}"


def size(value):
    for unit, name in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if value % unit == 0:
            return f"{value // unit} {name}"
    return number(value)


def says(cell, value):
    """The number stands in the cell, as a number or a size, and not as part of another."""
    return any(re.search(rf"(?<![\d,]){re.escape(s)}(?!\d|,\d)", cell) for s in (number(value), size(value)))


# docs/dbus.md

def check_errors():
    page = read("docs/dbus.md")
    names = re.findall(r'^#define FRONT_ERROR_\w+ FRONT_ERROR\("(\w+)"\)', read("helper/front.h"), re.M)
    code = {f"org.ringside.Helper1.Error.{name}" for name in names} | {"org.freedesktop.DBus.Error.InvalidArgs"}
    table = list(rows(section(page, "Errors")))
    compare("dbus.md has the errors", [code_span(row[0]) for row in table], code)
    for row in table:
        report(len(row) == 3 and row[1] and row[2], f"{row[0]} has a meaning and a next step")
    told = set(re.findall(r"org\.ringside\.Helper1\.Error\.\w+", "".join(read(p) for p in pages())))
    report(told <= code, "no page names another error", str(sorted(told - code)))
    library = set(re.findall(r'NAME "\.Error\.(\w+)"', read("client/lib/helper-bus.c")))
    compare("the library knows the errors", library, names)


def check_options():
    table = list(rows(section(read("docs/dbus.md"), "OpenSession")))
    body = re.search(r"\} options\[\] = \{(.*?)\n\};", read("helper/options.c"), re.S)[1]
    compare("dbus.md has the options", [(code_span(r[0]), code_span(r[1])) for r in table],
            re.findall(r'\{"([\w-]+)", "([^"]+)", \w+\}', body))
    values, cells = constants(), {code_span(r[0]): r for r in table}
    for option, column, constant in (("events", 2, "RS_EVENTS_MAX"), ("ring-size", 2, "RS_RING_SIZE_MIN"),
                                     ("ring-size", 2, "RS_RING_SIZE_MAX"), ("ring-size", 3, "GRANT_RING_SIZE_DEFAULT"),
                                     ("table-size", 2, "RS_TABLE_SIZE_MIN"), ("table-size", 2, "RS_TABLE_SIZE_MAX"),
                                     ("stack-depth", 2, "RS_FRAMES_MAX"), ("stack-depth", 3, "GRANT_FRAMES_DEFAULT"),
                                     ("events", 2, "GRANT_FREQUENCY_MAX")):
        report(re.search(rf"\b{values[constant]}\b", cells[option][column]), f"{option}: {constant} is {values[constant]}",
               cells[option][column])


def check_interface():
    page, front = read("docs/dbus.md"), read("helper/front.c")
    vtable = re.search(r"vtable\[\] = \{(.*?)\n\};", front, re.S)[1]
    compare("dbus.md has the properties", [(code_span(r[0]), code_span(r[1])) for r in rows(section(page, "Properties"))],
            re.findall(r'SD_BUS_PROPERTY\("(\w+)", "([^"]+)"', vtable))
    arguments = r'SD_BUS_(?:NO_ARGS|(?:ARGS|RESULT)\("([^"]+)", \w+\))'
    methods = re.findall(rf'SD_BUS_METHOD_WITH_ARGS\("(\w+)",\s*{arguments},\s*{arguments}', vtable)
    compare("dbus.md has the methods", [(code_span(r[0]), r[1].split(" ")[0].strip("`"), r[2].split(" ")[0].strip("`"))
                                        for r in rows(section(page, "The bus interface"))], methods)
    signals = "SIGNAL" in vtable
    report(not signals and "There are no signals" in page, "there are no signals, and dbus.md says so")


def check_ends():
    told = [code_span(r[0]) for r in rows(section(read("docs/dbus.md"), "How a session ends"))]
    compare("dbus.md has the reasons of END", told, re.findall(r"session_end\(session, (\w+)\)", read("helper/session.c")))


# docs/budgets.md

def check_budgets():
    page, front, values = read("docs/budgets.md"), read("helper/front.c"), constants()
    table = list(rows(section(page, "Budgets")))
    body = re.search(r'"a\{st\}", (\d+), (.*?)\);', front, re.S)
    pairs = re.findall(r'"([\w-]+)",\s*(?:\(uint64_t\) )?([\w>.-]+)', body[2])
    report(len(pairs) == int(body[1]), f"Limits has {body[1]} entries", str(pairs))
    compare("budgets.md has the keys of Limits", [code_span(r[2]) for r in table if r[2]], [key for key, _ in pairs])
    for row in table:
        source = dict(pairs).get(code_span(row[2]) or "")
        if source and source.startswith("BUDGET_"):
            report(code_span(row[3]) == source, f"{row[2]} is {source}", row[3])
    compare("budgets.md has the budgets", [code_span(r[3]) for r in table if r[3]],
            [name for name in values if name.startswith("BUDGET_")])
    check_limits(table, values)
    report("1/16" in page and re.search(r"ram / 16\b", read("helper/budget.c")), "a sixteenth of the memory")
    report("a quarter of" in page and "read_max_sample_rate() / 4" in read("helper/budget.c"), "a quarter of the kernel's rate")


def check_limits(table, values):
    for row in table:
        for name in re.findall(r"`(\w+)`", row[-1]):
            if name in values:
                report(says(row[1], values[name]), f"budgets.md: {name} is {number(values[name])}", row[1])


def check_session_limits():
    page, values = read("docs/budgets.md"), constants()
    table = list(rows(section(page, "Limits of one session")))
    check_limits([row for row in table], values)
    compare("budgets.md has the limits of a grant", {n for r in table for n in re.findall(r"`(GRANT_\w+)`", r[-1])},
            {n for n in values if n.startswith("GRANT_")} - {"GRANT_FREQUENCY_DEFAULT"})


# docs/security.md

def check_security():
    page, sandbox = read("docs/security.md"), read("helper/sandbox.c")
    allowed = re.search(r"session_bpf\[\] = \{(.*?)\};", sandbox, re.S)[1]
    compare("security.md has what a session may do with bpf(2)", re.findall(r"`(BPF_\w+)`", page),
            re.findall(r"BPF_\w+", allowed))
    unit = re.search(r"^CapabilityBoundingSet=(.*)$", read("dbus/ringside-helper.service.in"), re.M)[1]
    compare("security.md has the unit's capabilities",
            [name for row in rows(section(page, "Capabilities by stage")) for name in re.findall(r"`(CAP_\w+)`", row[1])],
            unit.split())
    told = re.search(r"^- 5\.19, 6\.0, 6\.1 before (6\.1\.\d+), 6\.2 and 6\.3 before (6\.3\.\d+) ", page, re.M)
    fixed = re.findall(r"return version >= RS_KERNEL_VERSION\((\d+), (\d+), (\d+)\)", read("bpf/kernel-version.h"))
    compare("security.md has the kernels where user memory cannot be read", told.groups() if told else (),
            [".".join(v) for v in fixed])
    for path in re.findall(r"`(tests/[\w/.-]+)`", page):
        report(os.path.exists(os.path.join(SOURCE, path)), f"security.md: {path} is there")


# docs/polkit.md

def check_polkit():
    policy = ET.fromstring(read("polkit/org.ringside.helper1.policy"))
    actions = []
    for action in policy.iter("action"):
        defaults = [action.find(f"defaults/allow_{who}").text for who in ("active", "inactive", "any")]
        actions.append((action.get("id"), *defaults))
    table = [(code_span(r[0]), *(code_span(c) for c in r[2:])) for r in rows(section(read("docs/polkit.md"), "polkit"))]
    compare("polkit.md has the actions and their defaults", table, actions)


# docs/architecture.md

def check_architecture():
    page = read("docs/architecture.md")
    told = {c for r in rows(section(page, "Capabilities by stage")) for c in re.findall(r"CAP_\w+", r[1])}
    compare("architecture.md has the capabilities of the unit", told,
            re.search(r"^AmbientCapabilities=(.*)$", read("dbus/ringside-helper.service.in"), re.M)[1].split())
    told = [d for r in rows(section(page, "Where what lives")) for d in re.findall(r"`([\w/]+)/`", r[0])]
    report(all(os.path.isdir(os.path.join(SOURCE, d)) for d in told) and told, "architecture.md names directories", str(told))


# Every page

def heading_ids(text):
    for heading in re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S), re.M):
        yield re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def check_links():
    for page in pages():
        text = read(page)
        for link in re.findall(r"\]\(([^)\s]+)\)", text):
            if re.match(r"\w+:", link):
                continue
            path, _, anchor = link.partition("#")
            target = os.path.normpath(os.path.join(SOURCE, os.path.dirname(page), path)) if path else os.path.join(SOURCE, page)
            good = os.path.exists(target)
            if good and anchor:
                with open(target, encoding="utf-8") as f:
                    good = anchor in heading_ids(f.read())
            report(good, f"{page}: {link} leads somewhere")
        report(not re.search(r"\]\(\s*\n|\]\s*\n?\([^)]*\n", text), f"{page}: no link is broken in two")


IDENTIFIER = re.compile(r"\b(?:RS|BUDGET|GRANT|FRONT|RINGSIDE_E|RINGSIDE_HELPER)_[A-Z0-9_]+\b(?!\*)|\bringside_\w+\b(?!\*)")


def check_names():
    """Paths and identifiers between backticks are there."""
    code = ""
    for top in ("bpf", "client", "common", "helper"):
        for directory, _, files in os.walk(os.path.join(SOURCE, top)):
            for name in files:
                if re.search(r"\.[ch]$|\.map$", name):
                    with open(os.path.join(directory, name), encoding="utf-8") as f:
                        code += f.read()
    code = set(re.findall(r"\w+", code))
    for page in pages():
        text = re.sub(r"^```.*?^```", "", read(page), flags=re.M | re.S)
        for span in sorted(set(re.findall(r"`([^`\n]+)`", text))):
            for name in IDENTIFIER.findall(span):
                report(name in code or name.endswith("_"), f"{page}: {name} is there")
            if re.fullmatch(r"(?:bpf|client|common|dbus|docs|helper|polkit|tests)/[\w./-]+", span):
                report(os.path.exists(os.path.join(SOURCE, span)), f"{page}: {span} is there")


def check_width():
    for page in pages():
        if page == "docs/recording.md":
            continue
        # Tables cannot be broken, and most commands of docs/ not either.
        text = read(page) if page == "README.md" else re.sub(r"^```sh\n.*?^```", "", read(page), flags=re.M | re.S)
        wide = [line for line in text.splitlines() if len(line) > 80 and not line.startswith("|")]
        report(not wide, f"{page} is 80 columns wide", str(wide[:3]))


# The rest

def exit_codes(page):
    text = re.search(r"^\.Sh EXIT STATUS\n(.*?)^\.Sh ", read("man", page), re.M | re.S)[1]
    return {int(n) for n in re.findall(r"^\.It (\d+)(?:\+N)?$", text, re.M)}


def check_exit_codes():
    enum = re.search(r"enum \{\n        EXIT_USAGE.*?\};", read("client/cli/cli.h"), re.S)[0]
    code = {int(n) for n in re.findall(r"= (\d+)", enum)}
    compare("ringside(1) has the exit codes of the code", exit_codes("ringside.1"), code | {0, 1})
    returned = {int(n) for n in re.findall(r"return (\d+);", read("helper/main.c"))} | {0, 1}
    compare("ringside-helper(8) has the exit codes of the code", exit_codes("ringside-helper.8"), returned)


def check_helper_man():
    values, man = constants(), read("man/ringside-helper.8")
    budgets = re.search(r"^\.Sh BUDGETS\n(.*?)^\.Sh ", man, re.M | re.S)[1]
    for name in ("BUDGET_SESSIONS_USER", "BUDGET_SESSIONS_MAX", "BUDGET_OPENS_USER", "BUDGET_OPENS_MINUTE",
                 "BUDGET_TASK_RATE_USER", "BUDGET_WIDE_RATE_USER", "BUDGET_WIDE_RATE", "BUDGET_SYSTEM_RATE", "BUDGET_MEMORY_USER",
                 "BUDGET_MEMORY_MAX"):
        report(says(budgets, values[name]), f"ringside-helper(8): {name} is {number(values[name])}")


def check_suites():
    suites = set()
    for directory, names, files in os.walk(SOURCE):
        names[:] = [n for n in names if not n.startswith(".") and not os.path.exists(os.path.join(directory, n, "build.ninja"))]
        if "meson.build" in files:
            suites |= set(re.findall(r"suite'?: '(\w+)'", read(os.path.relpath(os.path.join(directory, "meson.build"), SOURCE))))
    table = rows(section(read("CONTRIBUTING.md"), "Tests"))
    compare("CONTRIBUTING.md has the suites", [code_span(r[0]) for r in table], suites)


def check_size():
    for directory, most in (("helper", 3650), ("kernel", 500)):
        lines = 0
        for name in os.listdir(os.path.join(SOURCE, directory)):
            if name.endswith(".c") and not name.startswith("test-"):
                lines += read(directory, name).count("\n")
        report(lines < most, f"{directory}/ is under {number(most)} lines of C", str(lines))


for check in (check_security, check_errors, check_options, check_interface, check_ends, check_budgets, check_session_limits, check_polkit,
              check_architecture, check_links, check_names, check_width, check_exit_codes, check_helper_man, check_suites,
              check_size):
    check()
sys.exit(failures > 0)
