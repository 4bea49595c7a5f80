# SPDX-License-Identifier: LGPL-2.1-or-later
"""
profile-system lasts as long as the user's seat is active. logind itself cannot run here (tests/system has it):
in its place stands a service of its name, on the real bus, that says what it would say of one user and one
session.
"""

import contextlib
import json
import os
import select
import signal
import subprocess
import tempfile
import threading

import harness as h
from dbus_client import BUS, Connection

A, B = h.users()
LOGIND, PATH = "org.freedesktop.login1", "/org/freedesktop/login1"
SESSION, SEAT = PATH + "/session/c1", PATH + "/seat/seat0"
NONE = ("", "/")
E_REVOKED = 18
DBUS_ERROR = "org.freedesktop.DBus.Error."


class Logind(threading.Thread):
    """Who is in which session, and whether that is active. What is asked of it stands in `asked`."""

    def __init__(self, **state):
        super().__init__(daemon=True)
        self.bus = Connection()
        self.active, self.seat, self.display = True, ("seat0", SEAT), ("c1", SESSION)
        self.by_pid, self.there = True, True
        self.errors = {}  # what is answered by an error, and by which
        self.storm, self.burst = 0, 10  # before so many answers, there is so much to be said
        self.asked = []
        for name, value in state.items():
            setattr(self, name, value)
        self.bus.call(BUS, "/org/freedesktop/DBus", BUS, "RequestName", "su", [LOGIND, 4])
        self.start()

    def run(self):
        with contextlib.suppress(EOFError, OSError, ValueError):
            while True:
                call = self.bus.receive(3600)
                if call and call.kind == 1:
                    self.answer(call)

    def answer(self, call):
        what = call.body[-1] if call.member == "Get" else call.member
        self.asked.append(what)
        user = f"{PATH}/user/_{A.uid}"
        storm = what == "Active" and self.storm > 0
        if storm:
            for _ in range(self.burst):
                self.set_active(self.active)
        if what in self.errors:
            self.bus.answer_error(call, self.errors[what], "no")
        elif what == "GetSessionByPID" and self.by_pid and call.body[0] == os.getpid():
            self.bus.answer(call, "o", SESSION)
        elif what == "GetSessionByPID":
            self.bus.answer_error(call, LOGIND + ".NoSessionForPID", "no")
        elif what == "Display" and call.path == user:
            self.bus.answer(call, "v", ("(so)", self.display))
        elif what == "Seat" and call.path == SESSION and self.there:
            self.bus.answer(call, "v", ("s", self.seat) if isinstance(self.seat, str) else ("(so)", self.seat))
        elif what == "Active" and call.path == SESSION and self.there:
            self.bus.answer(call, "v", ("b", self.active))
        else:
            self.bus.answer_error(call, DBUS_ERROR + "UnknownObject", "no")
        # Not before: who waits for its end is to be heard after all of it.
        self.storm -= storm

    def set_active(self, active):
        self.active = active
        self.bus.signal(SESSION, "org.freedesktop.DBus.Properties", "PropertiesChanged", "sa{sv}as",
                        LOGIND + ".Session", [("Active", ("b", active))], [])

    def remove(self):
        self.there = self.by_pid = False
        self.display = NONE
        self.bus.signal(PATH, LOGIND + ".Manager", "SessionRemoved", "so", "c1", SESSION)

    def release(self):
        self.bus.send(BUS, "/org/freedesktop/DBus", BUS, "ReleaseName", "s", [LOGIND])

    def end(self):
        self.bus.socket.shutdown(2)
        self.join()
        self.bus.close()


@contextlib.contextmanager
def seated(**state):
    logind = Logind(**state)
    with A.connect() as connection:
        try:
            yield logind, connection
        finally:
            logind.end()


def running(connection, scope="system"):
    session = h.open_session(connection, scope=("s", scope))
    with A.act():
        h.check(session.hello() == h.OK and session.start() == h.OK, "no session")
    return session


def revoked(session):
    h.check(session.ended() == E_REVOKED, "the session ended for another reason")


def lives(session, connection):
    """And that when the front has heard all that was said before: another is served only after that."""
    running(connection).close()
    h.check(session.stats()[0] == h.OK, "the session does not answer")


def test_seat_becomes_inactive():
    with seated() as (logind, connection), running(connection) as session, running(connection, "own") as own:
        h.check(logind.asked == ["GetSessionByPID", "Seat", "Active"], f"logind was asked for {logind.asked}")
        logind.set_active(True)
        lives(session, connection)
        h.until("only the two are left", lambda: len(h.role_pids("session")) == 2)
        logind.set_active(False)
        revoked(session)
        h.until("its process is gone", lambda: len(h.role_pids("session")) == 1)
        # Nobody was asked about everybody's processes for this one.
        lives(own, connection)


def test_client_says_so():
    """Whoever records is told why it ends, and what was recorded until then is whole."""
    with seated() as (logind, _), tempfile.TemporaryDirectory(prefix="ringside-seat-") as directory:
        os.chown(directory, A.uid, A.gid)
        path = directory + "/x.ringside"
        with subprocess.Popen(["as-user", A.name, "ringside", "record", "-a", "--no-ask", "-F", "99", "-o", path, "--",
                               h.workload("busy"), "1000"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True) as record:
            try:
                h.until("half a second is recorded", lambda: busy_seconds(record.pid) > 0.5)
                logind.set_active(False)
                # At once: its command goes on.
                h.check(select.select([record.stderr], [], [], h.PATIENCE)[0], "nothing is said")
            finally:
                record.send_signal(signal.SIGTERM)
            said = " ".join(record.stderr.read().split())
        h.check("the permission to profile was withdrawn: your seat is no longer active" in said, said)
        h.check("What was recorded is kept" in said, said)
        report = json.loads(subprocess.run(["as-user", A.name, "ringside", "report", "--format=json", path],
                                           stdout=subprocess.PIPE, check=True).stdout)
        h.check(report["recording"]["finished"] and "busy_loop" in [row["name"] for row in report["rows"]],
                f"what is kept: {report}")


def busy_seconds(recorder):
    """What the command of a recording has had of CPU time."""
    for child in h.read(f"/proc/{recorder}/task/{recorder}/children").split():
        with contextlib.suppress(OSError):
            if h.read(f"/proc/{child}/comm") == "workload-busy\n":
                fields = h.read(f"/proc/{child}/stat").rpartition(")")[2].split()
                return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return 0


def test_session_is_removed():
    with seated() as (logind, connection), running(connection) as session:
        logind.remove()
        revoked(session)


def test_names_unread():
    """What a client has not read keeps a session's place, but not one that was taken from it: that may be another's."""
    with seated() as (logind, connection), \
            h.open_session(connection, scope=("s", "system"), kernel=("s", "quiet")) as session:
        with A.act():
            h.check(session.hello() == h.OK, "HELLO")
        session.send(session.message(h.SYMBOLS))
        h.until("the names have come", lambda: select.select([session.socket], [], [], 0)[0])
        logind.set_active(False)
        h.until("its process is gone", lambda: not h.role_pids("session"))
        data, fds = session.receive()
        session.fds += fds
        h.check(len(fds) == 1, f"no names: {data}")
        revoked(session)


def test_before_hello():
    with seated() as (logind, connection), h.open_session(connection, scope=("s", "system")) as session:
        logind.set_active(False)
        revoked(session)


def test_users_service():
    """A process in no session: what counts is the one its user has at the screen."""
    with seated(by_pid=False) as (logind, connection), running(connection) as session:
        h.check(logind.asked == ["GetSessionByPID", "Display", "Seat", "Active"], f"{logind.asked}")
        logind.set_active(False)
        revoked(session)


def test_not_watched():
    """Granted to somebody who was not active, or at no seat: then nothing of it has ended."""
    for state in ({"active": False}, {"seat": NONE}, {"by_pid": False, "display": NONE},
                  {"by_pid": False, "errors": {"Display": DBUS_ERROR + "UnknownObject"}},
                  {"errors": {"GetSessionByPID": DBUS_ERROR + "ServiceUnknown"}}):
        with seated(**state) as (logind, connection), running(connection) as session:
            logind.set_active(True)
            logind.set_active(False)
            logind.remove()
            lives(session, connection)


def test_not_told():
    """Where it cannot be told whether somebody is at a seat, nothing is granted that could not be withdrawn."""
    for said, state in (("NoReply", {"errors": {"GetSessionByPID": DBUS_ERROR + "NoReply"}}),
                        # So dbus-broker says that a service which is there cannot be started.
                        ("NameHasNoOwner", {"errors": {"GetSessionByPID": DBUS_ERROR + "NameHasNoOwner"}}),
                        ("LimitsExceeded", {"errors": {"Seat": DBUS_ERROR + "LimitsExceeded"}}),
                        ("AccessDenied", {"errors": {"Active": DBUS_ERROR + "AccessDenied"}}),
                        ("NoReply", {"by_pid": False, "errors": {"Display": DBUS_ERROR + "NoReply"}}),
                        # The session has ended meanwhile.
                        ("UnknownObject", {"there": False}),
                        ("makes no sense", {"seat": "nowhere"})):
        with seated(**state) as (logind, connection):
            name, text = h.open_error(connection, h.options(scope=("s", "system")))
            h.check(name == h.ERROR + "Failed" and "seat" in text and said in text, f"{state}: {name}: {text}")
            if said == "AccessDenied":
                # That is about other users' processes, and about this request.
                running(connection, "own").close()
                logind.errors = {}
                running(connection).close()


def test_two_sessions():
    """Only what was granted to the seat ends with it."""
    with seated() as (logind, connection):
        logind.seat = NONE
        with running(connection) as free:
            logind.seat = ("seat0", SEAT)
            with running(connection) as watched, running(connection) as another:
                logind.set_active(False)
                revoked(watched)
                revoked(another)
            lives(free, connection)


def test_while_polkit_is_asked():
    """No grant for somebody who has gone meanwhile, however long polkit takes."""
    with seated() as (logind, connection):
        running(connection).close()
        polkitd, monitor = h.named("polkitd"), h.Monitor()
        os.kill(polkitd, signal.SIGSTOP)
        try:
            serial = connection.send(h.NAME, h.PATH, h.NAME, "OpenSession", "a{sv}",
                                     [h.options(scope=("s", "system"))])
            question = monitor.wait_for("CheckAuthorization")[4]
            logind.set_active(False)
            try:
                os.close(connection.wait(serial)[0])
                raise h.Failure("granted")
            except h.DBusError as e:
                h.check(e.name == h.ERROR + "Denied" and "seat" in e.text, str(e))
            # Nor is anybody asked for a password any more.
            h.check(monitor.wait_for("CancelCheckAuthorization") == [question], "another question was cancelled")
        finally:
            os.kill(polkitd, signal.SIGCONT)
            monitor.connection.close()
        logind.active = True
        running(connection).close()


def test_many_signals():
    """One question at a time, and one more for all that is said meanwhile."""
    with seated() as (logind, connection), running(connection) as session:
        logind.asked.clear()
        logind.storm = 3
        logind.set_active(True)
        h.until("the storm is over", lambda: logind.storm == 0)
        lives(session, connection)
        first = logind.asked.index("GetSessionByPID")
        h.check(logind.asked[:first] == ["Active"] * 4, f"asked for {logind.asked}")


def test_storm():
    """Though there is always something to be said before an answer, the end is heard."""
    with seated() as (logind, connection), running(connection) as session:
        logind.storm, logind.burst = 1 << 30, 1
        logind.set_active(False)
        revoked(session)


def test_spoofed():
    """Anybody may send a signal; what counts is what logind and the bus say."""
    with seated() as (logind, connection), running(connection) as session:
        helper = connection.call(BUS, "/org/freedesktop/DBus", BUS, "GetNameOwner", "s", [h.NAME])[0]
        logind.asked.clear()
        for _ in range(10):
            connection.signal(SESSION, "org.freedesktop.DBus.Properties", "PropertiesChanged", "sa{sv}as",
                              LOGIND + ".Session", [("Active", ("b", False))], [], dest=helper)
            connection.signal(PATH, LOGIND + ".Manager", "SessionRemoved", "so", "c1", SESSION, dest=helper)
            connection.signal("/org/freedesktop/DBus", BUS, "NameOwnerChanged", "sss", LOGIND, logind.bus.name,
                              connection.name, dest=helper)
        lives(session, connection)
        h.check(logind.asked == ["GetSessionByPID", "Seat", "Active"], f"asked for {logind.asked}")
        logind.set_active(False)
        revoked(session)


def test_logind_restarts():
    """It comes back under another unique name, and what it says then counts, as what it has to say first."""
    for active in (True, False):
        with seated() as (logind, connection), running(connection) as session:
            logind.release()
            h.until("the name is free", lambda: not connection.call(BUS, "/org/freedesktop/DBus", BUS, "NameHasOwner",
                                                                    "s", [LOGIND])[0])
            h.check(session.stats()[0] == h.OK, "the session does not answer")
            with seated(active=active) as (another, _):
                h.until("it is asked", lambda: another.asked == ["Active"])
                if active:
                    lives(session, connection)
                    another.set_active(False)
                revoked(session)


def test_without_logind():
    with A.connect() as connection, running(connection) as session:
        lives(session, connection)


def test_flat():
    """What is watched is forgotten with its session."""
    with seated() as (logind, connection):
        running(connection).close()
        h.used()
        flat = h.Flat()
        for _ in range(5):
            running(connection).close()
        flat.check()
        logind.asked.clear()
        logind.set_active(False)
        running(connection).close()
        # Those of the last request, and none for sessions that are over.
        h.check(logind.asked == ["GetSessionByPID", "Seat", "Active"], f"asked for {logind.asked}")


subprocess.run(["polkit-rules", os.environ["RINGSIDE_TEST_SOURCE"] + "/tests/lib/profile-system.rules"], check=True)
h.main(test_without_logind, test_seat_becomes_inactive, test_client_says_so, test_session_is_removed, test_names_unread,
       test_before_hello, test_users_service, test_not_watched, test_not_told, test_two_sessions,
       test_while_polkit_is_asked, test_many_signals, test_storm, test_spoofed, test_logind_restarts, test_flat)
