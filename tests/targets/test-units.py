# SPDX-License-Identifier: LGPL-2.1-or-later
"""
Units of systemd: which cgroup they stand for, and what is said where they stand for none. A stand-in answers for
systemd on the private bus, and on a user bus; tests/system asks the real one.
"""

import contextlib
import os
import socket
import subprocess
import tempfile
import threading

import targets as t
from dbus_client import Connection
from targets import h

SYSTEMD, MANAGER = "org.freedesktop.systemd1", "org.freedesktop.systemd1.Manager"
PROPERTIES, BUS = "org.freedesktop.DBus.Properties", "org.freedesktop.DBus"
TYPES = {"service": "Service", "scope": "Scope", "slice": "Slice"}


def object_path(name):
    return "/org/freedesktop/systemd1/unit/" + "".join(c if c.isalnum() else f"_{ord(c):02x}" for c in name)


class StandIn:
    """Owns systemd's name on a bus; units: {name: (state, cgroup)}."""

    def __init__(self, connection, units):
        self.connection = connection
        self.units = {object_path(name): (name, *unit) for name, unit in units.items()}
        r = connection.call(BUS, "/org/freedesktop/DBus", BUS, "RequestName", "su", [SYSTEMD, 4])
        h.check(r == [1], f"RequestName: {r}")
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        with contextlib.suppress(OSError, EOFError, ValueError):
            while True:
                message = self.connection.receive(60)
                if message and message.kind == 1:
                    self.serve(message)

    def serve(self, m):
        if (m.path, m.interface, m.member) == ("/org/freedesktop/systemd1", MANAGER, "GetUnit"):
            path = object_path(m.body[0])
            if path in self.units:
                return self.connection.answer(m, "o", path)
            return self.connection.answer_error(m, SYSTEMD + ".NoSuchUnit", f"Unit {m.body[0]} not loaded.")
        if (m.interface, m.member) == (PROPERTIES, "Get") and m.path in self.units:
            name, state, cgroup = self.units[m.path]
            kind = SYSTEMD + "." + TYPES[name.rpartition(".")[2]]
            if m.body == [SYSTEMD + ".Unit", "ActiveState"]:
                return self.connection.answer(m, "v", ("s", state))
            if m.body == [kind, "ControlGroup"]:
                return self.connection.answer(m, "v", ("s", cgroup))
        return self.connection.answer_error(m, BUS + ".Error.UnknownMethod", f"{m.path} {m.interface} {m.member} {m.body}")

    def close(self):
        # Ends what the thread waits for.
        self.connection.socket.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.connection.close()


@contextlib.contextmanager
def stand_in(connection, units):
    s = StandIn(connection, units)
    try:
        yield s
    finally:
        s.close()


@contextlib.contextmanager
def user_bus():
    """A session bus of user A's; its socket, and what tells ringside of it."""
    with tempfile.TemporaryDirectory(prefix="targets-") as directory:
        os.chown(directory, t.A.uid, t.A.gid)
        path = directory + "/bus"
        p = subprocess.Popen(["as-user", t.A.name, "dbus-daemon", "--session", "--nofork", "--nosyslog",
                              f"--address=unix:path={path}"], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            h.until("the user's bus", lambda: os.path.exists(path))
            yield path, [f"DBUS_SESSION_BUS_ADDRESS=unix:path={path}"]
        finally:
            p.kill()
            p.wait()


@contextlib.contextmanager
def cgroups(*names):
    """Cgroups below one of our own: ({name: path}, {name: pid of a burner in it})."""
    with t.Tree(t.unified()) as tree, contextlib.ExitStack() as stack:
        paths = {name: tree.make(name) for name in names}
        yield paths, {name: t.burner_in(stack, tree, name) for name in names}


def check_recorded(pid, label, *options, env=None):
    with t.Recording(*options, env=env) as recording:
        t.burns(pid, 0.2)
        recording.stop()
        h.check(recording.samples().keys() == {label} and recording.pids() == {pid},
                f"{options}: {recording.samples()}, {recording.pids()}")


def test_units():
    with cgroups("a.service", "b.scope", "c.slice") as (paths, pids), \
            stand_in(Connection(), {"a.service": ("active", paths["a.service"]), "b.scope": ("active", paths["b.scope"]),
                                    "c.slice": ("active", paths["c.slice"]), "off.service": ("inactive", ""),
                                    "lost.service": ("active", paths["a.service"] + "/lost")}):
        check_recorded(pids["a.service"], "unit a.service", "--unit", "a")
        check_recorded(pids["b.scope"], "unit b.scope", "--unit=b.scope")
        with t.Recording("--unit=a", "--unit=c.slice", "--cgroup", paths["b.scope"]) as recording:
            for pid in pids.values():
                t.burns(pid, 0.1)
            recording.stop()
            rows = recording.report("--by=process")["rows"]
        h.check({row["id"]: row["target"] for row in rows} ==
                {pids["a.service"]: "unit a.service", pids["b.scope"]: f"cgroup {paths['b.scope']}",
                 pids["c.slice"]: "unit c.slice"}, f"rows {rows}")
        said = t.refused("--unit=none")
        h.check("the unit none.service is not loaded" in said and "systemctl status none.service" in said, said)
        said = t.refused("--unit=off")
        h.check("the unit off.service is not running: it is inactive" in said and "systemctl start off.service" in said, said)
        h.check("there is no such cgroup" in t.refused("--unit=lost"), "a unit whose cgroup is not there")
        h.check("no processes of its own" in t.refused("--unit=x.timer"), "a timer")
        h.check("are the same cgroup" in t.refused("--unit=a", "--cgroup", paths["a.service"]), "one twice")
        h.check("no unit is called" in t.refused("--unit=a/b"), "a path")


def test_restarted():
    """A unit that is started again has another cgroup: said when it is noticed, and in the end; one that stays is not named."""
    with t.Tree(t.unified()) as tree, contextlib.ExitStack() as stack:
        paths = {name: tree.make(name) for name in ("a.service", "b.service", "c")}
        stays = t.burner_in(stack, tree, "b.service")
        with stand_in(Connection(), {name: ("active", paths[name]) for name in ("a.service", "b.service")}), \
                t.Recording("--unit=a", "--unit=b", "--cgroup", paths["c"], quiet=False) as recording:
            with h.killed(t.burner()) as first:
                tree.move(first.pid, "a.service")
                t.burns(first.pid, 0.2)
            for name in "a.service", "c":
                tree.remove(name)
                tree.make(name)
            again = t.burner_in(stack, tree, "a.service")
            # Where its messages go nobody reads yet: they fit in the pipe.
            t.burns(again, 0.3)
            t.burns(stays, 0.5)
            recording.stop()
            said, pids = recording.said, recording.pids()
    h.check(pids == {first.pid, stays}, f"processes {pids}")
    for name, how in ("unit a.service", "was started again"), (f"cgroup {paths['c']}", "was removed and made again"):
        h.check(said.count(f"The {name} {how}: what it does from now on is not recorded") == 1, said)
        h.check(said.count(f"The {name} {how} meanwhile: what it did from then on is not in the recording") == 1, said)
    h.check("The unit b.service" not in said, said)


def test_user_units():
    """The same name on the user's bus is another unit."""
    with cgroups("system", "user") as (paths, pids), user_bus() as (address, env), \
            stand_in(Connection(), {"app.service": ("active", paths["system"])}):
        with t.A.act():
            users = Connection(address)
        with stand_in(users, {"app.service": ("active", paths["user"])}):
            check_recorded(pids["user"], "unit app.service", "--user", "--unit=app", env=env)
            check_recorded(pids["system"], "unit app.service", "--unit=app", env=env)
            said = t.refused("--user", "--unit=none", env=env)
            h.check("systemctl --user status none.service" in said, said)


def test_no_systemd():
    h.check("no systemd answers on the system bus" in t.refused("--unit=a"), "a system without systemd")
    with user_bus() as (_, env):
        h.check("no systemd answers on the user bus" in t.refused("--user", "--unit=a", env=env), "a user bus without")
    h.check("no user bus" in t.refused("--user", "--unit=a"), "no user bus")
    h.check("no --unit is named" in t.refused("--user"), "--user alone")


t.main(test_units, test_restarted, test_user_units, test_no_systemd)
