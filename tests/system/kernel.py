# SPDX-License-Identifier: LGPL-2.1-or-later
"""The kernel's own names, and its modules."""

import contextlib
import lzma
import os

import running
from machine import check, collapsed, database, sh, until


def names(session):
    """A program that has the kernel fill buffers: in core text."""
    session.shell("rm -f r.ringside; ringside record -q -F 499 -o r.ringside -- "
                  "dd if=/dev/zero of=/dev/null bs=1M count=20000 2>&1")
    stacks = collapsed(session, "r.ringside")
    total = sum(stacks.values())
    reading = sum(n for stack, n in stacks.items() if "vfs_read" in stack)
    check(reading > total / 2, f"{reading} of {total} samples are in vfs_read: {list(stacks)[:5]}")
    return "vfs_read and what it calls"


def load(*modules):
    for module in modules:
        sh("modprobe", module)


def unload(*modules):
    for module in modules:
        sh("modprobe", "-r", module)


# Of frames that were running in a process's samples: the file, which is the module, and the name.
LEAVES = """
SELECT file.path, symbol.name FROM sample JOIN thread ON thread.id = sample.thread
JOIN process ON process.id = thread.process JOIN stack ON stack.id = sample.stack JOIN frame ON frame.id = stack.frame
JOIN file ON file.id = frame.file LEFT JOIN symbol ON symbol.id = frame.symbol WHERE process.comm = ?
"""


def leaves(session, comm):
    """{(module, function)} in which a process was interrupted, as far as the recording goes by now."""
    with contextlib.closing(database(session)) as db:
        rows = db.execute(LEAVES, (comm.encode(),)).fetchall()
    return {(path.decode(), name.decode() if name else None) for path, name in rows}


def check_only(session, comm, module, other):
    """All that it has of these two modules is the one's, by functions of that one."""
    found = leaves(session, comm)
    check(any(path == f"[{module}]" and module in name for path, name in found if name), f"{comm}: {found}")
    check(not any(other in path or name and other in name for path, name in found), f"{comm} is in {other}: {found}")


def modules(session):
    """
    One is loaded before the recording; in the middle another takes its place, perhaps its very addresses; then the
    first is loaded again, elsewhere. Each is named once its change has been noticed, and none by another's names.
    """
    algorithms = {"first-wp512": "wp512", "then-rmd160": "rmd160", "again-wp512": "wp512"}
    for name in algorithms:
        sh("cp", "--remove-destination", "/test/hash.py", f"/test/{name}")
    load("algif_hash", "wp512")
    after = [f"/test/{name} {algorithms[name]} {running.MEETING}/{name}" for name in ("then-rmd160", "again-wp512")]
    recorded = running.Recorded(session, running.record_command("-F 99", "/test/first-wp512 wp512 2", "; ".join(after)))
    unload("wp512")
    load("rmd160", "wp512")
    recorded.go()
    for name in "then-rmd160", "again-wp512":
        module = algorithms[name]
        until(f"{name} is named", lambda: any(path == f"[{module}]" and function
                                              for path, function in leaves(session, name)))
        running.touch(f"{running.MEETING}/{name}")
    status, text, _ = recorded.end()
    check(status == 0, f"{status}: {text}")
    unload("wp512", "rmd160", "algif_hash")
    for name, module in algorithms.items():
        check_only(session, name, module, "rmd160" if module == "wp512" else "wp512")
    return "functions of [wp512], then of [rmd160], then of [wp512] again"


def make_twins(module, name):
    """One of the kernel's modules, and one that differs by nothing but its name and those of its functions."""
    path = sh("modinfo", "-n", module).strip()
    with (lzma.open if path.endswith(".xz") else open)(path, "rb") as f:
        code = f.read()
    for twin in module, name:
        with open(f"/test/{twin}.ko", "wb") as f:
            # Whose signature does not hold is not let in, but who has none is.
            f.write(code.replace(module.encode(), twin.encode()).removesuffix(b"~Module signature appended~\n"))


def place(module):
    """Where it lies."""
    with open("/proc/modules", encoding="ascii") as f:
        return {line.split()[0]: line.split()[5] for line in f}[module]


TWINS = ("rmd160", "dmr061")
# Even, so that the first is there at the end again. Where the machine is slow each has two lists of modules to be told, and
# a user is given 16 files of names.
SWAPS = 6


def swaps(session):
    """
    Two modules take each other's place, and are at work there before anybody can have noticed. No function of one is
    ever named in what the other did.
    """
    make_twins(*TWINS)
    for module in TWINS:
        sh("cp", "--remove-destination", "/test/hash.py", f"/test/swap-{module}")
    turns = [(TWINS[i % 2], f"{running.MEETING}/{i}") for i in range(1, SWAPS + 1)]
    named = f"{running.MEETING}/named"
    load("algif_hash", TWINS[0])
    recorded = running.Recorded(session, running.record_command(
        "-F 199", f"/test/swap-{TWINS[0]} {TWINS[0]} 1",
        "; ".join(f"/test/swap-{module} {module} {0.3 if i < SWAPS - 2 else named} {path}; touch {path}.done"
                  for i, (module, path) in enumerate(turns))))
    recorded.go()
    places = [place(TWINS[0])]
    for i, (module, path) in enumerate(turns):
        until(f"the program waits for {path}", lambda: os.path.exists(path + ".ready"))
        sh("rmmod", TWINS[i % 2])
        sh("insmod", f"/test/{module}.ko")
        places.append(place(module))
        running.touch(path)
        if i >= SWAPS - 2:
            until(f"{module} is named", lambda: any(path == f"[{module}]" for path, _ in leaves(session, f"swap-{module}")))
            running.touch(named)
        until(f"{path} is done", lambda: os.path.exists(path + ".done"))
        sh("rm", "-f", named)
    status, text, stacks = recorded.end()
    check(status == 0, f"{status}: {text}")
    unload(TWINS[0], "algif_hash")
    check(len(set(places)) == 1, f"not in one place: {places}")
    for module, other in (TWINS, TWINS[::-1]):
        wrong = {stack: n for stack, n in stacks.items() if stack.startswith(f"swap-{module};") and other in stack}
        check(not wrong, f"{module}: {sum(wrong.values())} samples: {list(wrong)[:3]}")
    return f"no wrong name in {SWAPS} swaps"
