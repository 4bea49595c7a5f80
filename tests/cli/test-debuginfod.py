#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""
`ringside symbolize` and debuginfod servers, on the loopback interface: elfutils' own, and others that are dead, slow or
lying. The recording is of a program without debug information, which a server has, or says it has.

usage: test-debuginfod.py RINGSIDE MAKE_RECORDING LIBRARY_DIRECTORY [unittest arguments]
"""

import concurrent.futures
import contextlib
import glob
import os
import pty
import re
import select
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.request

RINGSIDE, MAKE_RECORDING, LIBRARIES = (os.path.abspath(p) for p in sys.argv[1:4])
PATIENCE = 120
PROGRAMS = ["debuginfod", "objcopy", "strip", "readelf"]
# The library's own notes on its cache; all else there is what it has fetched, or began to.
CACHE_NOTES = {"cache_clean_interval_s", "cache_miss_s", "max_unused_age_s"}


class Server:
    """Takes connections one after the other, and has answer(connection) say what it likes to each in a thread."""

    def __init__(self, answer):
        self.answer, self.asked = answer, 0
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = "http://127.0.0.1:%d" % self.socket.getsockname()[1]
        self.ending = threading.Event()
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        with contextlib.suppress(OSError):  # the end
            while True:
                connection = self.socket.accept()[0]
                threading.Thread(target=self.serve_one, args=(connection,), daemon=True).start()

    def serve_one(self, connection):
        with connection, contextlib.suppress(OSError):  # who asked has given up
            request = b""
            while b"\r\n\r\n" not in request:
                data = connection.recv(65536)
                if not data:
                    return
                request += data
            self.asked += 1
            self.answer(self, connection)

    def close(self):
        self.ending.set()
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()


def header(length):
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: %d\r\n\r\n" % length


def nothing(server, _connection):
    server.ending.wait()


def byte_by_byte(server, connection):
    connection.sendall(header(1000000))
    connection.sendall(b"\x7f")
    while not server.ending.wait(1):
        connection.sendall(b"\x7f")


def endless(server, connection):
    connection.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
    while not server.ending.wait(0.02):
        connection.sendall(bytes(65536))


def huge(server, connection):
    connection.sendall(header(1 << 40) + bytes(65536))
    server.ending.wait()


def endless_header(server, connection):
    connection.sendall(b"HTTP/1.1 200 OK\r\n")
    while not server.ending.is_set():
        connection.sendall(b"X-Debuginfod-File: " + b"x" * 1000 + b"\r\n")


def elsewhere(url):
    def answer(_server, connection):
        connection.sendall(b"HTTP/1.1 302 Found\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n" % url.encode())
    return answer


def whole(path):
    def answer(_server, connection):
        with open(path, "rb") as f:
            data = f.read()
        connection.sendall(header(len(data)) + data)
    return answer


def half(path, says):
    """Says that there is more to come, or not."""
    def answer(_server, connection):
        with open(path, "rb") as f:
            data = f.read()
        connection.sendall(header(len(data) if says else len(data) // 2) + data[:len(data) // 2])
    return answer


class DebuginfodTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.mkdtemp(prefix="test-debuginfod-")
        cls.addClassCleanup(shutil.rmtree, cls.dir, ignore_errors=True)
        cls.program, cls.debug = os.path.join(cls.dir, "make-recording"), os.path.join(cls.dir, "served", "debug")
        os.mkdir(os.path.dirname(cls.debug))
        subprocess.run(["objcopy", "--only-keep-debug", MAKE_RECORDING, cls.debug], check=True)
        subprocess.run(["strip", "-g", "-o", cls.program, MAKE_RECORDING], check=True)
        notes = subprocess.run(["readelf", "-n", cls.program], check=True, stdout=subprocess.PIPE, text=True).stdout
        cls.build_id = re.search(r"Build ID: (\w+)", notes)[1]
        cls.recording = os.path.join(cls.dir, "made.ringside")
        subprocess.run([cls.program, cls.recording], check=True, timeout=PATIENCE,
                       env={**os.environ, "LD_LIBRARY_PATH": LIBRARIES})

    def setUp(self):
        self.home = tempfile.mkdtemp(dir=self.dir)
        self.cache = os.path.join(self.home, "cache")
        self.env = {"PATH": os.environ["PATH"], "HOME": self.home, "LC_ALL": "C.UTF-8", "TERM": "xterm",
                    "DEBUGINFOD_CACHE_PATH": self.cache}

    def server(self, answer):
        server = Server(answer)
        self.addCleanup(server.close)
        return server

    def run_symbolize(self, *args, env=None):
        """On a recording of its own. What it says, and how many places have a line."""
        copy = tempfile.mktemp(dir=self.home, suffix=".ringside")
        shutil.copyfile(self.recording, copy)
        p = subprocess.run([RINGSIDE, "symbolize", *args, copy], env={**self.env, **(env or {})}, stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=PATIENCE, text=True, check=False)
        self.assertEqual((p.returncode, p.stderr), (0, ""))
        return p.stdout, int(re.match(r"(\d+) of \d+ places have a line now\n", p.stdout)[1])

    def check(self, said, *lines):
        """All that is said of servers, where they were asked for this one file."""
        text, found = said
        self.assertEqual(text.partition("debuginfod servers ")[2].splitlines(),
                         ["were asked for 1 file", *("  1 " + line for line in lines)])
        return found

    def left(self, cache=None):
        cache = cache or self.cache
        return sorted(os.path.relpath(os.path.join(d, name), cache) for d, _, names in os.walk(cache) for name in names
                      if name not in CACHE_NOTES)

    def real_server(self):
        """elfutils', when it has the file. A port that was free a moment ago may be taken: then another."""
        for _ in range(5):
            with socket.create_server(("127.0.0.1", 0)) as s:
                port = s.getsockname()[1]
            p = subprocess.Popen(["debuginfod", "-F", "-p", str(port), "-d", ":memory:", os.path.dirname(self.debug)],
                                 env={"PATH": os.environ["PATH"], "HOME": self.home}, stdin=subprocess.DEVNULL,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            end = time.monotonic() + PATIENCE
            while p.poll() is None and time.monotonic() < end:
                with contextlib.suppress(OSError):
                    url = f"http://127.0.0.1:{port}"
                    urllib.request.urlopen(f"{url}/buildid/{self.build_id}/debuginfo", timeout=PATIENCE).close()
                    return p, url
                time.sleep(0.1)
            p.kill()
            p.wait()
        self.fail("no debuginfod could be started")

    def test_server(self):
        p, url = self.real_server()
        try:
            found = self.check(self.run_symbolize(env={"DEBUGINFOD_URLS": url}), "was fetched")
            self.assertGreaterEqual(found, 3)
            self.assertEqual(self.left(), [self.build_id + "/debuginfo"])
            # Nor is the program needed, and elsewhere it was never there.
            os.rename(self.program, self.program + ".away")
            other = os.path.join(self.home, "other")
            self.assertEqual(self.check(self.run_symbolize(f"--debuginfod={url}", env={"DEBUGINFOD_CACHE_PATH": other}),
                                        "was fetched"), found)
            os.rename(self.program + ".away", self.program)
        finally:
            p.terminate()
            p.wait(PATIENCE)
        # What was fetched stays; nobody has to be asked, nor can be.
        for args in ([], [f"--debuginfod={url}"]):
            text, again = self.run_symbolize(*args)
            self.assertEqual(again, found)
            self.assertNotIn("debuginfod", text)
        self.assertEqual(self.run_symbolize("--no-debuginfod")[1], 0)

    def test_off(self):
        server = self.server(nothing)
        for args, env in (([], {}), (["--no-debuginfod"], {"DEBUGINFOD_URLS": server.url}),
                          ([f"--debuginfod={server.url}", "--no-debuginfod"], {}), ([], {"DEBUGINFOD_URLS": ""}),
                          ([], {"DEBUGINFOD_URLS": " \t\n"})):
            text, found = self.run_symbolize(*args, env=env)
            self.assertEqual(found, 0)
            self.assertNotIn("debuginfod", text)
        self.assertEqual(server.asked, 0)
        self.assertEqual(self.left(), [])

    def test_no_build_id(self):
        """Of a file without one nothing can be asked, however it is called."""
        server = self.server(nothing)
        recording, self.recording = self.recording, os.path.join(self.home, "without.ringside")
        shutil.copyfile(recording, self.recording)
        with contextlib.closing(sqlite3.connect(self.recording)) as db, db:
            self.assertGreater(db.execute("UPDATE file SET build_id=NULL WHERE build_id IS NOT NULL").rowcount, 0)
        text, found = self.run_symbolize(env={"DEBUGINFOD_URLS": server.url})
        self.assertEqual((found, server.asked), (0, 0))
        self.assertNotIn("debuginfod", text)

    def test_wrong_usage(self):
        def status(*args, env=None):
            p = subprocess.run([RINGSIDE, "symbolize", *args, self.recording], env={**self.env, **(env or {})},
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=PATIENCE,
                               text=True, check=False)
            self.assertTrue(p.stderr.startswith("ringside: "), p.stderr)
            return p.returncode
        for value in ("", " "):
            self.assertEqual(status(f"--debuginfod={value}"), 2)
        for value in ("", "0", "x", "-1s"):
            self.assertEqual(status(f"--debuginfod-timeout={value}"), 2)
        if not glob.glob("/etc/debuginfod/*.urls"):
            self.assertEqual(status("--debuginfod"), 1)
            self.assertEqual(status("--debuginfod", env={"DEBUGINFOD_URLS": "\t"}), 1)

    def test_dead(self):
        """Nobody listens there; and a second one that does has nothing to say."""
        with socket.create_server(("127.0.0.1", 0)) as s:
            url = "http://127.0.0.1:%d" % s.getsockname()[1]
        failed = "failed: no answer, or not what was asked for"
        self.assertEqual(self.check(self.run_symbolize(env={"DEBUGINFOD_URLS": url}), failed), 0)
        self.assertEqual(self.left(), [])
        p, good = self.real_server()
        try:
            self.assertGreaterEqual(self.check(self.run_symbolize(env={"DEBUGINFOD_URLS": f"{url} {good}"}), "was fetched"), 3)
        finally:
            p.terminate()
            p.wait(PATIENCE)

    def test_unknown(self):
        def answer(_server, connection):
            connection.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 9\r\n\r\nNot found")
        server = self.server(answer)
        self.assertEqual(self.check(self.run_symbolize(env={"DEBUGINFOD_URLS": server.url}), "is on no server"), 0)

    def given_up(self, answer, cache):
        """All that has come is removed, if there is time to: on a machine at work there may not be."""
        server = self.server(answer)
        for timeout in (8, 24, 72):
            said = self.run_symbolize(f"--debuginfod-timeout={timeout}",
                                      env={"DEBUGINFOD_URLS": server.url, "DEBUGINFOD_CACHE_PATH": cache})
            self.assertEqual(self.check(said, "was given up on: it took too long"), 0)
            if not self.left(cache):
                break
        self.assertEqual(self.left(cache), [])
        self.assertGreater(server.asked, 0)

    def test_given_up(self):
        answers = [nothing, byte_by_byte, endless]
        with concurrent.futures.ThreadPoolExecutor(len(answers)) as pool:
            for result in [pool.submit(self.given_up, answer, os.path.join(self.home, answer.__name__)) for answer in answers]:
                result.result()

    def test_lying(self):
        """Nothing of a lie stays, not even that nobody has the file: the next one that is asked is believed again."""
        other = os.path.join(self.home, "other")
        subprocess.run(["objcopy", "--only-keep-debug", RINGSIDE, other], check=True)
        failed = "failed: no answer, or not what was asked for"
        for name, answer in (("other", whole(other)), ("half", half(self.debug, says=True)), ("huge", huge)):
            with self.subTest(name):
                server = self.server(answer)
                self.assertEqual(self.check(self.run_symbolize(env={"DEBUGINFOD_URLS": server.url}), failed), 0)
                self.assertEqual(self.left(), [])
                self.assertGreater(server.asked, 0)
        server = self.server(whole(self.debug))
        self.assertGreaterEqual(self.check(self.run_symbolize(env={"DEBUGINFOD_URLS": server.url}), "was fetched"), 3)

    def test_half(self):
        """One that has the build id, and ends in the middle: whatever is in it, it costs its own lines."""
        server = self.server(half(self.debug, says=False))
        text, found = self.run_symbolize(env={"DEBUGINFOD_URLS": server.url})
        self.assertEqual(found, 0)
        self.assertRegex(text, r"1 was fetched|1 failed")

    def test_hostile(self):
        """
        Our own files in place of a server's, no end before a file begins, and a cache where opening a file has none. Who
        loses patience first does not matter.
        """
        fifo = os.path.join(self.home, "cache-2", self.build_id, "debuginfo")
        os.makedirs(os.path.dirname(fifo))
        os.mkfifo(fifo)
        for i, answer in enumerate((elsewhere("file://" + self.debug), endless_header, whole(self.debug))):
            server = self.server(answer)
            text, found = self.run_symbolize("--debuginfod-timeout=4s", env={
                "DEBUGINFOD_URLS": server.url, "DEBUGINFOD_CACHE_PATH": os.path.join(self.home, f"cache-{i}")})
            self.assertEqual(found, 0)
            self.assertRegex(text, "1 failed|1 was given up on|1 is on no server")

    def test_interrupted(self):
        """Who asks servers ends with us, and leaves nothing."""
        server = self.server(nothing)
        p = subprocess.Popen([RINGSIDE, "symbolize", "--debuginfod-timeout=1h", self.recording], stdin=subprocess.DEVNULL,
                             env={**self.env, "DEBUGINFOD_URLS": server.url})
        self.wait_until(lambda: server.asked > 0)
        self.assertNotEqual(self.left(), [])
        p.terminate()
        p.wait(PATIENCE)
        self.wait_until(lambda: self.left() == [])

    def wait_until(self, condition):
        end = time.monotonic() + PATIENCE
        while not condition():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.05)

    def test_no_library(self):
        """It is told once, and the rest is as without servers. The loader takes no other one where this is none."""
        with open(os.path.join(self.home, "libdebuginfod.so.1"), "w"):
            pass
        p = subprocess.run([RINGSIDE, "symbolize", self.recording], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, timeout=PATIENCE, text=True, check=False,
                           env={**self.env, "DEBUGINFOD_URLS": "http://127.0.0.1:1", "LD_LIBRARY_PATH": self.home})
        self.assertEqual(p.returncode, 0)
        self.assertRegex(p.stdout, r"^0 of ")
        self.assertNotIn("debuginfod", p.stdout)
        self.assertRegex(p.stderr, r"\Aringside: Servers cannot be asked without libdebuginfod\nhint: .*--no-debuginfod\n\Z")

    def on_terminal(self, url, timeout):
        copy = os.path.join(self.home, "terminal.ringside")
        shutil.copyfile(self.recording, copy)
        pid, fd = pty.fork()
        if pid == 0:
            try:
                os.execve(RINGSIDE, [RINGSIDE, "symbolize", f"--debuginfod-timeout={timeout}", copy],
                          {**self.env, "DEBUGINFOD_URLS": url})
            finally:
                os._exit(99)
        out, end = b"", time.monotonic() + PATIENCE
        with contextlib.suppress(OSError):  # the terminal's end
            while time.monotonic() < end and select.select([fd], [], [], PATIENCE)[0]:
                out += os.read(fd, 65536)
        os.close(fd)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)
        return out.decode()

    def test_progress(self):
        """On a terminal it is told what is waited for, and then the line is gone."""
        server = self.server(byte_by_byte)
        for timeout in (3, 12, 48):  # a machine at work may not have come so far
            text = self.on_terminal(server.url, timeout)
            if " B of " in text:
                break
        self.assertIn("\rDebug information of make-recording: ", text)
        self.assertRegex(text, r" B of 976\.6 KiB +\r")
        self.assertRegex(text, r"\r +\r0 of ")


def main():
    missing = [p for p in PROGRAMS if not shutil.which(p)]
    if missing:
        print("skipped: there is no", ", ".join(missing))
        sys.exit(1 if os.environ.get("RINGSIDE_MUST_RUN") == "1" else 77)
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]], verbosity=2)


if __name__ == "__main__":
    main()
