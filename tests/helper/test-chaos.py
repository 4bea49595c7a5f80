# SPDX-License-Identifier: LGPL-2.1-or-later
"""
kill -9 of client, session, keeper and front in turn, under load: within two seconds nothing is left of what ended with
it, the others go on, clients of the library hear of it, and the next session works. And of the real `ringside record`
and its session: what was recorded is kept.
"""

import ctypes
import glob
import json
import os
import pwd
import select
import shutil
import signal
import subprocess
import sys
import time

import harness as h

A, B = h.users()
SECONDS = 2
E_ENDED = -5009  # client/lib/ringside.h
HELPER_BUS = 1
HZ = 999


def library():
    names = glob.glob(os.environ["RINGSIDE_TEST_BUILD"] + "/client/lib/libringside.so.?")
    h.check(len(names) == 1, f"libringside: {names}")
    lib = ctypes.CDLL(names[0])
    for name in ("new", "set_helper", "add_event", "set_targeted", "open", "add_target", "start", "dispatch", "get_fd"):
        getattr(lib, "ringside_session_" + name).restype = ctypes.c_int
    return lib


class Client:
    """A program that uses the library, as a user: samples until the session ends, and then says why."""

    def __init__(self, user, hz, targets=()):
        self.user = user
        self.targets = targets
        r, w = os.pipe()
        before = set(h.role_pids("session"))
        self.pid = os.fork()
        if self.pid == 0:
            os.close(r)
            try:
                self.run(w, hz)
            except BaseException as e:
                os.write(w, f"failed {type(e).__name__}: {e}\n".encode())
            finally:
                os._exit(0)
        os.close(w)
        self.pipe = r
        h.check(self.line() == "running", "the client does not run")
        self.session, = set(h.role_pids("session")) - before

    def run(self, w, hz):
        self.user.become()
        lib = library()
        session, records = ctypes.c_void_p(), 0
        handler = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(lambda *_: 0)
        lib.ringside_session_new(ctypes.byref(session))
        steps = [("set_helper", HELPER_BUS), ("add_event", b"cpu-clock", False, ctypes.c_uint64(hz)),
                 ("set_targeted", bool(self.targets)), ("open",)]
        steps += [("add_target", os.pidfd_open(pid), 0, 0) for pid in self.targets] + [("start",)]
        for name, *args in steps:
            r = getattr(lib, "ringside_session_" + name)(session, *args)
            h.check(r >= 0, f"{name}: {r}")
        fd = lib.ringside_session_get_fd(session)
        told = False
        while True:
            select.select([fd], [], [], 0.25)
            r = lib.ringside_session_dispatch(session, handler, None)
            if r < 0:
                os.write(w, f"ended {r}\n".encode())
                return
            records += r
            if records > 100 and not told:
                told = True
                os.write(w, b"running\n")

    def line(self, timeout=h.PATIENCE):
        h.check(select.select([self.pipe], [], [], timeout)[0], "the client says nothing")
        return os.read(self.pipe, 200).decode().strip()

    def is_alive(self):
        return os.path.isdir(f"/proc/{self.session}") and not select.select([self.pipe], [], [], 0)[0]

    def close(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.pipe)


class Scene:
    """Two users' sessions: one at 4,999 Hz on two busy processes and their children, two on whatever runs."""

    def __init__(self):
        self.load = [A.spin(), A.spin(), A.spawn(h.workload("children"), "1000", start_new_session=True), B.spin()]
        h.until("the load is its users'",
                lambda: all(os.stat(f"/proc/{p.pid}").st_uid in (A.uid, B.uid) for p in self.load))
        self.fast = Client(A, 4999, [p.pid for p in self.load[:3]])
        self.wide = Client(A, 999)
        self.other = Client(B, 499)

    def clients(self):
        return [self.fast, self.wide, self.other]

    def close(self):
        for client in self.clients():
            client.close()
        # The children of the third are not ours.
        os.killpg(self.load[2].pid, signal.SIGKILL)
        for p in self.load:
            p.kill()
            p.wait()


def is_alive(pid):
    """It may end while it is looked at."""
    try:
        return h.status(pid)["State"][0] != "Z"
    except OSError:
        return False


def after(victim, ended, survivors):
    """Kills a process; all that the ended clients had must go, and what the survivors have must stay."""
    dying = [c.session for c in ended]
    if not survivors:
        dying += [h.only("front"), h.only("keeper")]
    objects = h.bpf_held(dying)
    kept = h.bpf_held([c.session for c in survivors])
    kinds = {kind for kind, _ in objects}
    h.check(kinds == {"prog", "map", "link"}, f"a session at work holds {kinds}")
    h.check(h.perf_events(dying) > 0, "a session at work has no events")
    os.kill(victim, signal.SIGKILL)
    began = time.monotonic()

    def left():
        alive = [pid for pid in dying if is_alive(pid)]
        return alive or (objects - kept) & h.bpf_list()

    # Rings that a client still has mapped are the client's; so it goes as well, once it has told its end.
    for client in ended:
        if client.pid != victim:
            h.check(client.line(SECONDS) == f"ended {E_ENDED}", "the library does not tell of the end")
    while left():
        h.check(time.monotonic() - began < SECONDS, f"left after {SECONDS} s: {left()}")
        time.sleep(0.02)
    print(f"    all gone after {time.monotonic() - began:.2f} s", flush=True)
    if not survivors:
        h.check(not h.helpers(), f"left: {h.helpers()}")
    for client in survivors:
        h.check(client.is_alive(), "another session has ended with it")
    h.check(kept <= h.bpf_list(), "something of another session has gone with it")


def round_of(name, pick):
    def test():
        before = h.bpf_list()
        scene = Scene()
        try:
            after(*pick(scene))
        finally:
            scene.close()
        with A.connect() as c:
            h.Way("bus", A, c).works()
        stop()
        h.until("nothing is left", lambda: not leftovers(before))

    test.__name__ = f"test_kill_{name}"
    return test


def leftovers(before):
    flat = h.Flat.__new__(h.Flat)
    flat.bpf = before
    return flat.left()


def stop():
    for pid in h.role_pids("front"):
        os.kill(pid, signal.SIGKILL)
    h.until("the helper has ended", lambda: not h.helpers())


def cpu_seconds(pid):
    """Of a process: what it is sampled for, however busy the machine is."""
    fields = h.read(f"/proc/{pid}/stat").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Recording:
    """`ringside record -p` on a busy process, both the user's, that has sampled three seconds of it."""

    def __init__(self, user):
        self.user = user
        self.directory = os.path.join(pwd.getpwnam(user.name).pw_dir, "chaos")
        self.path = os.path.join(self.directory, "r.ringside")
        os.mkdir(self.directory)
        os.chown(self.directory, user.uid, user.gid)
        self.target = user.spin()
        h.until("the target is its user's", lambda: os.stat(f"/proc/{self.target.pid}").st_uid == user.uid)
        self.process = user.spawn("ringside", "record", "--no-ask", "-q", "-p", str(self.target.pid), "-F", str(HZ),
                                  "-o", self.path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            h.until("it has a session", lambda: h.perf_events(h.role_pids("session")))
            self.session = h.only("session")
            began = cpu_seconds(self.target.pid)
            h.until("it has sampled", lambda: cpu_seconds(self.target.pid) >= began + 3, 200)
        except BaseException:
            self.close()
            raise

    def end(self, pid):
        """kill -9 of this one; returns the exit status of ringside and what it said."""
        os.kill(pid, signal.SIGKILL)
        _, text = self.process.communicate(timeout=h.PATIENCE)
        return self.process.returncode, text

    def check(self, finished):
        """At most the last second may be missing: of the file alone, or with its journal, where nobody can write."""
        copies = os.path.join(self.directory, "copies")
        os.mkdir(copies)
        for name in (self.path, self.path + "-journal"):
            if os.path.exists(name):
                copy = shutil.copy(name, copies)
                os.chown(copy, self.user.uid, self.user.gid)
                os.chmod(copy, 0o400)
        os.chmod(copies, 0o555)
        before = sorted(os.listdir(copies))
        p = self.user.spawn("ringside", "report", "--format=json", os.path.join(copies, "r.ringside"),
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        out, err = p.communicate(timeout=60)
        h.check(p.returncode == 0, f"the recording is not readable: {err}")
        report = json.loads(out)
        # A tenth for ticks that a virtual machine was not given.
        h.check(report["samples"] >= 2 * HZ * 0.9, f"only {report['samples']} samples of three seconds")
        h.check(report["recording"]["finished"] is finished, f"finished is {report['recording']['finished']}")
        names = [row["name"] for row in report["rows"]]
        h.check("busy_loop" in names, f"no busy_loop in {names}")
        h.check(sorted(os.listdir(copies)) == before, f"reading has left {os.listdir(copies)}")

    def close(self):
        for p in (self.process, self.target):
            p.kill()
            p.wait()
        shutil.rmtree(self.directory)


def test_record_killed():
    recording = Recording(A)
    try:
        status, _ = recording.end(recording.process.pid)
        h.check(status == -signal.SIGKILL, f"ringside ended by itself: {status}")
        recording.check(finished=False)
    finally:
        recording.close()
    h.until("its session has ended", lambda: not h.role_pids("session"))


def test_record_loses_its_session():
    """A failure, with a word about it, and an orderly end of what there is."""
    recording = Recording(A)
    try:
        status, text = recording.end(recording.session)
        h.check(status == 1 and "helper" in text, f"exit status {status}: {text}")
        recording.check(finished=True)
    finally:
        recording.close()


def test_bus_gone():
    """Without the bus nobody can be asked: front and keeper end, and the sessions with them. Last, as it stays gone."""
    scene = Scene()
    try:
        after(h.named("dbus-daemon"), scene.clients(), [])
    finally:
        scene.close()


with open("/run/test.rules", "w") as f:
    f.write("polkit.addRule(function (action, subject) { return polkit.Result.YES; });\n")
subprocess.run(["polkit-rules", "/run/test.rules"], check=True)
h.main(round_of("client", lambda s: (s.fast.pid, [s.fast], [s.wide, s.other])),
       round_of("session", lambda s: (s.fast.session, [s.fast], [s.wide, s.other])),
       round_of("wide_session", lambda s: (s.wide.session, [s.wide], [s.fast, s.other])),
       round_of("keeper", lambda s: (h.only("keeper"), s.clients(), [])),
       round_of("front", lambda s: (h.only("front"), s.clients(), [])),
       test_record_killed,
       test_record_loses_its_session,
       test_bus_gone)
