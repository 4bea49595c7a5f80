# SPDX-License-Identifier: LGPL-2.1-or-later
"""
What the driver needs of the machine it runs in: login sessions of users that can be switched, commands in them, and
the table of what happened.
"""

import contextlib
import os
import platform
import re
import select
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import traceback

RUN = "/run/ringside-test"
QEMU = os.environ.get("RINGSIDE_MACHINE") == "qemu"
KERNEL = platform.release()


class Failure(Exception):
    """An expectation did not hold."""


def check(condition, text):
    if not condition:
        raise Failure(text)


def until(what, func, timeout=240.0):
    """Waits for func() to be true, and returns what it returned. Nothing here is about how fast things are."""
    end = time.monotonic() + timeout
    while True:
        r = func()
        if r:
            return r
        check(time.monotonic() < end, f"not within {timeout} s: {what}")
        time.sleep(0.05)


def sh(*command, ok=True):
    """A command's output, of both kinds; it has to succeed unless ok is False."""
    r = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                       encoding="utf-8", errors="replace")
    check(r.returncode == 0 or not ok, f"{' '.join(command)}: {r.returncode}: {r.stdout}")
    return r.stdout


def unit_property(unit, name):
    return sh("systemctl", "show", "--value", "-p", name, unit).strip()


def collapsed(session, recording):
    """{"command;function;...": samples} of a recording of the session's user."""
    stacks = {}
    for line in session.shell(f"ringside export --format=collapsed {recording}").splitlines():
        stack, count = line.rsplit(" ", 1)
        stacks[stack] = int(count)
    return stacks


def database(session):
    """The recording of the session's user, finished or not."""
    home = sh("getent", "passwd", session.user).split(":")[5]
    return sqlite3.connect(f"file:{home}/r.ringside?mode=ro", uri=True, timeout=60)


# Login sessions.

class Command:
    """One command in a session. Each piece of its output is read once."""

    def __init__(self, path, command):
        self.command = command
        ours, theirs = os.pipe()
        self.output = open(ours, "rb", buffering=0)  # or what is in a buffer could not be waited for
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.connect(path)
        socket.send_fds(self.socket, ["\0".join(command).encode()], [theirs])
        os.close(theirs)
        self.pid = int(self.socket.recv(64))

    def line(self):
        """The next line of its output, when there is one."""
        return self.output.readline().decode(errors="replace").strip()

    def readable(self, timeout):
        """Whether it says something, or ends, within that time."""
        return bool(select.select([self.output], [], [], timeout)[0])

    def until_said(self, words, timeout=240.0):
        """Its output up to these words, whatever else it has to say."""
        text, end = "", time.monotonic() + timeout
        while words not in text:
            left = end - time.monotonic()
            check(left > 0 and self.readable(left), f"not within {timeout} s: {words}: {text}")
            piece = self.output.read(4096).decode(errors="replace")
            check(piece, f"it has ended: {text}")
            text += piece
        return text

    def ended(self):
        return bool(select.select([self.socket], [], [], 0)[0])

    def terminate(self):
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGTERM)

    def wait(self, timeout=120.0):
        """(exit status, the rest of the output)"""
        with self.output as f:
            text = f.read().decode(errors="replace")
        self.socket.settimeout(timeout)
        status = int(self.socket.recv(64))
        self.socket.close()
        return status, text


class Session:
    """
    A user's login session: on the seat, or without one. On the seat of a machine with virtual terminals each has one
    of its own (1 and 2); without them logind keeps a list. What is in front is active.
    """

    def __init__(self, user, terminal=0):
        self.user, self.terminal = user, terminal
        self.unit = f"ringside-session-{user}-{terminal}"
        self.socket = f"{RUN}/{user}/{self.unit}"
        sh("install", "-d", "-o", user, f"{RUN}/{user}")
        where = []
        if terminal and QEMU:
            where = ["-p", f"TTYPath=/dev/tty{terminal}", "-p", "StandardInput=tty-force", "-p", "StandardOutput=journal"]
        elif terminal:
            where = ["-E", "XDG_SEAT=seat0", "-E", "XDG_SESSION_CLASS=user"]
        sh("systemd-run", "--quiet", "--collect", "--unit", self.unit, f"--uid={user}", "-p", "PAMName=login",
           "-p", "WorkingDirectory=~", *where, "--", "/test/session-runner.py", self.socket)
        until(f"{user} is logged in", lambda: os.path.exists(self.socket))
        self.id = self.shell("echo $XDG_SESSION_ID").strip()

    def start(self, *command):
        return Command(self.socket, command)

    def run(self, *command):
        return self.start(*command).wait()

    def shell(self, script):
        """Output of a script that has to succeed."""
        status, text = self.run("sh", "-c", script)
        check(status == 0, f"{self.user}: {script}: {status}: {text}")
        return text

    def property(self, name):
        return sh("loginctl", "show-session", "--value", "-p", name, self.id).strip()

    def is_active(self):
        return self.property("Active") == "yes"

    def bring_to_front(self):
        sh("loginctl", "activate", self.id)
        until(f"{self.user}'s session is in front", self.is_active)

    def end(self):
        sh("systemctl", "stop", self.unit)


# The table.

class Table:
    def __init__(self):
        self.failed = 0
        print(f"{'kernel':<14} {'session':<10} {'action':<44} outcome", flush=True)

    def row(self, session, action, outcome, expected=None):
        """expected: where the outcome alone does not say whether it is right."""
        good = expected is None or outcome == expected
        self.failed += not good
        print(f"{re.match('[0-9.]*', KERNEL)[0].rstrip('.'):<14} {session:<10} {action:<44} {outcome}"
              + ("" if good else f"    WRONG: should be: {expected}"), flush=True)

    def run(self, session, action, func):
        """The outcome is what func() returns; what it raises is wrong."""
        try:
            self.row(session, action, func())
        except Exception as e:
            self.row(session, action, f"{type(e).__name__}: {e}", "no failure")
            traceback.print_exc(file=sys.stdout)
