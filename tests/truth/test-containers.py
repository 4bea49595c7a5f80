#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""
Containers that ordinary users start themselves, recorded from outside: programs and libraries that exist only in
there, names a JIT left in its /tmp there, the numbers processes have in there. And recorded from inside. As an ordinary
user over the real bus; runs inside bus-env.
"""

import contextlib
import os
import subprocess
import sys
import tempfile
import time

from truth import OTHER_USER, RATE, USER, WORKLOADS, Recording, as_user, check, check_shares, comm_of, cpu_seconds
from truth import exit_status, workload

SHARES = {"inner_program": 33.3, "inner_library": 33.3, "inner_made": 33.3}
POINTS = 8.0
PLACE = "/mnt"
BUS = "/run/dbus/system_bus_socket"

# Meson's environment would have the library found elsewhere.
INSIDE = f'unset LD_LIBRARY_PATH; cp "$1/workload-inside" "$1/libinside.so" {PLACE} && exec {PLACE}/workload-inside "$2"'
MOUNT = f"mount -t tmpfs tmpfs {PLACE} && mount -t tmpfs tmpfs /tmp && "
UNSHARE = ["unshare", "-Urmpf", "--mount-proc"]
BWRAP = ["bwrap", "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc",
         "--tmpfs", "/tmp", "--tmpfs", PLACE]


def shell(script, seconds):
    return ["sh", "-c", script, "sh", WORKLOADS, str(seconds)]


# What starts a container in which the program uses this much CPU time.
CONTAINERS = {
    "unshare": lambda seconds: [*UNSHARE, *shell(MOUNT + INSIDE, seconds)],
    "bwrap": lambda seconds: [*BWRAP, *shell(INSIDE, seconds)],
    "bwrap in unshare": lambda seconds: [*UNSHARE, *BWRAP, *shell(INSIDE, seconds)],
}


def children_of(pid):
    found = []
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as f:
            found += map(int, f.read().split())
    return found


def find_program(pid):
    """The program in a container, by its number out here; 0: it does not run yet."""
    with contextlib.suppress(OSError):
        if comm_of(pid) == "workload-inside":
            return pid if cpu_seconds(pid) >= 0.05 else 0
        for child in children_of(pid):
            found = find_program(child)
            if found:
                return found
    return 0


@contextlib.contextmanager
def container(user, name):
    """One that goes on for long: the number of its program out here, and in there."""
    p = subprocess.Popen(["as-user", user, *CONTAINERS[name](300)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    outer = 0
    try:
        deadline = time.monotonic() + 30
        while not (outer := find_program(p.pid)):
            if p.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{name}: the container does not run")
            time.sleep(0.02)
        yield outer, int(p.stdout.readline())
    finally:
        # Whatever started it waits for it.
        if outer:
            os.kill(outer, 9)
        else:
            p.kill()
        p.communicate()


def row_of_program(recording):
    rows = [row for row in recording.report("process")["rows"] if row["name"] == "workload-inside"]
    return rows[0] if len(rows) == 1 else {}


def check_container(title, recording, inner):
    check_shares(title, recording.shares("function"), SHARES | {"main": 100}, POINTS)
    files = recording.shares("file")
    check({PLACE + "/workload-inside", PLACE + "/libinside.so"} <= set(files) and not os.path.exists(PLACE + "/workload-inside"),
          f"{title}: its files are {', '.join(sorted(files))}, which are not out here")
    row = row_of_program(recording)
    check(row.get("inner_id") == inner, f"{title}: its number in there is {row.get('inner_id')}, to be {inner}")
    table = as_user("ringside", "report", "--by=process", recording.path)
    line = [line.split() for line in table.splitlines() if line.endswith("workload-inside")][-1]
    check(line[-3:-1] == [str(row.get("id")), str(inner)], f"{title}: the table has both its numbers: {line}")
    return row


def test_containers(directory):
    for name, command in CONTAINERS.items():
        title = name.replace(" ", "-")
        r = Recording(directory, title, "--", *command(1))
        row = check_container(name, r, int(r.printed))
        check(row.get("id") != row.get("inner_id"), f"{name}: its number out here is another")

        with container(USER, name) as (outer, inner):
            r = Recording(directory, title + "-attached", "-p", str(outer), "-d", "2")
            row = check_container(f"{name}, attached", r, inner)
            check(row.get("id") == outer, f"{name}, attached: its number out here is {row.get('id')}, to be {outer}")


def test_foreign(directory):
    """What runs in another user's container is as hidden as what runs outside of it."""
    with container(OTHER_USER, "unshare") as (outer, _):
        before = cpu_seconds(outer)
        r = Recording(directory, "foreign", "-d", "1")
        check(cpu_seconds(outer) > before, "foreign: it ran meanwhile")
        ids = {row["id"] for row in r.report("process")["rows"]}
        check(outer not in ids and "workload-inside" not in r.shares("process"), "foreign: it is not in all of mine")
        p = subprocess.run(["as-user", USER, "ringside", "record", "-p", str(outer), "-o",
                            os.path.join(directory, "refused.ringside")], stdin=subprocess.DEVNULL,
                           stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
        check(p.returncode != 0 and "not yours to see" in p.stderr, f"foreign: by its PID it is refused: {p.stderr.strip()}")


def record_inside(directory, name, place, *prefix, succeeds=True):
    """Ringside itself in a container: the recording, or what it said instead."""
    path = os.path.join(directory, name + ".ringside")
    p = subprocess.run(["as-user", USER, "env", "-u", "LD_LIBRARY_PATH", *place, *prefix, "ringside", "record", "-q",
                        "--no-ask", "-F", str(RATE), "-o", path, "--", workload("inside"), "1"],
                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60,
                       check=False)
    check((p.returncode == 0) == succeeds, f"{name}: exit {p.returncode} {p.stderr.strip()}")
    if not succeeds:
        return p.stderr
    # Here, since it is a file like any other.
    return Recording.of_file(path, p.stdout)


def check_inside(name, recording):
    check_shares(name, recording.shares("function"), SHARES | {"main": 100}, POINTS)
    row = row_of_program(recording)
    check(row.get("id") == int(recording.printed) and "inner_id" not in row,
          f"{name}: its number is the one it has in there, {row.get('id')}")


def test_inside(directory):
    """A client in a container, that sees what is in there under the numbers it has in there."""
    sandbox = ["bwrap", "--unshare-all", "--die-with-parent", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp",
               "--bind", directory, directory, "--ro-bind", WORKLOADS, WORKLOADS]
    for tree in ("/usr", "/bin", "/lib", "/lib64"):
        sandbox += ["--ro-bind-try", tree, tree]
    text = record_inside(directory, "sandbox without the bus", sandbox, succeeds=False)
    check("bus" in text, f"sandbox without the bus: it says so: {text.strip()}")
    sandbox += ["--ro-bind", BUS, BUS]
    check_inside("sandbox", record_inside(directory, "sandbox", sandbox))

    # As root of a user namespace everything has all capabilities there.
    root = [*UNSHARE, "sh", "-c", 'mount -t tmpfs tmpfs /tmp && exec "$@"', "sh"]
    text = record_inside(directory, "root in there", root, succeeds=False)
    check("not yours to see" in text, f"root in there: it says so: {text.strip()}")
    drop = ["setpriv", "--inh-caps=-all", "--bounding-set=-all"]
    check_inside("root without capabilities", record_inside(directory, "root-without", root, *drop))

    text = record_inside(directory, "outer proc", ["unshare", "-cpf"], succeeds=False)
    check("another pid namespace" in text, f"outer proc: it says so: {text.strip()}")


def main():
    with tempfile.TemporaryDirectory(prefix="ringside-containers-", dir="/run") as directory:
        os.chmod(directory, 0o777)
        test_containers(directory)
        test_foreign(directory)
        test_inside(directory)
    return exit_status()


if __name__ == "__main__":
    sys.exit(main())
