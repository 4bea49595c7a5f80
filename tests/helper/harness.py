# SPDX-License-Identifier: LGPL-2.1-or-later
"""
What the tests of the helper share: acting as a user, opening sessions over the bus and directly, speaking the
socket protocol (common/protocol.h) byte by byte, and counting what is left: processes, descriptors, BPF objects.

Runs as root inside bus-env (tests/lib/bus-env).
"""

import array
import collections
import contextlib
import ctypes
import glob
import json
import mmap
import os
import pwd
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
import traceback

from dbus_client import BUS, Connection, DBusError

NAME, PATH = "org.ringside.Helper1", "/org/ringside/Helper1"
ERROR = NAME + ".Error."
INVALID_ARGS = "org.freedesktop.DBus.Error.InvalidArgs"
PR_SET_DUMPABLE = 4
# How long what has to come may take, in seconds. Nothing here is about how fast things are.
PATIENCE = float(os.environ.get("RINGSIDE_TEST_PATIENCE", "180"))
libc = ctypes.CDLL(None, use_errno=True)

# common/protocol.h
HELLO, WELCOME, TARGET, TARGETED, START, STARTED, STOP, STOPPED, STATS, STATISTICS, OPEN, END = range(2, 14)
SYMBOLS, SYMBOL_NAMES, MAPS, MAPPINGS, SET_RATE, RATE_SET = range(14, 20)
OK, E_VERSION, E_IDENTITY = 0, 2, 3
E_TARGET_GONE, E_TARGET_HIDDEN, E_TARGET_LIMIT, E_STATE, E_HELPER_GONE, E_PROTOCOL = 12, 13, 14, 15, 17, 19
E_NO_KERNEL_NAMES, E_RATE = 21, 22
VERSION = 3
GRANT_TARGETS, GRANT_DIRECT, GRANT_KERNEL, GRANT_SYSTEM = 1, 2, 4, 8
TARGETS_MAX = 63
TARGET_ON_EXEC, TARGET_NO_INHERIT, TARGET_CGROUP, TARGET_CGROUP_V1 = 1, 2, 4, 8
HEAD = struct.Struct("<IIQIi")
GRANT = struct.Struct("<IIIIQQ" + "IIQ" * 8)
WELCOME_SIZE = 72 + 4 * 32 + 16 * 8
CPU_CLOCK = 1
RECORD_SAMPLE, RECORD_WSAMPLE, RECORD_MAPPING, MAPPING_DELETED, MAPPINGS_SIZE = 1, 2, 5, 1, 32768  # and common/record.h


class Failure(Exception):
    """A test's expectation did not hold."""


def check(condition, text):
    if not condition:
        raise Failure(text)


def until(what, func, timeout=PATIENCE):
    """Waits for func() to be true, and returns what it returned."""
    end = time.monotonic() + timeout
    while True:
        r = func()
        if r:
            return r
        check(time.monotonic() < end, f"not within {timeout} s: {what}")
        time.sleep(0.02)


def main(*tests):
    """Runs the functions in order; every one runs, whatever became of those before it."""
    failed = 0
    if not os.path.isdir("/run/ringside-test"):
        sys.exit("only inside bus-env")
    for test in tests:
        began = time.monotonic()
        try:
            test()
            print(f"ok {test.__name__} ({time.monotonic() - began:.1f} s)", flush=True)
        except BaseException as e:
            failed += 1
            print(f"not ok {test.__name__}: {type(e).__name__}: {e}", flush=True)
            traceback.print_exc(file=sys.stdout)
            if not isinstance(e, Exception):
                break
    sys.exit(1 if failed else 0)


# Users.

class User:
    def __init__(self, variable):
        self.name = os.environ[variable]
        entry = pwd.getpwnam(self.name)
        self.uid, self.gid = entry.pw_uid, entry.pw_gid

    @contextlib.contextmanager
    def act(self):
        """Real and effective ids are the user's inside, as the bus and SCM_CREDENTIALS see them; then root's."""
        groups = os.getgroups()
        os.setgroups([])
        os.setresgid(self.gid, self.gid, 0)
        os.setresuid(self.uid, self.uid, 0)
        try:
            yield self
        finally:
            os.setresuid(0, 0, 0)
            os.setresgid(0, 0, 0)
            os.setgroups(groups)

    def become(self):
        """For good, in a child."""
        os.setgroups([])
        os.setresgid(self.gid, self.gid, self.gid)
        os.setresuid(self.uid, self.uid, self.uid)
        libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)

    def spawn(self, *command, **kwargs):
        return subprocess.Popen(command, user=self.uid, group=self.gid, extra_groups=[], cwd="/",
                                stdin=subprocess.DEVNULL, **kwargs)

    def spin(self, seconds=1000):
        """A process of the user's that only computes, for longer than any test takes: it is killed."""
        return self.spawn(workload("busy"), str(seconds))

    def connect(self):
        with self.act():
            return Connection()


def users():
    return User("RINGSIDE_TEST_USER_A"), User("RINGSIDE_TEST_USER_B")


def workload(name):
    return f"{os.environ['RINGSIDE_TEST_BUILD']}/tests/workloads/workload-{name}"


@contextlib.contextmanager
def killed(process):
    """Whatever happens, the process is gone afterwards."""
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def fork(func, *args):
    """func(*args) in a child; what it returns comes back (as JSON), and so does what it raises."""
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(r)
        try:
            result = {"value": func(*args)}
        except BaseException as e:
            result = {"error": f"{type(e).__name__}: {e}"}
        os.write(w, json.dumps(result).encode())
        os._exit(0)
    os.close(w)
    with open(r, "rb") as f:
        text = f.read()
    os.waitpid(pid, 0)
    check(text, "the child died")
    result = json.loads(text)
    check("error" not in result, f"in the child: {result.get('error')}")
    return result["value"]


# The helper's processes: those in this mount namespace are ours.

def helper_path():
    with open("/usr/share/dbus-1/system-services/org.ringside.Helper1.service") as f:
        return re.search("^Exec=(.*)$", f.read(), re.M).group(1)


def read(path, mode="r"):
    with open(path, mode) as f:
        return f.read()


def status(pid):
    return dict(line.rstrip("\n").split(":\t", 1) for line in open(f"/proc/{pid}/status") if ":\t" in line)


def helpers():
    """{pid: role} of everything that runs the helper's binary here."""
    found, ours = {}, os.stat("/proc/self/ns/mnt").st_ino
    for entry in glob.glob("/proc/[0-9]*"):
        try:
            # The name first: it is the only question that no stranger's process can hold up.
            if read(entry + "/comm") not in ("ringside-helper\n", "5\n") or os.stat(entry + "/ns/mnt").st_ino != ours:
                continue
            command = read(entry + "/cmdline").split("\0")[1:-1]
            parent = int(re.search(r"^PPid:\t(\d+)", read(entry + "/status"), re.M).group(1))
            found[int(entry[6:])] = (command, parent)
        except (OSError, AttributeError):
            pass  # gone
    roles = {}
    for pid, (command, parent) in found.items():
        if command == ["--session"]:
            roles[pid] = "session"
        else:
            roles[pid] = "keeper" if parent in found or command == ["--direct"] else "front"
    # A child between fork and exec still looks like its keeper.
    for pid, (command, parent) in found.items():
        if roles.get(parent) == "keeper" and command != ["--session"]:
            roles[pid] = "child"
    return roles


def install(program):
    """Another helper, in this namespace only, from the next call on."""
    path = helper_path()
    shutil.copyfile(program, path + ".new")
    os.chmod(path + ".new", 0o711)
    os.rename(path + ".new", path)
    for pid in role_pids("front"):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    until("the old helper has ended", lambda: not helpers())


@contextlib.contextmanager
def installed(program):
    """Inside, another helper."""
    shutil.copyfile(helper_path(), "/run/helper")
    install(program)
    try:
        yield
    finally:
        install("/run/helper")


def hide_proc():
    """
    In a mount namespace of one's own: a /proc whose files can be written, and all others are the kernel's. Not by a mount
    on each, for a kernel without modules has no /proc/modules.
    """
    check(libc.unshare(0x20000) == 0, "no mount namespace")
    for command in (["mount", "--make-rprivate", "/"], ["mkdir", "-p", "/run/real-proc"],
                    ["mount", "--bind", "/proc", "/run/real-proc"]):
        subprocess.run(command, check=True)
    names = os.listdir("/proc")
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/proc"], check=True)
    for name in names:
        if name not in ("kallsyms", "modules"):
            os.symlink("/run/real-proc/" + name, "/proc/" + name)


def named(comm):
    """The one process of this name here, or None."""
    ours = os.stat("/proc/self/ns/mnt").st_ino
    for entry in glob.glob("/proc/[0-9]*"):
        with contextlib.suppress(OSError):
            if read(entry + "/comm") == comm + "\n" and os.stat(entry + "/ns/mnt").st_ino == ours:
                return int(entry[6:])


def role_pids(role):
    return sorted(pid for pid, r in helpers().items() if r == role)


def only(role):
    pids = role_pids(role)
    check(len(pids) == 1, f"{len(pids)} processes are {role}: {helpers()}")
    return pids[0]


def fds(pid):
    """What the descriptors of a process are, sorted; none where it is gone."""
    links, numbers = [], []
    with contextlib.suppress(OSError):
        numbers = os.listdir(f"/proc/{pid}/fd")
    for fd in numbers:
        with contextlib.suppress(OSError):
            links.append(re.sub(r":\[\d+\]$", "", os.readlink(f"/proc/{pid}/fd/{fd}")))
    return sorted(links)


# BPF objects, told from those of other helpers on the machine by their numbers.

KINDS = {"prog": "prog_id", "map": "map_id", "link": "link_id"}


def bpf_show(kind):
    """What bpftool says of all programs, maps, links or perf events there are. It gives up when one goes meanwhile."""
    for _ in range(100):
        r = subprocess.run(["bpftool", "-j", kind, "show"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if r.returncode == 0:
            return json.loads(r.stdout)
        time.sleep(0.02)
    raise Failure(f"bpftool {kind} show: {r.stdout[-200:]}{r.stderr}")


def bpf_list():
    """{(kind, id)} of everything there is."""
    return {(kind, item["id"]) for kind in KINDS for item in bpf_show(kind)}


def bpf_held(pids):
    """{(kind, id)} of what these processes have descriptors of."""
    found = set()
    for pid in pids:
        for info in glob.glob(f"/proc/{pid}/fdinfo/*"):
            with contextlib.suppress(OSError):
                text = read(info)
                for kind, key in KINDS.items():
                    found |= {(kind, int(n)) for n in re.findall(rf"^{key}:\s*(\d+)", text, re.M)}
    return found


def maps_of(objects):
    """{("map", id)} of what the programs among these use: a session has closed some of its maps."""
    return {("map", n) for item in bpf_show("prog") if ("prog", item["id"]) in objects for n in item.get("map_ids", [])}


def perf_events(pids):
    return sum(fds(pid).count("anon_inode:[perf_event]") for pid in pids if os.path.isdir(f"/proc/{pid}"))


def used():
    """Waits until a helper that has served a session is at rest: its keeper keeps the list of maps from then on."""
    keeper = only("keeper")
    until("the keeper has looked for maps", lambda: "anon_inode:bpf_link" in fds(keeper))
    until("sessions have ended", lambda: not role_pids("session"))


class Flat:
    """
    Remembers what there is: descriptors of front and keeper, processes, BPF objects. check() waits until all
    that came since is gone again. Objects which other helpers on this machine hold are theirs.
    """

    def __init__(self):
        self.before = self.look()
        self.bpf = bpf_list()

    @staticmethod
    def look():
        roles = helpers()
        return {(pid, role): tuple(fds(pid)) for pid, role in roles.items()}

    def left(self):
        ours = os.stat("/proc/self/ns/mnt").st_ino
        left = bpf_list() - self.bpf
        others = []
        if not left:
            return left
        for entry in glob.glob("/proc/[0-9]*"):
            with contextlib.suppress(OSError):
                if os.stat(entry + "/ns/mnt").st_ino != ours:
                    others.append(int(entry[6:]))
        held = bpf_held(others)
        return left - held - maps_of(held)

    def check(self, timeout=PATIENCE):
        end = time.monotonic() + timeout
        last = None
        while True:
            now = self.look()
            left = self.left() if now == self.before else None
            if now == self.before and not left:
                return
            # By the end a helper with nothing to do is gone, too.
            last = (now, left) if now or not last else last
            if time.monotonic() > end:
                raise Failure(f"not flat: {self.before} became {last[0]}, left over: {last[1]}")
            time.sleep(0.1)


# The bus.

class Monitor:
    """All that goes over the bus from now on."""

    def __init__(self):
        self.connection = Connection()
        self.connection.call(BUS, "/org/freedesktop/DBus", "org.freedesktop.DBus.Monitoring", "BecomeMonitor", "asu",
                             [[], 0])

    def receive(self, timeout):
        message = self.connection.receive(timeout)
        # Descriptors come along, of sessions that end when their client closes them.
        for fd in message.fds if message else []:
            os.close(fd)
        return message

    def wait_for(self, member, timeout=PATIENCE):
        end = time.monotonic() + timeout
        while True:
            message = self.receive(end - time.monotonic())
            check(message, f"no {member} on the bus")
            if message.member == member:
                return message.body

    def said(self, by):
        """What the helper has said so far: the names of calls, and of errors. by: a connection of a client."""
        helper = by.call(BUS, "/org/freedesktop/DBus", BUS, "GetNameOwner", "s", [NAME])[0]
        serial, words = by.send(NAME, PATH, "org.freedesktop.DBus.Peer", "Ping"), []
        by.wait(serial)
        while True:
            message = self.receive(PATIENCE)
            check(message, "the monitor sees nothing")
            if message.sender != helper:
                continue
            if (message.destination, message.reply_to) == (by.name, serial):
                return words
            words.append(message.member or message.error or "answer")


def events(hz=99):
    return ("a(sbt)", [("cpu-clock", False, hz)])


def options(targets=False, hz=99, ring=65536, tables=0, **more):
    """The options of OpenSession as a{sv}; more: key=(signature, value), None leaves one out."""
    o = {"targets": ("b", targets), "events": events(hz), "ring-size": ("t", ring)}
    if tables:
        o["table-size"] = ("t", tables)
    o.update({key.replace("_", "-"): value for key, value in more.items()})
    return [(key, value) for key, value in o.items() if value is not None]


def call(connection, member, signature="", args=(), patient=True, **kwargs):
    """patient: waits where too many sessions were opened lately, as a client should."""
    while True:
        try:
            return connection.call(NAME, PATH, NAME, member, signature, args, **kwargs)
        except DBusError as e:
            if not patient or e.name != ERROR + "Later":
                raise
            time.sleep(0.5)


def open_session(connection, timeout=PATIENCE, patient=True, **kwargs):
    fd = call(connection, "OpenSession", "a{sv}", [options(**kwargs)], timeout=timeout, patient=patient)[0]
    return Session(socket.socket(fileno=fd))


def open_error(connection, opts, **kwargs):
    """The error's name and text; no error is a failure."""
    try:
        fd = call(connection, "OpenSession", "a{sv}", [opts], **kwargs)[0]
    except DBusError as e:
        return e.name, e.text
    os.close(fd)
    raise Failure(f"served: {opts}")


# The socket.

Mapping = collections.namedtuple("Mapping", "flags process_start start end offset inode pid device path")


def mappings(data):
    """struct rs_mapping, one after the other."""
    at = 0
    while at < len(data):
        kind, _, length, _, flags, _, process_start, start, end, offset, inode, pid, major, minor, n = \
            struct.unpack_from("<BBHHHQQQQQQIIII", data, at)
        path = data[at + 72:at + 72 + n]
        check(kind == RECORD_MAPPING and length == (72 + n + 7) & ~7 and path[-1:] in (b"", b"\0") and
              not data[at + 72 + n:at + length].strip(b"\0"), f"a malformed mapping at {at}")
        yield Mapping(flags, process_start, start, end, offset, inode, pid, (major, minor), path[:-1].decode())
        at += length


class Session:
    """The client's end of one session."""

    def __init__(self, sock, process=None):
        self.socket = sock
        self.process = process  # of a session without the bus
        self.cookie = 0
        self.fds = []

    def close(self):
        self.socket.close()
        for fd in self.fds:
            os.close(fd)
        self.fds = []
        if self.process:
            self.process.wait(PATIENCE)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def send(self, data, descriptors=()):
        socket.send_fds(self.socket, [data], list(descriptors))

    def receive(self, timeout=PATIENCE):
        """(bytes, fds), or None at the end of the session."""
        check(select.select([self.socket], [], [], timeout)[0], "the session says nothing")
        try:
            data, got, _, _ = socket.recv_fds(self.socket, 65536, 64)
        except ConnectionResetError:
            return None
        return (data, got) if data else None

    def message(self, kind, body=b"", length=None):
        self.cookie += 1
        return HEAD.pack(kind, 24 + len(body) if length is None else length, self.cookie, 0, 0) + body

    def ask(self, kind, body=b"", descriptors=()):
        """Sends, and returns (error, answer); the answer's form is checked."""
        self.send(self.message(kind, body), descriptors)
        answer = self.receive()
        check(answer, f"the session ended instead of answering {kind}")
        data, got = answer
        type_, length, cookie, error, _ = HEAD.unpack_from(data)
        self.fds += got
        check((type_, length, cookie) == (kind + 1, len(data), self.cookie), f"answer to {kind} is {data.hex()}")
        return error, data

    def ended(self, timeout=PATIENCE):
        """Reads to the end; returns the error of END, or None where the session ended without."""
        reason = None
        while True:
            message = self.receive(timeout)
            if message is None:
                return reason
            for fd in message[1]:
                os.close(fd)
            type_, length, _, error, _ = HEAD.unpack_from(message[0])
            if type_ == END:
                check(length == 24, "END is malformed")
                reason = error

    def hello(self, version=VERSION, pidfd=None):
        own = os.pidfd_open(os.getpid()) if pidfd is None else pidfd
        try:
            error, data = self.ask(HELLO, struct.pack("<II", version, 0), [own])
        finally:
            if pidfd is None:
                os.close(own)
        check(len(data) == WELCOME_SIZE, "WELCOME has a wrong size")
        return error

    def cgroup(self, number, flags=TARGET_CGROUP, tid=0, descriptors=()):
        error, data = self.ask(TARGET, struct.pack("<IIQ", flags, tid, number), descriptors)
        check(struct.unpack_from("<I", data, 24)[0] == 0, "a cgroup has threads that are watched")
        return error

    def target(self, pid, flags=0, tid=0):
        """(error, threads); pid may be a descriptor given as [fd]."""
        fd = pid[0] if isinstance(pid, list) else os.pidfd_open(pid)
        try:
            error, data = self.ask(TARGET, struct.pack("<IIQ", flags, tid, 0), [fd])
        finally:
            if not isinstance(pid, list):
                os.close(fd)
        return error, struct.unpack_from("<I", data, 24)[0]

    def start(self):
        return self.ask(START)[0]

    def stop(self):
        return self.ask(STOP)[0]

    def stats(self):
        return self.ask(STATS)

    def set_rate(self, rate, event=0):
        return self.ask(SET_RATE, struct.pack("<II", event, rate))[0]

    def maps(self, pid, start=0):
        """(error, mappings, next); pid may be a descriptor given as [fd]."""
        fd = pid[0] if isinstance(pid, list) else os.pidfd_open(pid)
        try:
            error, data = self.ask(MAPS, struct.pack("<Q", start), [fd])
        finally:
            if not isinstance(pid, list):
                os.close(fd)
        follow, size = struct.unpack_from("<QI", data, 24)
        check(len(data) == 40 + MAPPINGS_SIZE and size <= MAPPINGS_SIZE, "MAPPINGS has a wrong size")
        return error, list(mappings(data[40:40 + size])), follow


def ring_records(session, size):
    """All records so far as bytes, and all of the ring's memory; nothing has been consumed and nothing overwritten."""
    with mmap.mmap(session.fds[0], 4096 + size, mmap.MAP_SHARED, mmap.PROT_READ, offset=4096) as m:
        end, = struct.unpack_from("<Q", m)
        raw = m[4096:4096 + size]
    check(end < size, "the ring is full")
    records, at = [], 0
    while at < end:
        length = struct.unpack_from("<I", raw, at)[0] & 0x3fffffff
        records.append(raw[at + 8:at + 8 + length])
        at += 8 + (length + 7 & ~7)
    return records, raw


def grant_bytes(targets=False, kernel=False, hz=99, ring=65536, tables=0, depth=127, n_events=1, event=CPU_CLOCK):
    """struct rs_grant."""
    return GRANT.pack(0, (GRANT_TARGETS if targets else 0) | (GRANT_KERNEL if kernel else 0), depth, n_events, ring, tables,
                      event, 0, hz, *([0] * 21))


def start_direct(**kwargs):
    """A helper of one's own, before it has been told anything."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    theirs.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    fd = theirs.fileno()
    # The client puts it on 3; here the shell does, for Popen only passes numbers on, and only bash takes two digits.
    move = f"3<&{fd} {fd}<&-" if fd != 3 else ""
    process = subprocess.Popen(["bash", "-c", f'exec "$0" --direct {move}', helper_path()], pass_fds=[fd],
                               stdin=subprocess.DEVNULL, env={}, cwd="/", **kwargs)
    theirs.close()
    return Session(ours, process)


def open_direct(**kwargs):
    session = start_direct()
    session.send(session.message(OPEN, grant_bytes(**kwargs)))
    return session


class Way:
    """One of the two ways to a session, so that tests can run over both."""

    def __init__(self, name, user, connection=None):
        self.name = name
        self.user = user
        self.connection = connection

    def open(self, **kwargs):
        return open_session(self.connection, **kwargs) if self.connection else open_direct(**kwargs)

    @contextlib.contextmanager
    def act(self):
        if self.connection:
            with self.user.act():
                yield
        else:
            yield

    def ready(self, **kwargs):
        """A session past HELLO."""
        session = self.open(**kwargs)
        with self.act():
            error = session.hello()
        check(error == OK, f"{self.name}: HELLO: error {error}")
        return session

    def works(self):
        """A fresh session does all it should."""
        with killed(self.user.spin()) as p, self.ready(targets=True) as session:
            until("the target is its user's", lambda: os.stat(f"/proc/{p.pid}").st_uid == self.user.uid)
            with self.act():
                error, threads = session.target(p.pid)
                check((error, threads) == (OK, 1), f"TARGET: error {error}, {threads} threads")
                check(session.start() == OK, "START refused")
                until("something is counted", lambda: struct.unpack_from("<Q", session.stats()[1], 24)[0] > 0)
                check(session.stop() == OK, "STOP refused")
