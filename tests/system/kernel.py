# SPDX-License-Identifier: LGPL-2.1-or-later
"""The kernel's own names, and its modules."""

import contextlib

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
