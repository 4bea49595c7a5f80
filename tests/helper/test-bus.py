# SPDX-License-Identifier: LGPL-2.1-or-later
"""
org.ringside.Helper1 as a hostile caller meets it: what is refused and how, callers that vanish, a polkit that does not
answer, a hundred calls at once, and every budget to its last unit.
"""

import contextlib
import mmap
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree as ElementTree

import harness as h
from dbus_client import BUS, NO_REPLY, INTERACTIVE, Connection, DBusError

A, B = h.users()
POLKIT_SERVICE = "/usr/share/dbus-1/system-services/org.freedesktop.PolicyKit1.service"
INTERFACES = "/usr/share/dbus-1/interfaces/org.ringside.Helper1.xml"
DENIED, NO_POLKIT, BUDGET = h.ERROR + "Denied", h.ERROR + "NoPolkit", h.ERROR + "Budget"
PENDING, NO_EVENT, LATER = h.ERROR + "Pending", h.ERROR + "NoEvent", h.ERROR + "Later"
MIB = 1 << 20


def rules(text):
    with open("/run/test.rules", "w") as f:
        f.write(text)
    subprocess.run(["polkit-rules", "/run/test.rules"], check=True)


def allow_all():
    rules("polkit.addRule(function (action, subject) { return polkit.Result.YES; });\n")


def polkitd():
    return h.named("polkitd")


def settled():
    """A helper that has served once, with nothing open."""
    with A.connect() as c:
        h.Way("bus", A, c).works()
    h.used()
    return h.Flat()


def test_interface():
    """What it tells of itself is what the installed description says."""
    def shape(element):
        return (element.tag, sorted(element.attrib.items()), [shape(e) for e in element])

    with A.connect() as c:
        live = c.call(h.NAME, h.PATH, "org.freedesktop.DBus.Introspectable", "Introspect")[0]
        own = [e for e in ElementTree.fromstring(live) if not e.get("name").startswith("org.freedesktop.DBus.")]
        described = list(ElementTree.parse(INTERFACES).getroot())
        h.check([shape(e) for e in own] == [shape(e) for e in described],
                f"{INTERFACES} describes something else:\n{live}")
        limits = c.call(h.NAME, h.PATH, "org.freedesktop.DBus.Properties", "Get", "ss", [h.NAME, "Limits"])[0]
        told = [limits[key] for key in ("sessions", "rings", "opens", "opens-minute", "rate-wide", "rate-targets", "memory")]
        h.check(told == [8, 16, 60, 30, 1000, 20000, 96 * MIB], f"Limits: {limits}")
        # Nothing to be set, no other method, no other object.
        for args in ((h.PATH, "org.freedesktop.DBus.Properties", "Set", "ssv", [h.NAME, "Version", ("s", "x")]),
                     (h.PATH, h.NAME, "Shutdown", "", []), ("/org/ringside", h.NAME, "ListEvents", "", []),
                     (h.PATH, h.NAME, "ListEvents", "s", ["x"]), (h.PATH, h.NAME, "OpenSession", "", []),
                     (h.PATH, h.NAME, "OpenSession", "a{ss}", [[]]),
                     (h.PATH, h.NAME, "OpenSession", "a{sv}u", [[], 1])):
            try:
                c.call(h.NAME, *args)
                raise h.Failure(f"served: {args}")
            except DBusError:
                pass


def test_options():
    """A closed set: unknown, of another type, out of range, twice."""
    def events(*entries):
        return ("events", ("a(sbt)", list(entries)))

    clock = ("cpu-clock", False, 99)
    good = [("targets", ("b", True)), events(clock), ("ring-size", ("t", 65536)), ("table-size", ("t", 4 * MIB)), ("stack-depth", ("u", 255)),
            ("scope", ("s", "own")), ("kernel", ("s", "no"))]
    evil = "x\n<0>ringside-helper: granted: uid 0 \x1b[2J"
    cases = [[], good + [("nope", ("s", "x"))], good + [("", ("s", "x"))], good + [("Scope", ("s", "own"))],
             good + [(evil, ("s", evil))], good + [("perf_event_attr", ("ay", b"\0" * 128))],
             good + [("scope ", ("s", "own"))]]
    cases += [good + [option] for option in good]
    for key, values in {
            "scope": [("s", "all"), ("s", ""), ("s", "OWN"), ("s", evil), ("s", "o" * MIB), ("u", 1),
                      ("v", ("s", "own"))],
            "kernel": [("s", "yes"), ("s", ""), ("s", "NO"), ("s", evil), ("b", True), ("u", 1), ("v", ("s", "no"))],
            "targets": [("s", "true"), ("u", 1), ("y", 1), ("v", ("b", True)), ("ab", [True])],
            "table-size": [("t", n) for n in (1, 4096, 2 * MIB, 4 * MIB + 1, 6 * MIB, 1 << 27, 1 << 63, (1 << 64) - 1)] +
                          [("u", 4 * MIB), ("x", 4 * MIB), ("s", "4194304")],
            "ring-size": [("t", n) for n in (0, 1, 4096, 32768, 65535, 65537, 98304, 1 << 27, 1 << 63, (1 << 64) - 1)] +
                         [("u", 65536), ("x", 65536), ("d", 65536.0)],
            "stack-depth": [("u", 0), ("u", 256), ("u", 0xffffffff), ("t", 100), ("i", 100)],
            "events": [("a(sbt)", []), ("a(sbt)", [clock] * 2), ("a(sbt)", [clock] * 9), ("a(sbt)", [clock] * 50000),
                       ("a(sbt)", [("x", False, 1)]), ("a(sbt)", [("cpu-clock ", False, 1)]),
                       ("a(sbt)", [(evil, False, 1)]), ("a(sbt)", [("cpu-clock", True, 1000000)]),
                       ("a(sbt)", [("cpu-clock", False, 0)]), ("a(sbt)", [("cpu-clock", False, 20001)]),
                       ("a(sbt)", [("cpu-clock", False, (1 << 64) - 1)]), ("a(sbu)", [("cpu-clock", False, 1)]),
                       ("as", ["cpu-clock"]), ("(sbt)", clock), ("a(sbts)", [("cpu-clock", False, 1, "")]),
                       ("v", ("a(sbt)", [clock]))]}.items():
        cases += [[option for option in good if option[0] != key] + [(key, value)] for value in values]
    cases.append([("nope", ("s", "x"))] * 20000)
    cases.append(good + [("nope", ("a{sv}", [("nope", ("a{sv}", [("nope", ("s", "x"))] * 100))] * 100))])
    flat = settled()
    with A.connect() as c:
        for case in cases:
            name, text = h.open_error(c, case)
            h.check(name == h.INVALID_ARGS, f"{str(case)[:300]}: {name}: {text}")
            h.check(text and "\n" not in text and "granted" not in text and len(text) < 200,
                    f"the text repeats what was said: {text}")
        os.close(h.call(c, "OpenSession", "a{sv}", [good])[0])
        # What the machine cannot count is another matter.
        works = {e[0]: e[4] for e in h.call(c, "ListEvents")[0]}
        if not works["cpu-cycles"]:
            name, text = h.open_error(c, [events(("cpu-cycles", False, 99))])
            h.check(name == NO_EVENT and "cpu-clock" in text, f"cpu-cycles: {name}: {text}")
            name, text = h.open_error(c, [events(clock, ("cpu-cycles", False, 99))])
            h.check(name == NO_EVENT, f"cpu-cycles beside cpu-clock: {name}: {text}")
        h.check(works["cpu-clock"], "cpu-clock does not work here")
    flat.check()


def test_denied():
    """Without a rule: a refusal that names the action, and nothing is spawned."""
    subprocess.run(["polkit-rules", "default"], check=True)
    flat = settled()
    with B.connect() as c:
        for flags in (0, INTERACTIVE):
            name, text = h.open_error(c, h.options(), flags=flags)
            h.check(name == DENIED and "org.ringside.helper1.profile-own" in text, f"user B: {name}: {text}")
    with A.connect() as c:
        os.close(h.call(c, "OpenSession", "a{sv}", [h.options()])[0])
        subprocess.run(["polkit-rules", "none"], check=True)
        name, text = h.open_error(c, h.options())
        h.check(name == DENIED, f"user A without its rule: {name}: {text}")
    allow_all()
    flat.check()


def test_vanished():
    """Callers that leave at any moment of their call."""
    flat = settled()
    dice = random.Random(1)
    for i in range(40):
        c = (A, B)[i % 2].connect()
        serial = c.send(h.NAME, h.PATH, h.NAME, "OpenSession", "a{sv}", [h.options()])
        # A session is granted within some 30 ms.
        time.sleep(dice.choice((0, 0, 0.001, 0.003, 0.01, 0.02, 0.05)))
        if i % 10 == 9:
            os.close(c.wait(serial)[0])
        c.close()
    with A.connect() as c:
        # Nobody waits for the answer, so nobody holds the socket.
        c.send(h.NAME, h.PATH, h.NAME, "OpenSession", "a{sv}", [h.options()], NO_REPLY)
        h.call(c, "ListEvents")
    flat.check()
    # Nothing of it is charged any more.
    for user in (A, B):
        with user.connect() as c, contextlib.ExitStack() as stack:
            for _ in range(8):
                stack.enter_context(h.open_session(c, targets=True))
    flat.check()


def test_pending():
    """polkit has the question and does not answer."""
    flat = settled()
    pid = polkitd()
    monitor = h.Monitor()
    a, b = A.connect(), B.connect()
    os.kill(pid, signal.SIGSTOP)
    try:
        first = a.send(h.NAME, h.PATH, h.NAME, "OpenSession", "a{sv}", [h.options()])
        question = monitor.wait_for("CheckAuthorization")
        h.check(question[0] == ("system-bus-name", {"name": a.name}) and question[3] == 0 and
                question[1] == "org.ringside.helper1.profile-own", f"polkit is asked {question}")
        with A.connect() as c:
            name, text = h.open_error(c, h.options())
            h.check(name == PENDING, f"a second question for one user: {name}: {text}")
        second = b.send(h.NAME, h.PATH, h.NAME, "OpenSession", "a{sv}", [h.options()], INTERACTIVE)
        other = monitor.wait_for("CheckAuthorization")
        h.check(other[3] == 1 and other[4] != question[4], f"polkit is asked {other}")
        # Others are answered meanwhile.
        h.check(h.call(b, "ListEvents"), "a question holds up the helper")
        h.check(len(h.role_pids("session")) == 0, "a session before the answer")
        # The first caller goes: its question with it, and its place.
        a.close()
        h.check(monitor.wait_for("CancelCheckAuthorization") == [question[4]], "another question was cancelled")
        a = A.connect()
        first = a.send(h.NAME, h.PATH, h.NAME, "OpenSession", "a{sv}", [h.options()])
        h.check(monitor.wait_for("CheckAuthorization")[0][1]["name"] == a.name, "the place is not free again")
        # Only the bus can tell that somebody has gone, though anybody may say so.
        b.signal("/org/freedesktop/DBus", BUS, "NameOwnerChanged", "sss", a.name, a.name, "",
                 dest=b.call(BUS, "/org/freedesktop/DBus", BUS, "GetNameOwner", "s", [h.NAME])[0])
        h.call(b, "ListEvents")
        with A.connect() as c:
            name, text = h.open_error(c, h.options())
            h.check(name == PENDING, f"somebody else has ended a request: {name}: {text}")
    finally:
        os.kill(pid, signal.SIGCONT)
    os.close(a.wait(first)[0])
    os.close(b.wait(second)[0])
    for c in (a, b, monitor.connection):
        c.close()
    flat.check()


def test_polkit_killed():
    """It dies with the question, is not there, and is back."""
    flat = settled()
    with A.connect() as c, A.connect() as d:
        os.kill(polkitd(), signal.SIGSTOP)
        serial = c.send(h.NAME, h.PATH, h.NAME, "OpenSession", "a{sv}", [h.options()])
        time.sleep(0.2)
        os.kill(polkitd(), signal.SIGKILL)
        try:
            os.close(c.wait(serial)[0])
            raise h.Failure("served by a dead polkit")
        except DBusError as e:
            h.check(e.name == NO_POLKIT, f"polkit killed: {e}")
        # The bus starts it again for the next question.
        os.close(h.call(d, "OpenSession", "a{sv}", [h.options()])[0])
        # Not installed: nobody answers.
        shutil.move(POLKIT_SERVICE, "/run/service")
        with Connection() as root:
            root.call(BUS, "/org/freedesktop/DBus", BUS, "ReloadConfig")
            os.kill(polkitd(), signal.SIGKILL)
            h.until("polkitd has gone", lambda: not polkitd())
            name, text = h.open_error(c, h.options())
            h.check(name == NO_POLKIT, f"no polkit: {name}: {text}")
            shutil.move("/run/service", POLKIT_SERVICE)
            root.call(BUS, "/org/freedesktop/DBus", BUS, "ReloadConfig")
        os.close(h.call(c, "OpenSession", "a{sv}", [h.options()])[0])
    flat.check()


def test_polkit_hangs():
    """It has the question and never answers: whoever nobody can be asked for is told, others are waited for."""
    flat = settled()
    with A.connect() as a, B.connect() as b:
        pid = polkitd()
        os.kill(pid, signal.SIGSTOP)
        try:
            asked = b.send(h.NAME, h.PATH, h.NAME, "OpenSession", "a{sv}", [h.options()], INTERACTIVE)
            silent = a.send(h.NAME, h.PATH, h.NAME, "OpenSession", "a{sv}", [h.options()])
            try:
                os.close(a.wait(silent, 60)[0])
                raise h.Failure("served without an answer")
            except DBusError as e:
                h.check(e.name == NO_POLKIT, f"polkit hangs: {e}")
        finally:
            os.kill(pid, signal.SIGCONT)
        os.close(b.wait(asked)[0])
        os.close(h.call(a, "OpenSession", "a{sv}", [h.options()])[0])
    flat.check()


def hundred(connections, each):
    """(served, refusals by name) of each user, all calls sent before any answer is read."""
    calls = [(c, c.send(h.NAME, h.PATH, h.NAME, "OpenSession", "a{sv}", [h.options(targets=True)]))
             for _ in range(each) for c in connections]
    results = {id(c): ([], []) for c in connections}
    for c, serial in calls:
        try:
            results[id(c)][0].append(c.wait(serial, 60)[0])
        except DBusError as e:
            results[id(c)][1].append(e.name)
    return results


def test_hundred():
    """A hundred calls at once, by one user and by two, on one connection and on many."""
    flat = settled()
    for users, n_connections in (((A,), 1), ((A, B), 1), ((A,), 50), ((A, B), 25)):
        connections = [user.connect() for user in users for _ in range(n_connections)]
        results = hundred(connections, 100 // len(connections))
        served = [fd for fds, _ in results.values() for fd in fds]
        refused = [name for _, names in results.values() for name in names]
        h.check(len(served) + len(refused) == 100, f"{len(served)} served and {len(refused)} refused of 100")
        h.check(set(refused) <= {PENDING, BUDGET, LATER}, f"refused with {set(refused)}")
        h.check(len(users) <= len(served) <= 8 * len(users), f"{len(served)} served")
        h.until("a session for each that was served", lambda: len(h.role_pids("session")) == len(served))
        for fd in served:
            os.close(fd)
        for c in connections:
            c.close()
        flat.check()
    with A.connect() as c:
        h.Way("bus", A, c).works()


def test_flood():
    """Somebody who asks and asks over one connection is not in anybody's way."""
    stop = threading.Event()

    def ask(connection):
        while not stop.is_set():
            connection.send(h.NAME, h.PATH, h.NAME, "OpenSession", "a{sv}", [h.options()], flags=NO_REPLY)

    with A.connect() as a, B.connect() as b:
        thread = threading.Thread(target=ask, args=[b])
        thread.start()
        try:
            time.sleep(0.3)
            for _ in range(6):
                h.open_session(a).close()
                h.until("the session has ended", lambda: len(h.role_pids("session")) < 4)
        finally:
            stop.set()
            thread.join()


def budget_error(c, **kwargs):
    name, text = h.open_error(c, h.options(**kwargs))
    h.check(name == BUDGET, f"{kwargs}: {name}: {text}")
    return text


def test_budgets():
    flat = settled()
    with A.connect() as a, B.connect() as b:
        with contextlib.ExitStack() as stack:
            for _ in range(8):
                stack.enter_context(h.open_session(a, targets=True, hz=1))
            text = budget_error(a, targets=True, hz=1)
            h.check("sessions of one user" in text and "0 of 8 left" in text, text)
            stack.enter_context(h.open_session(b, targets=True, hz=1))
        flat.check()
        with contextlib.ExitStack() as stack:
            text = budget_error(a, hz=1001)
            h.check("1000 of 1000 left" in text, text)
            stack.enter_context(h.open_session(a, hz=600))
            text = budget_error(a, hz=401)
            h.check("400 of 1000 left" in text, text)
            stack.enter_context(h.open_session(a, hz=400))
            text = budget_error(a, hz=1)
            h.check("0 of 1000 left" in text, text)
            stack.enter_context(h.open_session(b, hz=1000))
            # With targets it is another budget.
            stack.enter_context(h.open_session(a, targets=True, hz=12000))
            text = budget_error(a, targets=True, hz=8001)
            h.check("8000 of 20000 left" in text, text)
            stack.enter_context(h.open_session(a, targets=True, hz=8000))
            text = budget_error(a, targets=True, hz=1)
            h.check("0 of 20000 left" in text, text)
        flat.check()
        # All of it has come back.
        for kwargs in ({"hz": 1000}, {"targets": True, "hz": 20000}):
            h.open_session(a, **kwargs).close()
            flat.check()


def test_again():
    """Who is refused again and again is told the same, and nobody else has to do with it; only refusals are given so."""
    flat = settled()
    asked = ["AddMatch", "GetConnectionUnixUser"]

    def refused(c, name, **kwargs):
        """The text, and what the helper has said."""
        error, text = h.open_error(c, h.options(**kwargs))
        h.check(error == name, f"{kwargs}: {error}: {text}")
        return text, monitor.said(c)

    def refused_again(c, name, **kwargs):
        """Whom it has been told of is not asked about, and hears what everybody of that user does."""
        text, said = refused(c, name, **kwargs)
        h.check(said == [name], f"to say {name} to {c.name} again the helper says {said}")
        with A.connect() as d:
            new = refused(d, name, **kwargs)
        h.check(new == (text, asked + [name, "RemoveMatch"]), f"{name}: {text}; and to a new connection: {new}")

    monitor = h.Monitor()
    with A.connect() as a, B.connect() as b, monitor.connection:
        for c in (a, b):
            said = refused(c, BUDGET, hz=1001)[1]
            h.check(said == asked + [BUDGET, "RemoveMatch"], f"to say {BUDGET} the helper says {said}")
        for _ in range(20):
            refused_again(a, BUDGET, hz=1001)
        with h.open_session(a, hz=400):
            monitor.said(a)
            refused_again(a, BUDGET, hz=601)
            # Of others it is not told that they are A.
            h.open_session(b, hz=601).close()
            monitor.said(b)
        with h.open_session(a):
            said = monitor.said(a)
            h.check(said[:3] == asked + ["CheckAuthorization"], f"without asking the helper says {said}")
        pid = polkitd()
        os.kill(pid, signal.SIGSTOP)
        try:
            with A.connect() as c:
                c.send(h.NAME, h.PATH, h.NAME, "OpenSession", "a{sv}", [h.options()])
                monitor.wait_for("CheckAuthorization")
                refused_again(a, PENDING)
        finally:
            os.kill(pid, signal.SIGCONT)
        # There is room for so many.
        for _ in range(64):
            with B.connect() as c:
                refused(c, BUDGET, hz=1001)
        said = refused(a, BUDGET, hz=1001)[1]
        h.check(said[:2] == asked, f"never forgotten: the helper says {said}")
    flat.check()


def test_memory():
    """What is charged outlives the session, as long as the ring does."""
    flat = settled()
    with A.connect() as a, B.connect() as b:
        with h.open_session(a, ring=64 * MIB) as session:
            text = budget_error(a, ring=64 * MIB)
            h.check("memory of one user" in text and f"of {96 * MIB} left" in text, text)
            with h.open_session(a, ring=16 * MIB), h.open_session(b, ring=64 * MIB):
                pass
            with A.act():
                h.check(session.hello() == h.OK, "HELLO refused")
            ring = mmap.mmap(session.fds[0], 4096 + 2 * 64 * MIB, mmap.MAP_SHARED, mmap.PROT_READ, offset=4096)
            counters = os.dup(session.fds[1])
        h.until("the session ends", lambda: not h.role_pids("session"))
        for _ in range(5):
            time.sleep(0.4)
            budget_error(a, ring=64 * MIB)
        # What is no ring of that size still fits.
        h.open_session(a, ring=16 * MIB).close()
        ring.close()
        time.sleep(0.5)
        # The counters alone hold it as well; nobody else has to care.
        budget_error(a, ring=64 * MIB)
        h.open_session(b, ring=64 * MIB).close()
        os.close(counters)
        h.until("the memory is given back", lambda: opened(a, ring=64 * MIB)).close()
    flat.check()


def test_tables():
    """Unwind tables are charged, and as long as a client keeps them mapped, whatever else it has closed."""
    flat = settled()
    with A.connect() as a:
        with h.open_session(a, tables=64 * MIB) as session:
            h.check("memory of one user" in budget_error(a, tables=64 * MIB), "tables are not charged")
            h.open_session(a, tables=16 * MIB).close()
            with A.act():
                h.check(session.hello() == h.OK, "HELLO refused")
            tables = mmap.mmap(session.fds[2], 64 * MIB)
        h.until("the session ends", lambda: not h.role_pids("session"))
        for _ in range(5):
            time.sleep(0.4)
            budget_error(a, tables=64 * MIB)
        tables.close()
        h.until("the memory is given back", lambda: opened(a, tables=64 * MIB)).close()
    flat.check()


def test_rings():
    """One user's rings, kept mapped, are no reason to refuse others."""
    flat = settled()
    rings = []
    with A.connect() as a, B.connect() as b:
        for _ in range(16):
            # What the tests before have freed is noticed within seconds.
            with h.until("a place", lambda: opened(a)) as session, A.act():
                h.check(session.hello() == h.OK, "HELLO refused")
                rings.append(os.dup(session.fds[0]))
        text = budget_error(a)
        h.check("still mapped" in text, text)
        h.open_session(b).close()
        for fd in rings:
            os.close(fd)
        h.until("the places are given back", lambda: opened(a)).close()
    flat.check()


def opened(c, **kwargs):
    """A session, or None where it is over a budget."""
    try:
        return h.open_session(c, **kwargs)
    except DBusError as e:
        h.check(e.name == BUDGET, str(e))


def test_alive():
    """The same front and keeper as in the beginning, and what was logged is the helper's own words."""
    h.check((h.only("front"), h.only("keeper")) == first, "the helper was started again")
    log = h.read(os.environ["RINGSIDE_TEST_LOG"] + "/dbus-daemon.log", "rb")
    h.check(b"\x1b" not in log and b"<0>" not in log, "a caller writes the journal")
    h.check(f"refused: uid {A.uid}, org.ringside.helper1.profile-own".encode() in log and
            f"granted: uid {B.uid}, org.ringside.helper1.profile-own".encode() in log, "grants are not logged")


# The kernel lowers its own limit where interrupts take long, and the budgets with it.
with open("/run/rate", "w") as f:
    f.write("100000\n")
subprocess.run(["mount", "--bind", "/run/rate", "/proc/sys/kernel/perf_event_max_sample_rate"], check=True)
allow_all()
settled()
first = (h.only("front"), h.only("keeper"))
# The first still has all sessions to open that a user has.
TESTS = [test_again, test_interface, test_options, test_denied, test_vanished, test_pending, test_polkit_killed,
         test_polkit_hangs, test_hundred, test_flood, test_budgets, test_memory, test_tables, test_rings]
names = sys.argv[1:]  # all without
h.main(*[t for t in TESTS if not names or t.__name__ in names], *([] if names else [test_alive]))
