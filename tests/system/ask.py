#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""
ask.py [--agent] [--stay] SCOPE KERNEL: calls OpenSession with these options (docs/dbus.md), as a client that lets
itself be asked, and prints in a line what came of it: "refused NAME" or "granted", with what WELCOME says was granted,
and whose passwords it took. With --agent polkit's own agent asks on a terminal, where each user's name is typed for
the password. With --stay it stays until the session ends, and says why that was.
"""

import contextlib
import os
import select
import socket
import struct
import sys

from dbus_client import INTERACTIVE, Connection, DBusError
from terminal import Terminal

NAME, PATH = "org.ringside.Helper1", "/org/ringside/Helper1"
# common/protocol.h
HEAD = struct.Struct("<IIQIi")
HELLO, END, VERSION = 2, 13, 3
REASONS = {17: "the helper has ended", 18: "withdrawn"}
WELCOME_GRANTS = 32
KERNEL, SYSTEM = 0x4, 0x8


def start_agent():
    """pkttyagent for this process, on a terminal of its own."""
    r, w = os.pipe()
    os.set_inheritable(w, True)
    agent = Terminal("/usr/bin/pkttyagent", "--process", str(os.getpid()), "--notify-fd", str(w))
    os.close(w)
    os.read(r, 1)  # it closes its end when it is registered
    os.close(r)
    return agent


def open_session(bus, scope, kernel, agent):
    options = {"scope": ("s", scope), "kernel": ("s", kernel), "events": ("a(sbt)", [("cpu-clock", False, 99)]),
               "ring-size": ("t", 65536)}
    serial = bus.send(NAME, PATH, NAME, "OpenSession", "a{sv}", [options], flags=INTERACTIVE)
    while agent:
        ready = select.select([bus.socket, agent.fd], [], [], 120)[0]
        if not ready:
            sys.exit(f"no answer: {agent.text}")
        if agent.fd in ready and not agent.read():
            sys.exit(f"the agent has ended: {agent.text}")
        with contextlib.suppress(TimeoutError):  # what else the bus has to say
            return socket.socket(fileno=bus.wait(serial, 0)[0])
    return socket.socket(fileno=bus.wait(serial, 120)[0])


def hello(session):
    """What was granted."""
    own = os.pidfd_open(os.getpid())
    socket.send_fds(session, [HEAD.pack(HELLO, 32, 1, 0, 0) + struct.pack("<II", VERSION, 0)], [own])
    answer, fds, _, _ = socket.recv_fds(session, 4096, 64)
    error, detail = HEAD.unpack_from(answer)[3:]
    if error:
        sys.exit(f"granted, but HELLO: error {error}, {detail}")
    return struct.unpack_from("<I", answer, WELCOME_GRANTS)[0]


def reason(session):
    """Why the session has ended, when it has."""
    while True:
        message = session.recv(4096)
        if not message:
            return "without a word"
        kind, _, _, error, _ = HEAD.unpack_from(message)
        if kind == END:
            return REASONS.get(error, f"with error {error}")


def main():
    agent = start_agent() if "--agent" in sys.argv else None
    scope, kernel = sys.argv[-2:]
    with Connection() as bus:
        try:
            session = open_session(bus, scope, kernel, agent)
            grants = hello(session)
            words = ["granted"] + ["kernel"] * bool(grants & KERNEL) + ["system"] * bool(grants & SYSTEM)
        except DBusError as e:
            words = ["refused", e.name.rsplit(".", 1)[1]]
    if agent and agent.asked:
        words += ["after"] + agent.asked
    print(" ".join(words), flush=True)
    if "--stay" in sys.argv and words[0] == "granted":
        print("ended:", reason(session))


main()
