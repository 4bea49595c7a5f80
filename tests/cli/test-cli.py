#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""
The real `ringside`, as its users meet it: what it prints, how wide, in which colours, with which exit
status. Recordings are made by make-recording; sessions, where `record` needs one, by fake-session.so
preloaded before the library. Neither helper nor bus nor any right is needed.

usage: test-cli.py RINGSIDE MAKE_RECORDING FAKE_SESSION EXAMPLE [unittest arguments]
"""

import contextlib
import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import sqlite3
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unicodedata
import unittest

RINGSIDE, MAKE_RECORDING, FAKE_SESSION, EXAMPLE = (os.path.abspath(p) for p in sys.argv[1:5])
# Seconds for what should come at once: on a machine at work, too.
PATIENCE = 60


# Says the number of a second thread, which lives until the first line.
THREAD = """
import threading, time
t = threading.Thread(target=input)
t.start()
print(t.native_id, flush=True)
time.sleep(1000)
"""


def width(line):
    """Columns of a line on a terminal."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in line)


class CliTest(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="test-cli-")
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.env = {
            "PATH": os.environ["PATH"], "HOME": self.dir, "LC_ALL": "C.UTF-8", "TERM": "xterm",
            "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0",
        }

    def path(self, name):
        return os.path.join(self.dir, name)

    def run_cli(self, *args, env=None, stdin=subprocess.DEVNULL, **kw):
        return subprocess.run([RINGSIDE, *args], cwd=self.dir, env={**self.env, **(env or {})}, stdin=stdin,
                              stdout=kw.pop("stdout", subprocess.PIPE), stderr=subprocess.PIPE, timeout=PATIENCE, **kw)

    def ok(self, *args, **kw):
        p = self.run_cli(*args, **kw)
        self.assertEqual(p.returncode, 0, p.stderr.decode(errors="replace"))
        return p.stdout.decode() if p.stdout is not None else ""

    def fails(self, status, *args, **kw):
        """Every error says who speaks, and is one or a few lines that no terminal obeys."""
        p = self.run_cli(*args, **kw)
        err = p.stderr.decode()
        self.assertEqual(p.returncode, status, err)
        self.assertTrue(err.startswith("ringside: "), err)
        self.assertNotIn("\033", err)
        return err

    def assert_harmless(self, text):
        """No control characters but newlines, nothing that turns the direction of writing."""
        for c in text:
            self.assertTrue(c == "\n" or (ord(c) >= 32 and not 0x7F <= ord(c) < 0xA0), repr(c))
        self.assertNotIn("\u202e", text)

    def assert_narrow(self, text, columns=80):
        for line in text.split("\n"):
            self.assertLessEqual(width(line), columns, line)


def on_terminal(test, args, env=None, columns=80, keys=None, until=None, timeout=PATIENCE, uid=None):
    """Runs ringside on a terminal of its own; keys is typed once until has appeared. Output, status."""
    pid, fd = pty.fork()
    if pid == 0:
        try:
            if uid is not None:
                os.setresgid(uid, uid, uid)
                os.setresuid(uid, uid, uid)
            os.chdir(test.dir)
            os.execve(RINGSIDE, [RINGSIDE, *args], {**test.env, **(env or {})})
        finally:
            os._exit(99)  # or the child would go on with the tests
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    out, end = b"", time.monotonic() + timeout
    while time.monotonic() < end:
        if select.select([fd], [], [], 0.1)[0]:
            try:
                data = os.read(fd, 65536)
            except OSError:
                break
            if not data:
                break
            out += data
        if keys and until.encode() in out:
            os.write(fd, keys.pop(0))
            until = "" if not keys else until
            if keys:
                time.sleep(0.3)
    else:
        os.kill(pid, signal.SIGKILL)
    os.close(fd)
    return out.decode(errors="replace"), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


class Usage(CliTest):
    commands = ["record", "report", "annotate", "symbolize", "flamegraph", "export", "events", "doctor"]

    def test_help(self):
        text = self.ok("--help")
        for c in self.commands:
            self.assertRegex(text, rf"(?m)^  {c} ")
            for args in ([c, "--help"], ["help", c]):
                page = self.ok(*args)
                self.assertTrue(page.startswith(f"Usage: ringside {c}"))
                self.assertIn("Exit status", page)
                self.assert_narrow(page)
        self.assert_narrow(text)

    def test_version(self):
        self.assertRegex(self.ok("--version"), r"^ringside \d+\.\d+\.\d+\n$")

    def test_wrong_usage(self):
        self.assertEqual(self.run_cli().returncode, 2)
        self.fails(2, "nosuch")
        self.fails(2, "\033[31m")
        self.fails(2, "help", "nosuch")
        for c in self.commands:
            self.assertIn(f"ringside {c} --help", self.fails(2, c, "--no-such-option"))
            self.fails(2, c, "-Z")
        for c in ["report", "symbolize", "flamegraph", "export", "events", "doctor"]:
            self.fails(2, c, "--format=pprof" if c == "export" else "--help=x", "a", "b")
        self.fails(2, "export")
        self.fails(2, "record", "-F", "x", "--", "true")
        self.fails(2, "flamegraph", "--open", "-o", "-")

    def test_no_recording(self):
        for args in (["report"], ["flamegraph"], ["export", "--format=collapsed"]):
            self.assertIn("ringside record", self.fails(1, *args))
            error = self.fails(1, *args, "nosuch.ringside")
            self.assertIn("nosuch.ringside", error)
            self.assertIn("hint:", error)

    def test_not_a_recording(self):
        with open(self.path("x.ringside"), "wb") as f:
            f.write(b"\0" * 5000)
        self.assertIn("hint: A recording is what", self.fails(1, "report", "x.ringside"))
        self.fails(1, "report", "/dev/null")
        self.fails(1, "report", ".")

    def test_full_disk(self):
        with open("/dev/full", "wb") as full:
            p = self.run_cli("--help", stdout=full)
            self.assertEqual(p.returncode, 1)


    def test_errors_fit_a_terminal(self):
        """And only there are they wrapped: what reads a pipe looks for lines."""
        pids = ",".join(str(n) for n in range(1, 71))
        for columns, widest in ((80, 80), (50, 50), (200, 80)):
            for args in (["record", "-F", "x", "--", "true"], ["record", "-p", pids], ["record", "-d", "x"], ["report"],
                         ["record", "-e", "no such event/-3"]):
                text, status = on_terminal(self, args, {"COLUMNS": str(columns)}, columns=columns)
                self.assertIn(status, (1, 2))
                text = re.sub(r"\033\[[0-9;]*m", "", text.replace("\r\n", "\n"))
                self.assert_narrow(text, widest)
                if columns == 50:
                    self.assertRegex(text, r"(?m)^ringside: .*\n {10}\S|^hint: .*\n {6}\S")
        error = self.fails(2, "record", "-p", pids)
        self.assertEqual(error.count("\n"), 2, error)
        self.assertIn("...: this should be", error)
        self.assertLess(len(error), 250)

    def test_damaged(self):
        subprocess.run([MAKE_RECORDING, self.path("a.ringside")], check=True, env=self.env)
        with open(self.path("a.ringside"), "r+b") as f:
            data = f.read()
            f.seek(0)
            f.write(data.replace(b"CREATE TABLE thread(", b"CREATE TABLE thread["))
        error = self.fails(1, "report", "a.ringside")
        self.assertIn("is damaged", error)
        self.assertNotIn("\\x0a", error)
        self.assert_narrow(error)


class Reading(CliTest):
    def setUp(self):
        super().setUp()
        subprocess.run([MAKE_RECORDING, self.path("a.ringside")], check=True, env=self.env)

    def report(self, *args, **kw):
        return self.ok("report", *args, "a.ringside", **kw)

    def test_functions(self):
        text = self.report()
        self.assertRegex(text, r"(?m)^ 70\.0 % +70\.0 % +700  cli_hot_a +make-recording$")
        self.assertRegex(text, r"(?m)^ 20\.0 % .* 200  cli_hot_b ")
        self.assertRegex(text, r"(?m)^  5\.0 % .* 50  \[kernel\]")
        self.assertRegex(text, r"(?m)^Samples +1000, 0 lost, 200 truncated \(20\.0 %\)$")
        self.assertRegex(text, r"(?m)^Truncated +120 no frame pointer, 80 no rule$")
        self.assertRegex(text, r"(?m)^Command +\./program ")
        for label in ("Recording", "Host", "Recorded", "Event"):
            self.assertRegex(text, rf"(?m)^{label} ")
        self.assert_harmless(text)
        self.assert_narrow(text)

    def test_newest_is_found(self):
        self.assertEqual(self.ok("report").replace("./a.ringside", "a.ringside"), self.report())

    @unittest.skipIf(os.geteuid() != 0, "another user's file takes root to make")
    def test_newest_is_mine(self):
        subprocess.run([MAKE_RECORDING, self.path("b.ringside")], check=True, env=self.env)
        os.utime(self.path("a.ringside"), (1000, 1000))
        os.chown(self.path("b.ringside"), 65534, 65534)
        self.assertIn("a.ringside", self.ok("report"))
        # A link of another's is no better.
        subprocess.run([MAKE_RECORDING, self.path("elsewhere")], check=True, env=self.env)
        os.symlink("elsewhere", self.path("c.ringside"))
        os.chown(self.path("c.ringside"), 65534, 65534, follow_symlinks=False)
        self.assertIn("a.ringside", self.ok("report"))
        os.unlink(self.path("a.ringside"))
        error = self.fails(1, "report")
        self.assertIn("no recording of yours", error)
        self.assertIn("last argument", error)
        self.ok("report", "b.ringside")

    def test_not_finished_is_said(self):
        with sqlite3.connect(self.path("a.ringside")) as db:
            db.execute("DELETE FROM meta WHERE key='finished'")
        for columns in "44", "80":
            self.assertRegex(self.report(env={"COLUMNS": columns}), r"(?m)^ +not finished: cut off, or goes on$")

    def test_every_view_is_harmless_and_narrow(self):
        self.ok("symbolize", "a.ringside", env={"XDG_CACHE_HOME": self.path("")})
        for by in ("function", "line", "file", "process", "thread", "callees", "callers"):
            for columns in ("44", "80", "200"):
                for locale in ("C", "C.UTF-8"):
                    text = self.report("--by", by, "--threshold=0", env={"COLUMNS": columns, "LC_ALL": locale})
                    self.assert_harmless(text)
                    self.assert_narrow(text, int(columns))
                    if locale == "C":
                        self.assertTrue(text.isascii(), text)

    def test_tree(self):
        callees = self.report("--by", "callees", "--threshold=0")
        self.assertIn("─ ", callees)
        self.assertGreaterEqual(len(re.findall("cli_caller", callees)), 100)
        self.assertRegex(self.report("--by", "callers"), r"(?m)^ 70\.0 % +70\.0 %  ├─ cli_hot_a\n 70\.0 % .*  │  cli_caller")

    def test_sort_limit_threshold(self):
        self.assertRegex(self.report("--sort=total", "--limit=1"), r"total   samples[^\n]*\n[^\n]*cli_caller[^\n]*\n\d+ more left out")
        self.assertNotIn("cli_hot_b", self.report("--threshold", "50"))
        rows = json.loads(self.report("--format=json", "--threshold=10", "--sort=total"))["rows"]
        self.assertTrue(all(r["total_samples"] >= 100 for r in rows))
        self.assertEqual(rows, sorted(rows, key=lambda r: -r["total_samples"]))

    def test_filters(self):
        threads = json.loads(self.report("--by=thread", "--format=json"))["rows"]
        self.assertEqual(sorted(t["self_samples"] for t in threads), [200, 800])
        text = self.report("--thread", "worker")
        self.assertRegex(text, r"(?m)^Thread +worker$")
        self.assertRegex(text, r"(?m)^100\.0 % .* cli_hot_b")
        self.assertIn("No sample passes the filter", self.report("--process", "nosuch"))
        text = self.report("--function=cli_hot_?", "--by=callers")
        self.assertRegex(text, r"(?m)^Function +cli_hot_\?$")
        self.assertRegex(text, r"(?m)^Samples +900, ")
        self.assertNotIn("[kernel]", text)
        whole = ("--function=cli_hot_b", "--mode=user", "--since=1ms", "--until=2h", "--format=json")
        self.assertEqual(json.loads(self.report(*whole))["filter"], {
            "function": "cli_hot_b", "since_ns": 1000000, "until_ns": 7200000000000, "mode": "user"})
        text = self.report("--mode=kernel", "--since=1ms", "--until=2h")
        self.assertRegex(text, r"(?m)^Mode +kernel$")
        self.assertRegex(text, r"(?m)^Time +1 ms to 2 h 00 min$")
        self.assertRegex(self.report("--since=30m"), r"(?m)^Time +from 30 min 00 s on$")
        self.fails(1, "report", "--event=7", "a.ringside")

    def check_node(self, node, functions):
        """A node has its own samples and its children's; what each function has itself is added up."""
        children = node["children"]
        self.assertEqual(node["total_samples"], node["self_samples"] + sum(c["total_samples"] for c in children))
        functions[node["name"]] = functions.get(node["name"], 0) + node["self_samples"]
        for c in children:
            self.check_node(c, functions)

    def test_json(self):
        self.ok("symbolize", "a.ringside", env={"XDG_CACHE_HOME": self.path("")})
        for by in ("function", "line", "file", "process", "thread", "callees", "callers"):
            text = self.report("--format=json", "--by", by)
            self.assert_harmless(text)
            d = json.loads(text)
            self.assertEqual((d["version"], d["by"], d["samples"], d["truncated"], d["guessed"]), (1, by, 1000, 200, 50))
            self.assertEqual(d["truncated_by"], {"bad_frame_pointer": 120, "no_rule": 80})
            self.assertIn("tree" if by.startswith("call") else "rows", d)
            self.assertTrue(d["recording"]["finished"])
        names = {r["name"]: r for r in json.loads(self.report("--format=json"))["rows"]}
        self.assertEqual(names["cli_hot_a"]["self_samples"], 700)
        lines = {r["name"]: r for r in json.loads(self.report("--format=json", "--by=line"))["rows"]}
        self.assertEqual(lines["cli_hot_a"]["self_samples"], 700)
        self.assertTrue(lines["cli_hot_a"]["source"].endswith("/make-recording.c"), lines["cli_hot_a"])
        self.assertGreater(lines["cli_hot_a"]["line"], 0)
        self.assertNotIn("source", names["cli_hot_a"])
        root = json.loads(self.report("--format=json", "--by=callees"))["tree"]
        functions = {}
        self.check_node(root, functions)
        self.assertEqual((root["total_samples"], functions["cli_hot_a"]), (1000, 700))
        limited = json.loads(self.report("--format=json", "--by=callees", "--limit=1"))["tree"]
        while limited["children"]:
            self.assertEqual(len(limited["children"]), 1)
            limited = limited["children"][0]
        bare = json.loads(self.report("--format=json", "--by=callers", "--threshold=100"))["tree"]
        self.assertEqual(bare["children"], [])
        self.assertTrue(any("\\x1b[2J" in n for n in names), names.keys())

    def annotate(self, *args, **kw):
        return self.ok("annotate", *args, "a.ringside", **kw)

    def test_annotate(self):
        self.assertIn("No sample is in nosuch", self.fails(1, "annotate", "nosuch", "a.ringside"))
        self.assertRegex(self.annotate("cli_hot_a"), r"(?m)^cli_hot_a  make-recording\nno line is known\n.*\n 70\.0 %   70\.0 % +\?$")
        self.ok("symbolize", "a.ringside", env={"XDG_CACHE_HOME": self.path("")})
        text = self.annotate("cli_hot_a")
        self.assertRegex(text, r"(?m)^cli_hot_a  make-recording\n\S*make-recording\.c\n")
        self.assertEqual(len(re.findall(r"(?m)^ 70\.0 %   70\.0 % +\d+  ", text)), 1)
        self.assertRegex(text, r"(?m)^ +\d+  __attribute__\(\(noinline\)\) static int cli_hot_a\(int x\) {$|return x \+ 1;")
        self.assertNotIn("cli_hot_b", self.annotate("cli_hot_a", "--format=json"))
        whole = json.loads(self.annotate("cli_hot_[ab]", "--format=json"))
        self.assertEqual((whole["version"], whole["function"], whole["samples"]), (1, "cli_hot_[ab]", 1000))
        self.assertEqual(sorted(line["self_samples"] for line in whole["lines"]), [200, 700])
        for line in whole["lines"]:
            with open(line["source"]) as f:
                self.assertEqual(line["text"], f.read().split("\n")[line["line"] - 1])
        self.assertRegex(self.annotate("cli_hot_b", "--mode=user", "-o", "-"), r"(?m)^ 21\.1 %   21\.1 % +\d+  ")

    def recorded(self, function):
        """Samples whose innermost frame is at each address, and those with it anywhere, as the recording has them."""
        with sqlite3.connect(self.path("s.ringside")) as db:
            frames = dict(db.execute("SELECT frame.id, address FROM frame JOIN symbol ON symbol.id=frame.symbol WHERE CAST(name AS TEXT)=?", (function,)))
            stacks = {i: (parent, frame) for i, parent, frame in db.execute("SELECT id, parent, frame FROM stack")}
            samples = db.execute("SELECT stack, count(*) FROM sample GROUP BY stack").fetchall()
        own, total = dict.fromkeys(frames.values(), 0), dict.fromkeys(frames.values(), 0)
        for stack, n in samples:
            met, innermost = set(), True
            while stack:
                stack, frame = stacks[stack]
                if frame in frames:
                    met.add(frames[frame])
                    own[frames[frame]] += n * innermost
                innermost = False
            for address in met:
                total[address] += n
        return own, total

    def test_disassemble(self):
        """A program without debug information, but with symbols: what nm, objdump and the recording itself say of it."""
        program = self.path("stripped")
        subprocess.run(["strip", "--strip-debug", "-o", program, MAKE_RECORDING], check=True)
        library = os.path.join(os.path.dirname(RINGSIDE), "../lib")
        subprocess.run([program, self.path("s.ringside")], check=True, env={**self.env, "LD_LIBRARY_PATH": library})
        symbols = {name: (int(start, 16), int(size, 16)) for start, size, name in re.findall(
            r"(?m)^(\w+) (\w+) \w (\S+)$", subprocess.run(["nm", "-S", program], check=True, capture_output=True, text=True).stdout)}
        listing = subprocess.run(["objdump", "-d", "-w", "-z", "--no-show-raw-insn", program], check=True, capture_output=True, text=True).stdout
        listed = {int(address, 16): text.replace("\t", " ").rstrip() for address, text in re.findall(r"(?m)^ *(\w+):\t(.*)$", listing)}
        whole = json.loads(self.ok("annotate", "cli_*", "s.ringside", "--disassemble", "--format=json"))
        self.assertEqual(sorted(code["name"] for code in whole["code"]), ["cli_caller", "cli_hot_a", "cli_hot_b"])
        for code in whole["code"]:
            start, size = symbols[code["name"]]
            instructions = code["instructions"]
            self.assertEqual((code["path"], code["start"], code["end"]), (program, start, start + size))
            self.assertEqual({i["address"]: i["text"] for i in instructions},
                             {a: text for a, text in listed.items() if start <= a < start + size})
            own, total = self.recorded(code["name"])
            self.assertTrue(own)
            for i, instruction in enumerate(instructions):
                end = instructions[i + 1]["address"] if i + 1 < len(instructions) else start + size
                within = [a for a in own if instruction["address"] <= a < end]
                self.assertEqual(instruction["self_samples"], sum(own[a] for a in within))
                self.assertEqual(instruction["total_samples"], max((total[a] for a in within), default=0))
            self.assertEqual(sum(i["self_samples"] for i in instructions), sum(own.values()))
        self.assert_narrow(self.ok("annotate", "cli_*", "s.ringside", "--disassemble", env={"COLUMNS": "44"}), 44)
        # Started by somebody who does not want to know how children end.
        text = self.ok("annotate", "cli_caller", "s.ringside", "--disassemble",
                       preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
        self.assertRegex(text, r"(?m)^cli_caller  stripped\n/.*/stripped\n   self    total       address\n")
        self.assertRegex(text, r"(?m)^  0\.0 %   95\.0 % +[0-9a-f]+  \w+")
        # Without being asked for, and beside the lines, where there is no source.
        self.assertRegex(self.ok("annotate", "cli_hot_a", "s.ringside"),
                         r"(?s)^cli_hot_a  stripped\nno line is known\n.* 70\.0 %   70\.0 % +\?\n\ncli_hot_a  stripped\n.* 70\.0 %   70\.0 % +[0-9a-f]+  \w")
        self.assertIn("code", json.loads(self.ok("annotate", "cli_hot_a", "s.ringside", "--format=json")))
        # One's own file with another build.
        shutil.copyfile(RINGSIDE, program)
        self.assertIn("is not the file that was recorded", self.fails(1, "annotate", "cli_hot_a", "s.ringside", "--disassemble"))
        text = self.ok("annotate", "cli_hot_a", "s.ringside")
        self.assertIn("is not the file that was recorded", " ".join(text.split()))
        self.assert_narrow(text)

    def test_disassemble_not(self):
        """What has no instructions says so, and what it may call itself stays harmless."""
        nothing = {"PATH": "/nonexistent"}
        error = self.fails(1, "annotate", "cli_hot_a", "a.ringside", "--disassemble", env=nothing)
        self.assertRegex(error, "objdump is not installed\nhint: .*binutils")
        text = self.annotate("cli_hot_a", env=nothing)
        self.assertRegex(text, r"(?m)^ 70\.0 %   70\.0 % +\?$")
        self.assertIn("objdump is not installed\nIt is in the package binutils.\n", text)
        code = json.loads(self.annotate("cli_hot_a", "--format=json", env=nothing))["code"][0]
        self.assertEqual((code["error"], code["instructions"]), ("objdump is not installed", []))
        self.assertIn("is in no file", self.fails(1, "annotate", "evil*", "a.ringside", "--disassemble"))
        self.assertIn("No sample is in nosuch", self.fails(1, "annotate", "nosuch", "a.ringside", "--disassemble"))
        for options in (), ("--format=json",):
            text = self.annotate("*", "--disassemble", *options)
            self.assert_harmless(text)
            if not options:
                self.assert_narrow(text)

    def test_symbolize_unread(self):
        """What is compressed in a way that libelf cannot read: here, in one that only a header claims."""
        copy = self.path("compressed")
        with sqlite3.connect(self.path("a.ringside")) as db:
            path, = db.execute("SELECT CAST(path AS TEXT) FROM file WHERE CAST(path AS TEXT) LIKE '%/make-recording'").fetchone()
            db.execute("UPDATE file SET path=CAST(? AS BLOB) WHERE CAST(path AS TEXT)=?", (copy, path))
        subprocess.run(["objcopy", "--compress-debug-sections=zlib", path, copy], check=True)
        with open(copy, "r+b") as f:
            header = f.read(64)
            sections, size, n = *struct.unpack_from("<Q", header, 40), *struct.unpack_from("<HH", header, 58)
            for i in range(n):
                f.seek(sections + i * size)
                flags, _, offset = struct.unpack_from("<QQQ", f.read(size), 8)
                if flags & 0x800:  # SHF_COMPRESSED
                    f.seek(offset)
                    f.write(struct.pack("<I", 2))
        text = self.ok("symbolize", "a.ringside", env={"XDG_CACHE_HOME": self.path("")})
        self.assertRegex(text, r"\A0 of \d+ places have a line now\n.*  1 file compressed with zstd, which this libelf does not read\n")
        self.assert_narrow(text)

    def test_annotate_sources(self):
        """What is no file, or not there, or harmful."""
        self.ok("symbolize", "a.ringside", env={"XDG_CACHE_HOME": self.path("")})
        line = json.loads(self.annotate("cli_hot_a", "--format=json"))["lines"][0]["line"]
        os.mkfifo(self.path("fifo"))
        with open(self.path("evil"), "w") as f:
            f.write("\033[2J\u202e\tx\0y" * 200 + "\n" * (line - 1) + "\t\033[31mred\n")
        with open(self.path("short"), "w") as f:
            f.write("one\ntwo")
        for name, says in {"fifo": "not here", "nosuch": "not here", ".": "not here", "/proc/version": "not here", "evil": f"{line}          \\x1b[31mred\n", "short": "newer than"}.items():
            with sqlite3.connect(self.path("a.ringside")) as db:
                db.execute("UPDATE source SET path=CAST(? AS BLOB)", (self.path(name),))
                db.execute("UPDATE meta SET value='1000000000' WHERE key='start_realtime'")
            for options in ("", "--format=json"):
                text = self.annotate("cli_hot_a", *options.split())
                self.assert_harmless(text)
                if not options:
                    self.assert_narrow(text)
                    self.assertIn(says, text)

    def test_unwind(self):
        text = self.report("--unwind")
        self.assertRegex(text, r"(?m)^ 12\.0 % +120  no frame pointer +/.*/make-recording$")
        self.assertRegex(text, r"(?m)^  8\.0 % +80  no rule +/.*/make-recording$")
        self.assert_harmless(text)
        self.assert_narrow(text)
        self.assertIn("1 more left out", self.report("--unwind", "--limit=1"))
        self.assertIn("1 more left out", self.report("--unwind", "--threshold=9"))
        none = self.report("--unwind", "--threshold=50")
        self.assertIn("2 more left out", none)
        self.assertNotIn("where the stack ends", none) # no head over nothing
        guessed = r"\n\n50 samples \({} %\) partly by frame pointers: there [^.]*\. That [^.]*\.\n$"
        self.assertRegex(text, guessed.format(r"5\.0"))
        self.assertNotIn("partly", self.report("--unwind", "--thread=worker"))
        whole = self.report("--unwind", "--thread=[!w]*")
        self.assertRegex(whole, r"Every stack reached its start\." + guessed.format(r"6\.2"))
        self.assert_narrow(whole)
        d = json.loads(self.report("--unwind", "--format=json"))
        self.assertEqual(d["by"], "unwind")
        self.assertEqual([(t["reason"], t["samples"], t["kernel"]) for t in d["truncations"]],
                         [("bad_frame_pointer", 120, False), ("no_rule", 80, False)])
        self.assertTrue(all(t["file"].endswith("/make-recording") and t["weight"] > 0 for t in d["truncations"]))
        self.assertEqual(d["guessed"], 50)
        self.assertEqual(json.loads(self.report("--unwind", "--format=json", "--limit=1"))["left_out"], 1)

    def test_tables_said(self):
        """What of the tables could not be had, where anything could not; also of what a filter leaves out."""
        self.assertNotRegex(self.report("--unwind"), "room|malformed")
        self.assertEqual(json.loads(self.report("--format=json"))["recording"]["tables_no_room"], 0)
        db = sqlite3.connect(self.path("a.ringside"))
        db.execute("INSERT INTO counter VALUES ('tables_refused', 3), ('tables_no_room', 5), ('rules_no_room', 7), "
                   "('processes_no_room', 9), ('tables_lost', 11)")
        db.commit()
        db.close()
        for args in ([], ["--thread=[!w]*"]):
            text = self.report("--unwind", *args)
            self.assertRegex(text, r"(?s)\n\n3 files have .*\n\n5 times .*--table-size.*\n\n7 rules .*unsupported\.\n\n9 times .*\n\n11 .*\n$")
            self.assert_narrow(text)
        recording = json.loads(self.report("--unwind", "--format=json"))["recording"]
        keys = ("tables_refused", "tables_no_room", "rules_no_room", "processes_no_room", "tables_lost")
        self.assertEqual([recording[k] for k in keys], [3, 5, 7, 9, 11])

    def test_names_refused_said(self):
        self.assertNotIn("no names", self.report())
        self.assertEqual(json.loads(self.report("--format=json"))["recording"]["names_refused"], 0)
        with sqlite3.connect(self.path("a.ringside")) as db:
            db.execute("INSERT INTO meta VALUES ('names_refused', '3')")
        text = self.report()
        self.assertIn("3 files have no names, or not all: they are damaged, too large, gone, changed, or not yours to read.",
                      " ".join(text.split()))
        self.assert_narrow(text)
        self.assertEqual(json.loads(self.report("--format=json"))["recording"]["names_refused"], 3)

    def test_guessed_in_header(self):
        db = sqlite3.connect(self.path("a.ringside"))
        db.execute("UPDATE meta SET value='table' WHERE key='unwind'")
        db.commit()
        text = self.report()
        self.assertRegex(text, r"(?m)^Stacks +by unwind tables; 50 samples \(5\.0 %\) partly by frame pointers$")
        self.assert_narrow(text)
        self.assertRegex(self.report("--thread=worker"), "(?m)^Stacks +by unwind tables$")
        db.execute("UPDATE sample SET walk_end = walk_end & 15")
        db.commit()
        db.close()
        self.assertRegex(self.report(), "(?m)^Stacks +by unwind tables$")
        self.assertEqual(json.loads(self.report("--format=json"))["guessed"], 0)

    def test_no_colour_without_terminal(self):
        self.assertNotIn("\033", self.report())
        self.report("-o", "out.txt")
        with open(self.path("out.txt"), encoding="utf-8") as f:
            self.assertEqual(f.read(), self.report())

    def test_terminal(self):
        env = {"PAGER": "cat"}
        text, status = on_terminal(self, ["report", "a.ringside"], env)
        self.assertEqual(status, 0)
        self.assertIn("\033[1m", text)
        text, _ = on_terminal(self, ["report", "a.ringside"], {**env, "NO_COLOR": "1"})
        self.assertNotIn("\033", text)
        text, _ = on_terminal(self, ["report", "a.ringside"], {**env, "TERM": "dumb"}, columns=60)
        self.assertNotIn("\033", text)

    def test_pager(self):
        pager = self.path("pager")
        with open(pager, "w") as f:
            f.write("#!/bin/sh\necho PAGED $1\nexec cat\n")
        os.chmod(pager, 0o755)
        text, status = on_terminal(self, ["report", "a.ringside"], {"PAGER": pager + " --option"})
        self.assertEqual(status, 0)
        self.assertIn("PAGED --option", text)
        self.assertIn("cli_hot_a", text)
        for args in (["--no-pager"], ["--format=json"], ["-o", "-"]):
            text, _ = on_terminal(self, ["report", *args, "a.ringside"], {"PAGER": pager})
            self.assertNotIn("PAGED", text)
        self.assertNotIn("PAGED", self.report(env={"PAGER": pager}))
        # A pager that is missing costs nothing, one that is left early is no failure.
        text, status = on_terminal(self, ["report", "a.ringside"], {"PAGER": "no-such-pager"})
        self.assertIn("cli_hot_a", text)
        self.assertEqual(on_terminal(self, ["report", "a.ringside"], {"PAGER": "true"})[1], 0)

    def test_output_files(self):
        for args in (["report"], ["report", "--format=json"], ["flamegraph"], ["export", "--format=collapsed"],
                     ["export", "--format=pprof"]):
            direct = self.run_cli(*args, "-o", "-", "a.ringside")
            self.assertEqual(direct.returncode, 0, direct.stderr)
            self.ok(*args, "-o", "out", "a.ringside")
            with open(self.path("out"), "rb") as f:
                self.assertEqual(f.read(), direct.stdout)
            self.fails(1, *args, "-o", "/nonexistent/out", "a.ringside")
            self.fails(1, *args, "-o", "a.ringside", "a.ringside")
            self.fails(1, *args, "-o", ".", "a.ringside")
            self.assertIn("No space left on device", self.fails(1, *args, "-o", "/dev/full", "a.ringside"))
        self.assertEqual(sorted(os.listdir(self.dir)), ["a.ringside", "out"])
        self.report()

    def test_collapsed(self):
        lines = self.ok("export", "--format=collapsed", "a.ringside").splitlines()
        self.assertEqual(lines, sorted(lines))
        self.assertEqual(sum(int(l.rsplit(" ", 1)[1]) for l in lines), 1000)
        self.assertTrue(any(l.endswith("cli_caller;cli_hot_a 700") for l in lines), lines)
        self.assert_harmless("\n".join(lines))

    def test_pprof_not_on_a_terminal(self):
        text, status = on_terminal(self, ["export", "--format=pprof", "a.ringside"])
        self.assertEqual(status, 1)
        self.assertIn("-o FILE", text)

    def test_flamegraph(self):
        p = self.run_cli("flamegraph")
        self.assertEqual(p.returncode, 0, p.stderr)
        self.assertIn("a.html", p.stderr.decode())
        with open(self.path("a.html"), encoding="utf-8") as f:
            self.assertIn("cli_hot_a", f.read())

    def test_flamegraph_default_name_is_planted(self):
        """In a directory that others write to: nothing of ours is overwritten, nothing waited for."""
        with open(self.path("precious"), "w") as f:
            f.write("precious")
        for plant in (lambda p: os.symlink("precious", p), os.mkfifo):
            plant(self.path("a.html"))
            error = self.fails(1, "flamegraph", "a.ringside")
            self.assertIn("a.html is there already", error)
            self.assertIn("-o FILE", error)
            os.unlink(self.path("a.html"))
        with open(self.path("precious")) as f:
            self.assertEqual(f.read(), "precious")
        # Who names it means it.
        os.symlink("precious", self.path("a.html"))
        self.ok("flamegraph", "-o", "a.html", "a.ringside")
        self.assertTrue(os.path.islink(self.path("a.html")))
        with open(self.path("precious"), encoding="utf-8") as f:
            self.assertIn("cli_hot_a", f.read())

    def test_flamegraph_thread(self):
        self.ok("flamegraph", "--thread", "worker", "-o", "worker.html", "a.ringside")
        with open(self.path("worker.html"), encoding="utf-8") as f:
            page = f.read()
        self.assertIn("cli_hot_b", page)
        self.assertNotIn("cli_hot_a", page)
        self.assertIn("no samples", self.fails(1, "flamegraph", "--thread", "nosuch", "-o", "nosuch.html", "a.ringside"))
        self.assertFalse(os.path.exists(self.path("nosuch.html")))

    def test_flamegraph_open(self):
        bin_dir = self.path("bin")
        os.mkdir(bin_dir)
        env = {"PATH": bin_dir}
        self.assertIn("a.html", self.fails_with_note("flamegraph", "--open", "a.ringside", env=env))
        with open(os.path.join(bin_dir, "xdg-open"), "w") as f:
            f.write(f"#!/bin/sh\necho \"$1\" > {self.dir}/opened\n")
        os.chmod(os.path.join(bin_dir, "xdg-open"), 0o755)
        self.ok("flamegraph", "--open", "a.ringside", env=env)
        with open(self.path("opened")) as f:
            self.assertEqual(f.read().strip(), os.path.realpath(self.path("a.html")))

    def fails_with_note(self, *args, **kw):
        p = self.run_cli(*args, **kw)
        self.assertEqual(p.returncode, 1)
        self.assertIn("xdg-open", p.stderr.decode())
        return p.stderr.decode().split("hint:")[1]

    def test_rows_that_share_pages(self):
        """Fifty names of 244 KiB that are all the first one's, in a file of 1.3 MB: what one keeps is no more than a file has."""
        def varint(n):
            return bytes([n >> 14 | 128, n >> 7 & 127 | 128, n & 127])

        few, more = 20000, 20000 + 1020 * 225 # both leave as many bytes in the row's own page
        with contextlib.closing(sqlite3.connect(self.path("a.ringside"))) as db:
            first = db.execute("SELECT max(id) + 1 FROM function").fetchone()[0]
            self.assertEqual(db.execute("PRAGMA page_size").fetchone()[0], 1024)
            for i in range(50):
                mark = b"mark%04d" % i
                db.execute("INSERT INTO function VALUES(?, NULL, 0, 0, ?)", (first + i, mark + bytes((few if i else more) - len(mark))))
            db.commit()
        self.report()
        with open(self.path("a.ringside"), "r+b") as f:
            data = bytearray(f.read())
            for i in range(50):
                at = data.index(b"mark%04d" % i) - 8 # the record: its header has 8 bytes
                size = 8 + (few if i else more)
                head = varint(size) + bytes([first + i])
                self.assertEqual(data[at - len(head):at], head)
                chain = at + 104 + (size - 104) % 1020 # what does not lie in the row's page
                if i == 0:
                    pages = data[chain:chain + 4]
                data[at - len(head):at] = varint(8 + more) + bytes([first + i])
                data[at + 5:at + 8] = varint(2 * more + 12)
                data[chain:chain + 4] = pages
            f.seek(0)
            f.write(data)
        with contextlib.closing(sqlite3.connect(self.path("a.ringside"))) as db:
            n = db.execute("SELECT sum(length(name)) FROM function").fetchone()[0]
        self.assertGreater(n, 5 * len(data))
        self.assertIn("a row in it makes no sense", self.fails(1, "report", "a.ringside"))

    def test_wide_tree(self):
        """For a program a tree of 180,000 nodes takes no more memory than for a reader, and as many bytes as it needs."""
        subprocess.run([MAKE_RECORDING, self.path("w.ringside"), "wide"], check=True, env=self.env)
        used = {}
        for form in "text", "json":
            with open(self.path(form), "wb") as f:
                p = subprocess.Popen([RINGSIDE, "report", "--by=callees", "--threshold=0", f"--format={form}", "w.ringside"],
                                     cwd=self.dir, env=self.env, stdout=f)
                _, p.returncode, usage = os.wait4(p.pid, 0)
            self.assertEqual(p.returncode, 0)
            used[form] = usage.ru_maxrss
        with open(self.path("json"), encoding="utf-8") as f:
            text = f.read()
        root, functions = json.loads(text)["tree"], {}
        self.check_node(root, functions)
        self.assertEqual((root["total_samples"], functions["cli_hot_a"]), (2047, 2047))
        n = text.count('"children"')
        self.assertGreater(n, 150000)
        self.assertLess(len(text), 300 * n)
        self.assertLess(used["json"], 1.5 * used["text"], used)

    def test_empty(self):
        subprocess.run([MAKE_RECORDING, self.path("e.ringside"), "empty"], check=True, env=self.env)
        self.assertIn("no samples", self.ok("report", "e.ringside"))
        self.assertEqual(json.loads(self.ok("report", "--format=json", "e.ringside"))["rows"], [])
        self.assertIn("no samples", self.fails(1, "flamegraph", "e.ringside"))


class FakeTest(CliTest):
    def setUp(self):
        super().setUp()
        self.env["LD_PRELOAD"] = FAKE_SESSION
        self.env["FAKE_LOG"] = self.path("log")

    def recordings(self):
        return sorted(f for f in os.listdir(self.dir) if ".ringside" in f)

    def log(self):
        with open(self.path("log")) as f:
            return f.read()

    def wait_for(self, line, process):
        """Until this is in the log of a program that runs."""
        end = time.monotonic() + PATIENCE
        while not os.path.exists(self.path("log")) or line + "\n" not in self.log():
            self.assertIsNone(process.poll())
            self.assertLess(time.monotonic(), end, line)
            time.sleep(0.02)

    def spawn(self, *args, **kwargs):
        """`ringside record` in the background."""
        return subprocess.Popen([RINGSIDE, "record", *args], cwd=self.dir, stdin=subprocess.DEVNULL, env=self.env, **kwargs)

    def outlives(self, before=""):
        """A command that goes on until let_go(), and closes stderr, or we would wait for it at the end of that pipe."""
        self.addCleanup(self.let_go)
        loop = "i=0; while [ $i -lt 6000 ] && [ ! -e go ]; do sleep 0.1; i=$((i + 1)); done; touch gone"
        return "sh", "-c", f"exec 2>&-; {before} touch up; {loop}"

    def let_go(self):
        """Nothing of such a command is left afterwards."""
        with open(self.path("go"), "w"):
            pass
        self.wait_for_file("gone")

    def wait_for_file(self, name):
        end = time.monotonic() + PATIENCE
        while not os.path.exists(self.path(name)):
            self.assertLess(time.monotonic(), end, name)
            time.sleep(0.02)

    def waiting(self):
        """A process that ends when its standard input does."""
        p = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
        self.addCleanup(p.wait)
        self.addCleanup(p.kill)
        self.addCleanup(p.stdin.close)
        return p


class Lists(FakeTest):
    def test_events(self):
        text = self.ok("events")
        self.assertRegex(text, r"(?m)^cpu-clock +software +ns +yes$")
        self.assertIn("no PMU", text)
        self.assert_harmless(text)
        self.assert_narrow(text)
        events = json.loads(self.ok("events", "--format=json"))["events"]
        self.assertEqual([e["available"] for e in events], [True, False])
        self.assertIn("start one", self.fails(1, "events", env={"FAKE_LIST": "no-bus"}))

    def test_output(self):
        """-o as everywhere."""
        for args, status in ((["events"], 0), (["events", "--format=json"], 0), (["doctor"], 1), (["doctor", "--format=json"], 1)):
            direct = self.run_cli(*args, "-o", "-")
            p = self.run_cli(*args, "-o", "out")
            self.assertEqual((p.returncode, p.stdout), (status, b""), p.stderr)
            with open(self.path("out"), "rb") as f:
                self.assertEqual(f.read(), direct.stdout)
            self.assertGreater(len(direct.stdout), 100)
            self.fails(1, *args, "-o", "/nonexistent/out")
            self.fails(1, *args, "-o", "/dev/full")
            self.fails(2, *args, "-o", "")

    def test_doctor(self):
        p = self.run_cli("doctor")
        self.assertEqual(p.returncode, 1)
        text = p.stdout.decode()
        self.assertRegex(text, r"(?m)^OK +kernel ")
        self.assertRegex(text, r"(?m)^note +pmu ")
        self.assertRegex(text, r"(?m)^FAILED +bus ")
        self.assertEqual(len(re.findall("-> ", text)), 3)
        self.assert_narrow(text)
        self.assertIn("Nothing failed", self.ok("doctor", env={"FAKE_CHECK": "fine"}))
        p = self.run_cli("doctor", "--format=json")
        self.assertEqual(p.returncode, 1)
        self.assertEqual([c["result"] for c in json.loads(p.stdout)["checks"]], ["ok", "note", "failed"])


class Example(FakeTest):
    """The library's own example, docs/example.c."""

    def test_runs(self):
        child = subprocess.Popen(["sleep", "1000"])
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        p = subprocess.run([EXAMPLE, str(child.pid), "0.6"], env=self.env, capture_output=True, timeout=PATIENCE)
        self.assertEqual(p.returncode, 0, p.stderr)
        self.assertRegex(p.stdout.decode(), r"^\d+ samples taken, 0 lost\n[ 0-9]+\.\d %  ")
        p = subprocess.run([EXAMPLE], env={**self.env, "FAKE_OPEN": "denied"}, capture_output=True, timeout=PATIENCE)
        self.assertEqual(p.returncode, 1)
        self.assertIn(b"polkit refused", p.stderr)


class Recording(FakeTest):
    def record(self, *args, status=0, **kw):
        p = self.run_cli("record", *args, **kw)
        self.assertEqual(p.returncode, status, p.stderr.decode(errors="replace"))
        return p

    def info(self, name=None):
        return json.loads(self.ok("report", "--format=json", name or self.recordings()[-1]))["recording"]

    def test_status_is_passed_through(self):
        p = self.record("--", "sh", "-c", "echo out; echo err >&2; exit 7", status=7)
        self.assertEqual(p.stdout, b"out\n")
        self.assertIn(b"err\n", p.stderr)
        self.record("--", "sh", "-c", "kill -9 $$", status=137)
        self.record("--", "sh", "-c", "kill -TERM $$", status=143)
        self.record("true")
        self.assertEqual(self.info()["exit_status"], 0)

    def test_not_found_not_runnable(self):
        self.assertIn("nosuch", self.fails(127, "record", "--", "nosuch"))
        self.assertIn("no such file", self.fails(127, "record", "--", "./nosuch"))
        self.assertIn("''", self.fails(127, "record", "--", ""))
        self.assertIn("chmod", self.fails(126, "record", "--", "/etc/passwd"))
        self.fails(126, "record", "--", "/")
        # What would help, and only where it would.
        with open(self.path("a-script"), "w") as f:
            f.write("#!/no/such/interpreter\n")
        os.chmod(self.path("a-script"), 0o755)
        self.assertNotIn("needs its path", self.fails(127, "record", "--", "nosuch"))
        self.assertIn("as in ./program", self.fails(127, "record", "--", "a-script"))
        self.assertIn("interpreter is missing", self.fails(126, "record", "--", "./a-script"))
        self.assertEqual(self.recordings(), [])

    @unittest.skipIf(os.geteuid() != 0, "it takes another user whom the directory refuses")
    def test_not_found_beside_a_closed_directory(self):
        """The search through PATH meets a refusal, but the program is nowhere, as for a shell."""
        os.mkdir(self.path("closed"), 0o700)
        os.chmod(self.dir, 0o777)
        env = {"PATH": f"{self.path('closed')}:/usr/bin:/bin"}
        self.assertIn("command not found", self.fails(127, "record", "--", "nosuch", env=env, user=65534))

    def test_refused_means_not_run(self):
        for env in ({"FAKE_OPEN": "denied"}, {"FAKE_START": "refused"}, {"FAKE_TARGET": "gone"}):
            self.fails(125, "record", "--", "touch", "ran", env=env)
            self.fails(1, "record", "-d", "1", "-p", str(os.getpid()), env=env)
        # What could be had nowhere is wrong usage.
        for args in (["-e", "nosuch", "--", "touch", "ran"], ["-e", "nosuch", "-d", "1"]):
            self.fails(2, "record", *args)
        self.fails(2, "record", "--", "touch", "ran", env={"FAKE_OPEN": "invalid"})
        self.assertFalse(os.path.exists(self.path("ran")))
        self.assertEqual(self.recordings(), [])
        self.assertIn("hint: second line", self.fails(125, "record", "true", env={"FAKE_OPEN": "denied"}))

    def test_names(self):
        self.record("--", "/bin/true")
        self.assertRegex(self.recordings()[0], r"^ringside-true-\d{8}-\d{6}\.ringside$")
        for _ in range(3):
            self.record("-q", "true")
        self.assertEqual(len(self.recordings()), 4)
        self.record("-o", "mine", "true")
        self.assertEqual(self.info("mine")["finished"], True)
        self.assertIn("exists", self.fails(125, "record", "-o", "mine", "--", "true"))
        self.record("-d", "0.1")
        self.assertTrue(any(r.startswith("ringside-all-") for r in self.recordings()))

    def test_unwritable(self):
        self.assertIn("-o", self.fails(125, "record", "-o", "/nonexistent/x", "--", "touch", "ran"))
        self.assertFalse(os.path.exists(self.path("ran")))
        if os.geteuid() != 0:
            os.chmod(self.dir, 0o500)
            self.assertIn("-o", self.fails(125, "record", "--", "true"))
            os.chmod(self.dir, 0o700)

    def test_taken_away_meanwhile(self):
        """What is not there at the end is no success, whatever is there in its place."""
        for name, command, words in (("removed", "rm removed", "removed while it was written, and is lost"),
                                     ("replaced", "rm replaced; touch replaced", "and is lost"),
                                     ("moved", "mv moved there", "moved away"),
                                     ("linked", "mv linked here; ln -s here linked", "moved away")):
            for quiet in ([], ["-q"]):
                error = self.fails(125, "record", *quiet, "-o", name, "--", "sh", "-c", command)
                self.assertIn(words, error)
                self.assertNotIn("Next:", error)
                if "away" in words:
                    place = self.path(command.split()[2].rstrip(";"))
                    self.assertIn(f"hint: it is {os.path.realpath(place)} now", error)
                    self.assertTrue(self.info(place)["finished"])
                for left in "replaced", "there", "here", "linked":
                    if os.path.lexists(self.path(left)):
                        os.unlink(self.path(left))
        self.fails(1, "record", "-q", "-o", "pid", "-p", str(self.short_lived("rm", "pid")))

    def short_lived(self, *command):
        """The PID of a process that waits until there is a recording, and then does that."""
        script = f"while [ ! -e {command[1]} ]; do sleep 0.1; done; {' '.join(command)}"
        p = subprocess.Popen(["sh", "-c", script], cwd=self.dir)
        self.addCleanup(p.wait)
        self.addCleanup(p.kill)
        return p.pid

    def test_options_arrive(self):
        self.record("-F", "777", "-e", "cpu-clock", "-e", "cpu-cycles/5000", "--ring-size=1M", "--max-frames=9",
                    "--helper=direct", "--no-inherit", "--", "true")
        log = self.log()
        for line in ("helper 2", "event cpu-clock hz 777", "event cpu-cycles period 5000", "ring 1048576", "frames 9",
                     "interactive 0", "targeted 1"):
            self.assertIn(line + "\n", log)
        self.assertRegex(log, r"target \d+ flags 3\n")
        os.unlink(self.path("log"))
        self.record("-d", "0.1")
        self.assertIn("targeted 0\n", self.log())

    def test_no_servers(self):
        """What was fetched is used, but nobody is asked: that may take long."""
        self.record("--", "true", env={"DEBUGINFOD_URLS": "http://127.0.0.1:1"})
        self.assertIn("servers ''\n", self.log())

    def test_unwind(self):
        """By tables, unless something else is asked for."""
        self.record("--", "true")
        self.assertIn("table 16777216\n", self.log())
        self.record("-o", "all", "-a", "--", "true")
        self.assertIn("table 33554432\n", self.log())
        os.unlink(self.env["FAKE_LOG"])
        self.record("-o", "fp", "--unwind=fp", "--", "true")
        self.assertIn("table 0\n", self.log())

    def test_memory(self):
        """With less where there is less, down to frame pointers and a small ring, and not in silence; but not less than was named."""
        def sizes(left, *options, fails=False, **env):
            if os.path.exists(self.env["FAKE_LOG"]):
                os.unlink(self.env["FAKE_LOG"])
            env = {**({"FAKE_LEFT": str(int(left * 1048576))} if left else {}), **env}
            command = ["record", "-o", f"{time.monotonic_ns()}.ringside", *options, "--", "true"]
            if fails:
                self.assertIn("its hint", self.fails(125, *command, env=env))
                return None
            text = self.record(*command[1:], env=env).stderr.decode()
            self.assert_narrow(text)
            tried = re.findall(r"(?m)^(?:ring|table) (\d+)$", self.log())
            said = re.search("(?m)^Memory for sessions is short: recording as with (.*)$", text)
            return said[1] if said else None, len(tried)

        self.assertEqual(sizes(27), (None, 1))
        # No more than half of what there is,
        self.assertEqual(sizes(26)[0], "--table-size=8M --ring-size=2M")
        self.assertEqual(sizes(18)[0], "--table-size=4M --ring-size=2M")
        self.assertEqual(sizes(14)[0], "--unwind=fp --ring-size=2M")
        self.assertEqual(sizes(9)[0], "--unwind=fp --ring-size=1M")
        # but for the least there is; at once, without as many questions as there are steps.
        self.assertEqual(sizes(4), ("--unwind=fp --ring-size=1M", 3))
        self.assertEqual(sizes(3.5), ("--unwind=fp --ring-size=1M", 3))
        sizes(3, fails=True)
        # What was named stays.
        self.assertEqual(sizes(14, "--table-size=4M")[0], "--ring-size=1M")
        self.assertEqual(sizes(14, "--ring-size=4M")[0], "--unwind=fp")
        self.assertEqual(sizes(12, "--unwind=table")[0], "--table-size=4M --ring-size=1M")
        sizes(7, "--unwind=table", fails=True)
        sizes(13, "--table-size=16M", fails=True)
        sizes(14, "--ring-size=8M", "--table-size=4M", fails=True)
        sizes(10, "--unwind=fp", "--ring-size=8M", fails=True)
        # Not told how much: step by step.
        self.assertEqual(sizes(0, FAKE_OPEN="memory"), ("--unwind=fp --ring-size=2M", 11))
        self.assertEqual(sizes(0, "-q", FAKE_OPEN="memory")[0], None)
        sizes(0, fails=True, FAKE_OPEN="rate")

    def test_unwind_said(self):
        for state, json_state, line in (("table", "table", "by unwind tables"), ("fp", "fp", "by frame pointers"),
                                        ("frame-pointer", "fp", "by frame pointers")):
            path = self.path(f"{state}.ringside")
            self.record("-q", "-o", path, "--", "sleep", "0.6", env={"FAKE_BAD_FP": "1"})
            db = sqlite3.connect(path)
            db.execute("UPDATE meta SET value=? WHERE key='unwind'", (state,))
            db.commit()
            db.close()
            text = self.ok("report", path)
            self.assertRegex(text, rf"(?m)^Stacks +{line}$")
            # Where there are tables, frame pointers are no help.
            (self.assertNotIn if state == "table" else self.assertIn)("-fno-omit-frame-pointer", text)
            self.assertEqual(self.info(path)["unwind"], json_state)

    def test_scope_and_kernel(self):
        self.record("-q", "-d", "0.3")
        self.assertIn("kernel 0\nscope 0\ntargeted 0\n", self.log())
        os.unlink(self.env["FAKE_LOG"])
        # With --all the command says for how long, and is no target.
        self.record("-q", "-a", "--kernel", "--", "true")
        self.assertIn("kernel 1\nscope 1\ntargeted 0\n", self.log())
        self.assertNotIn("target ", self.log())
        os.unlink(self.env["FAKE_LOG"])
        sleeper = subprocess.Popen(["sleep", "1000"])
        self.addCleanup(sleeper.wait)
        self.addCleanup(sleeper.kill)
        self.record("-q", "-a", "--no-kernel", "-d", "0.3", "-p", str(sleeper.pid))
        self.assertIn("kernel 2\nscope 1\ntargeted 1\n", self.log())
        self.assertIn(f"target {sleeper.pid} ", self.log())

    def test_kernel_said(self):
        """Not granted, hidden, or not wanted: said in the header."""
        for state, line in (("denied", "not granted; --kernel asks"), ("no names", "kernel.kptr_restrict"),
                            ("not asked", "--no-kernel"), ("yes", None)):
            path = self.path(f"kernel-{state.replace(' ', '-')}.ringside")
            self.record("-q", "-o", path, "-d", "0.3")
            db = sqlite3.connect(path)
            db.execute("UPDATE meta SET value=? WHERE key='kernel_frames'", (state,))
            db.execute("UPDATE meta SET value='system' WHERE key='scope'")
            db.commit()
            db.close()
            text = self.ok("report", path)
            self.assertRegex(text, r"(?m)^Scope +every process")
            if line:
                self.assertRegex(text, rf"(?m)^Kernel +.*{re.escape(line)}")
            else:
                self.assertNotRegex(text, r"(?m)^Kernel ")
            report = json.loads(self.ok("report", "--format=json", path))
            self.assertEqual(report["recording"]["kernel_frames"], state)
            self.assertEqual(report["recording"]["scope"], "system")

    def test_hidden_is_said(self):
        """Neither that it used no CPU time, which nobody knows, nor that more samples would help."""
        for program, words in (("hidden", "the program that was run is not yours to see"),
                               ("leaves", "what was recorded became a program that is not yours to see")):
            p = self.record("-o", program, "--", "true", env={"FAKE_PROGRAM": program})
            for text in p.stderr.decode(), self.ok("report", program):
                self.assertIn(words, " ".join(text.split()))
                self.assertIn("setuid", text)
                self.assertNotIn("CPU time", text)
                self.assert_narrow(text)

    def test_waits_for_descendants(self):
        start = time.monotonic()
        self.record("--", "true", env={"FAKE_CHILD_MS": "1000"})
        self.assertGreater(time.monotonic() - start, 0.9)
        self.record("--no-wait", "--", "true", env={"FAKE_CHILD_MS": "1000000"})

    def test_duration_leaves_the_command(self):
        self.record("-d", "0.3", "--", *self.outlives(), stdout=subprocess.DEVNULL)
        self.assertFalse(os.path.exists(self.path("gone")))
        self.let_go()

    def test_what_goes_on_is_named(self):
        p = self.record("-d", "0.3", "--", *self.outlives("echo $$ > pid; "), stdout=subprocess.DEVNULL)
        self.wait_for_file("up")
        with open(self.path("pid")) as f:
            self.assertIn(f"sh goes on, as process {f.read().strip()}\n", p.stderr.decode())
        self.assertNotIn("goes on", self.record("-o", "ended", "-d", "100", "--", "true").stderr.decode())

    def test_pids(self):
        a, b = self.waiting(), self.waiting()
        recorder = self.spawn("-q", "-p", f"{a.pid},{b.pid}")
        self.wait_for("start", recorder)
        a.stdin.close()
        a.wait()
        # More than it takes to look for the other.
        time.sleep(0.5)
        self.assertIsNone(recorder.poll())
        b.stdin.close()
        self.assertEqual(recorder.wait(PATIENCE), 0)
        self.assertIn(f"{a.pid}", self.fails(1, "record", "-p", str(a.pid)))

    def test_thread(self):
        # Its process lives on.
        p = subprocess.Popen([sys.executable, "-c", THREAD], stdout=subprocess.PIPE, stdin=subprocess.PIPE)
        tid = p.stdout.readline().decode().strip()
        recorder = self.spawn("-q", "-t", tid)
        self.wait_for(f"target {p.pid} flags 2", recorder)
        self.assertIn(f"thread {tid}\n", self.log())
        p.stdin.write(b"x\n")
        p.stdin.flush()
        self.assertEqual(recorder.wait(PATIENCE), 0)
        self.assertIsNone(p.poll())
        p.kill()
        p.wait()
        p.stdin.close()
        p.stdout.close()
        self.assertEqual(self.info()["targets"], [f"thread {tid}"])
        self.assertIn("there is none", self.fails(1, "record", "-t", tid))

    def test_thread_that_ends_meanwhile(self):
        """Its number may be another's by the time the session looks: that one is not recorded in its place."""
        p = subprocess.Popen([sys.executable, "-c", THREAD], stdout=subprocess.PIPE, stdin=subprocess.PIPE)
        self.addCleanup(p.stdout.close)
        self.addCleanup(p.stdin.close)
        self.addCleanup(p.wait)
        self.addCleanup(p.kill)
        tid = p.stdout.readline().decode().strip()
        self.env["FAKE_TARGET"] = "slow"
        recorder = self.spawn("-d", "1", "-t", tid, stderr=subprocess.PIPE)
        self.wait_for(f"thread {tid}", recorder)
        p.stdin.write(b"x\n")
        p.stdin.flush()
        said = recorder.communicate(timeout=PATIENCE)[1].decode()
        self.assertEqual(recorder.returncode, 1)
        self.assertIn(f"Thread {tid} ended before it could be recorded", said)
        self.assertFalse(os.path.exists(self.path("x.ringside")))

    def test_labels_and_targets(self):
        a, b = self.waiting(), self.waiting()
        recorder = self.spawn("-q", "-p", f"{a.pid},{b.pid}", "--label", "job=7", "--label", "host=\033[31mweb=1")
        self.wait_for("start", recorder)
        # Its session takes samples as time goes by.
        time.sleep(0.4)
        for p in a, b:
            p.stdin.close()
        self.assertEqual(recorder.wait(PATIENCE), 0)
        info = self.info()
        self.assertEqual(info["targets"], [f"process {a.pid}", f"process {b.pid}"])
        self.assertEqual(sorted(info["labels"]), ["host=\\x1b[31mweb=1", "job=7"])
        text = self.ok("report", "--by=target")
        self.assertIn(f"process {a.pid}", text)
        self.assertIn("job=7", text)
        self.assert_harmless(text)

    def test_no_such_cgroup(self):
        for path in ("/no/such/cgroup", "no-such", "/sys/fs/cgroup/no/such"):
            self.assertRegex(self.fails(1, "record", "--cgroup", path), "no such cgroup|no hierarchy of cgroups")
        self.assertRegex(self.fails(1, "record", "--cgroup=../../../etc"), "is not a cgroup|no such|no hierarchy")

    def test_session_that_ends(self):
        p = self.record("--", "sh", "-c", "sleep 1; touch done", status=125, env={"FAKE_END_MS": "100"})
        self.assertIn("The helper ended the session", p.stderr.decode())
        self.assertIn("What was recorded is kept; waiting for the command", p.stderr.decode())
        self.assertNotIn("yours to see", p.stderr.decode())
        self.assertTrue(os.path.exists(self.path("done")))
        self.assertTrue(self.info()["finished"])
        said = r"Sampling ended after [\d.]+ m?s of \d+\.\d s: The helper ended the session\."
        self.assertRegex(self.info()["ended"], f"^{said}$")
        for text in (p.stderr.decode(), self.ok("report")):
            self.assertRegex(text, f"(?m)^{said}$")
        p = self.record("-o", "all", "-d", "20", status=1, env={"FAKE_END_MS": "100"})
        self.assertIn("What was recorded is kept\n", p.stderr.decode())
        self.record("-o", "whole", "--", "true")
        self.assertEqual(self.info("whole")["ended"], "")
        self.assertNotIn("Sampling ended", self.ok("report", "whole"))

    def test_hostile_end(self):
        """Why sampling ended is what the file says."""
        self.record("-q", "-o", "x", "--", "sleep", "0.6")
        db = sqlite3.connect(self.path("x"))
        db.execute("INSERT INTO meta VALUES('ended', '999999999999999')")
        db.execute("INSERT INTO meta VALUES('ended_why', ?)", ("\033[31m</script><script>alert(1)</script>" * 400,))
        db.commit()
        db.close()
        text = self.ok("report", "x")
        self.assertRegex(text, r"(?m)^Sampling ended after 277 h 46 min of 277 h 46 min:\s\\x1b\[31m")
        self.assert_harmless(text)
        self.assert_narrow(text)
        page = self.ok("flamegraph", "-o", "-", "x")
        self.assertTrue('"ended":999999999999999,"endedWhy":"' in page)
        self.assertFalse("<script>alert" in page)

    def test_summary(self):
        p = self.record("--unwind=fp", "--", "sleep", "0.6", env={"FAKE_BAD_FP": "1"})
        text = p.stderr.decode()
        self.assertRegex(text, r"\d+ samples, 0 lost")
        self.assertIn("did not reach their start", text)
        self.assertIn("-fno-omit-frame-pointer", text)
        self.assertIn("Next: ringside report ringside-sleep-", text)
        self.assert_harmless(text)
        self.assert_narrow(text)
        self.assertNotIn("-fno-omit", self.record("--unwind=fp", "--", "sleep", "0.3").stderr.decode())
        self.assertEqual(self.record("-q", "--", "true").stderr, b"")

    def signalled(self, number, args=(), command=("sleep", "1000"), again=False):
        """Sent when there is something to end; again: until it has ended."""
        for name in "log", "up":
            if os.path.exists(self.path(name)):
                os.unlink(self.path(name))
        p = subprocess.Popen([RINGSIDE, "record", *args, *(["--", *command] if command else [])], cwd=self.dir,
                             env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.wait_for("start", p)
        if command and "touch up" in command[-1]:
            self.wait_for_file("up")
        p.send_signal(number)
        while again and p.poll() is None:
            time.sleep(0.2)
            p.send_signal(number)
        err = p.communicate(timeout=PATIENCE)[1].decode()
        self.assertTrue(self.info()["finished"], err)
        return p.returncode, err

    def test_term_and_hup_finish(self):
        self.assertEqual(self.signalled(signal.SIGTERM)[0], 143)
        self.assertEqual(self.signalled(signal.SIGHUP)[0], 129)
        for s in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            self.assertEqual(self.signalled(s, command=None)[0], 0)

    def test_term_does_not_wait_for_ever(self):
        self.assertEqual(self.signalled(signal.SIGTERM, command=self.outlives("trap '' TERM;"))[0], 143)
        self.assertFalse(os.path.exists(self.path("gone")))

    def test_lines_do_not_take_long(self):
        """Within two seconds of a command's end we have returned, however much debug information there is."""
        self.record("true")
        within = int(re.search(r"^lines within (\d+) ms$", self.log(), re.M).group(1))
        self.assertTrue(0 < within <= 1500, within)
        self.env["FAKE_LINES"] = "late"
        self.assertIn("'ringside symbolize' takes as long as it needs", self.record("true").stderr.decode())
        self.assertNotIn("symbolize", self.record("-q", "true").stderr.decode())

    def test_a_signal_ends_the_search_for_lines(self):
        """The recording is whole by then."""
        self.env["FAKE_LINES"] = "hang"
        for number in (signal.SIGINT, signal.SIGTERM):
            with open(self.path("log"), "w"):
                pass
            name = f"{int(number)}.ringside"
            p = self.spawn("-o", name, "--", "sh", "-c", "exit 3", stderr=subprocess.PIPE)
            self.addCleanup(p.kill)
            self.wait_for("symbolize", p)
            p.send_signal(number)
            err = p.communicate(timeout=PATIENCE)[1]
            self.assertEqual(p.returncode, 3, err)
            self.assertIn(name.encode(), err)
            self.assertTrue(self.info(name)["finished"])

    def test_what_is_being_written_is_written(self):
        """Before the signal ends the process that looks up lines: also where ours had it blocked, as what started it had."""
        self.env["FAKE_LINES"] = "write"
        for blocked in (set(), {signal.SIGTERM}):
            with open(self.path("log"), "w"):
                pass
            name = f"{len(blocked)}.ringside"
            signal.pthread_sigmask(signal.SIG_BLOCK, blocked)
            try:
                p = self.spawn("-o", name, "--", "true", stderr=subprocess.PIPE)
            finally:
                signal.pthread_sigmask(signal.SIG_UNBLOCK, blocked)
            self.addCleanup(p.kill)
            self.wait_for("writing", p)
            self.assertNotIn("written", self.log())
            p.send_signal(signal.SIGINT)
            err = p.communicate(timeout=PATIENCE)[1]
            self.assertEqual(p.returncode, 0, err)
            self.assertIn("written", self.log())
            self.assertTrue(self.info(name)["finished"])

    def test_files_without_lines(self):
        """Which have them, but not for us."""
        self.env["FAKE_LINES"] = "unread"
        told = ("1 file compressed with zstd, which this libelf does not read",
                "2 files with inlined functions in a .dwp file, which is not read")
        err = self.record("--", "true").stderr.decode()
        for text in told:
            self.assertIn(f"ringside: {text}\n", err)
        self.assertEqual(self.record("-q", "--", "true").stderr, b"")

    def test_second_interrupt_is_at_once(self):
        self.assertEqual(self.signalled(signal.SIGINT, command=self.outlives("trap '' INT;"), again=True)[0], 130)
        self.assertFalse(os.path.exists(self.path("gone")))

    def test_ctrl_c_on_a_terminal(self):
        """The command gets it from the terminal, once; we wait for what it makes of it."""
        script = ("import os, signal, sys, time\n"
                  "signal.signal(signal.SIGINT, lambda *_: os.write(1, b'CAUGHT'))\n"
                  "os.write(1, b'READY')\n"
                  "end = time.monotonic() + 1\n"
                  "while time.monotonic() < end: time.sleep(0.01)\n"
                  "sys.exit(5)\n")
        text, status = on_terminal(self, ["record", "--", sys.executable, "-c", script], keys=[b"\x03"], until="READY")
        self.assertEqual(status, 5, text)
        self.assertEqual(text.count("CAUGHT"), 1, text)
        self.assertIn("Next: ringside report", text)

    def test_child_has_the_terminal(self):
        script = "test -t 0 && test -t 1 && test -t 2 && read x && echo GOT-$x"
        text, status = on_terminal(self, ["record", "--", "sh", "-c", "echo READY; " + script], keys=[b"word\n"], until="READY")
        self.assertEqual(status, 0, text)
        self.assertIn("GOT-word", text)

    def test_live_line(self):
        began = time.monotonic()
        text, status = on_terminal(self, ["record", "--", "sleep", "1.5"])
        most = (time.monotonic() - began) * 4 + 2
        self.assertEqual(status, 0)
        lines = re.findall(r"\r([^\r\n]*samples, \d+ lost *)\r", text)
        self.assertTrue(2 <= len(lines) <= most, text)
        self.assert_narrow("\n".join(lines), 79)
        self.assertNotRegex(on_terminal(self, ["record", "-q", "--", "sleep", "1"])[0], "samples")
        # As much of it as there is room for, or it could not be overwritten.
        text, _ = on_terminal(self, ["record", "--", "sleep", "1"], columns=12, env={"COLUMNS": "12"})
        lines = re.findall(r"\r([^\r\n]+)\r", text)
        self.assertTrue(lines, text)
        self.assert_narrow("\n".join(lines), 11)
        # Not over a program that has taken the screen.
        text, _ = on_terminal(self, ["record", "--", "sh", "-c", "stty raw; sleep 1; stty sane"])
        self.assertNotRegex(text, r"\r[^\r\n]*samples, \d+ lost *\r")

    def test_asks_only_where_somebody_is(self):
        """polkit may ask on a terminal or a desktop, never root, never with --no-ask, never elsewhere."""
        nobody = 65534 if os.geteuid() == 0 else os.geteuid()
        os.chmod(self.dir, 0o777)
        where = {"env": {"DISPLAY": ":0", "XDG_SESSION_ID": "1"}, "user": nobody, "group": nobody, "extra_groups": []}
        if os.geteuid() != 0:
            where = {"env": where["env"]}
        if self.run_cli("--version", **where).returncode != 0:
            if os.environ.get("RINGSIDE_MUST_RUN") == "1":
                self.fail("the build is not readable by everybody")
            self.skipTest("the build is not readable by everybody")

        def asked(run):
            if os.path.exists(self.path("log")):
                os.unlink(self.path("log"))
            run()
            return "interactive 1\n" in self.log()

        as_uid = {"uid": nobody if os.geteuid() == 0 else None}
        self.assertTrue(asked(lambda: self.record("-q", "true", **where)))
        self.assertFalse(asked(lambda: self.record("-q", "--no-ask", "true", **where)))
        self.assertTrue(asked(lambda: on_terminal(self, ["record", "-q", "true"], **as_uid)))
        self.assertFalse(asked(lambda: on_terminal(self, ["record", "-q", "--no-ask", "true"], **as_uid)))
        self.assertFalse(asked(lambda: on_terminal(self, ["record", "-q", "--helper=direct", "true"], **as_uid)))
        where["env"] = {}
        self.assertFalse(asked(lambda: self.record("-q", "true", **where)))
        if os.geteuid() == 0:
            self.assertFalse(asked(lambda: on_terminal(self, ["record", "-q", "true"])))

    def test_closed_stderr(self):
        r, w = os.pipe()
        os.close(r)
        p = subprocess.run([RINGSIDE, "record", "--", "sh", "-c", "exit 3"], cwd=self.dir, env=self.env, stderr=w, timeout=PATIENCE)
        os.close(w)
        self.assertEqual(p.returncode, 3)
        self.assertTrue(self.info()["finished"])

    def test_ignored_sigchld(self):
        old = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        try:
            p = subprocess.Popen([RINGSIDE, "record", "-q", "--", "sh", "-c", "exit 6"], cwd=self.dir, env=self.env,
                                 stdout=subprocess.PIPE)
            p.stdout.read()
        finally:
            signal.signal(signal.SIGCHLD, old)
        p.stdout.close()
        p.wait()
        self.assertEqual(self.info()["exit_status"], 6 << 8)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[5:]])
