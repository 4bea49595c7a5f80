# SPDX-License-Identifier: LGPL-2.1-or-later
"""
`ringside record` and the helper: how many recordings of one user there can be at once, each as it comes from the command
line, what the next one is told, and that this helps; and what a recording says of a session that ended before it.
"""

import contextlib
import os
import re
import signal
import sqlite3
import subprocess
import tempfile

import harness as h

A, _ = h.users()
WHERE = tempfile.mkdtemp(dir="/run") # which ends with the test
os.chown(WHERE, A.uid, A.gid)


class Recorder:
    """Records a command that goes on until it is ended; started: it runs, so there is a session. Else refused."""

    number = 0

    def __init__(self, *options, command="exec sleep 1000"):
        Recorder.number += 1
        self.path = f"{WHERE}/{Recorder.number}.ringside"
        up = f"{WHERE}/{Recorder.number}.up"
        with open(f"{WHERE}/{Recorder.number}.log", "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(["as-user", A.name, "ringside", "record", "--no-ask", *options, "-o", self.path,
                                             "--", "sh", "-c", f"touch {up}; {command}"], stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log, cwd=WHERE)
        self.log = log.name
        h.until("it records or has ended", lambda: os.path.exists(up) or self.process.poll() is not None)
        self.started = os.path.exists(up)

    def said(self):
        return re.sub(r"\s+", " ", h.read(self.log))

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(h.PATIENCE)


@contextlib.contextmanager
def recorders():
    """A list of them, all of which end."""
    started = []
    try:
        yield started
    finally:
        for r in started:
            if r.process.poll() is None:
                r.end()
        # The kernel takes its time to free what they had.
        h.until("sessions have ended", lambda: not h.role_pids("session"))


def refused(*options):
    r = Recorder(*options)
    h.check(not r.started and r.process.wait() == 125, f"{options}: not refused: {r.said()}")
    print(f"    {' '.join(options)}: {r.said()}", flush=True)
    return r.said()


def begin(started, *options):
    """One that fits as soon as the kernel has freed what those before it had."""
    def begun():
        r = Recorder(*options)
        if r.started:
            started.append(r)
        return r.started
    h.until(f"{options} can be recorded", begun)
    return started[-1]


def check_hint(started, options, hint):
    """The options that the hint names are what makes it work."""
    words = rf"\d+\.\d MiB wanted, \d+\.\d of 96\.0 MiB left hint: {hint} would fit"
    h.until(f"{options} are refused with {hint}", lambda: re.search(words, refused(*options)))
    again = [o for o in options if o.split("=")[0] not in hint and not ("fp" in hint and "table" in o)]
    begin(started, *again, *hint.split())
    started.pop().end()


def test_defaults():
    """By the command line's own sizes, which become smaller: six at least, and then a word that helps."""
    with recorders() as started:
        while True:
            r = Recorder()
            if not r.started:
                break
            started.append(r)
            print(f"    {len(started)}: {r.said() or 'as asked for'}", flush=True)
        h.check(r.process.wait() == 125, f"refused with {r.process.returncode}")
        print(f"    then: {r.said()}", flush=True)
        # Where there are many CPUs each takes somewhat more.
        h.check(len(started) >= (6 if os.cpu_count() <= 8 else 5), f"{len(started)} recordings at once")
        h.check(started[0].said() == "" and "Memory for sessions is short: recording as with" in started[-1].said(),
                "what they took is not said")
        h.check("MiB left" in r.said() and "end another one" in r.said(), f"it was told {r.said()}")
        h.check(started.pop(0).end() == 128 + signal.SIGTERM, "the first ended in another way")
        begin(started)


def test_named():
    """What was named is never made smaller; the refusal says which option to lower, and how far."""
    with recorders() as started:
        h.check(begin(started, "--table-size=64M").said() == "", f"alone: {started[0].said()}")
        check_hint(started, ["--table-size=32M"], "--table-size=8M")
        check_hint(started, ["--table-size=32M", "--ring-size=16M"], "--unwind=fp")
        check_hint(started, ["--ring-size=64M"], "--unwind=fp --ring-size=16M")
        r = begin(started, "--unwind=table")
        h.check("--table-size=" in r.said() and "fp" not in r.said(), f"with tables: {r.said()}")


def test_ended():
    """The session dies while the command goes on."""
    with recorders() as started:
        r = Recorder(command=f"exec {h.workload('busy')} 1000")
        h.check(r.started, r.said())
        started.append(r)

        def meta():
            with contextlib.suppress(sqlite3.Error), sqlite3.connect(f"file:{r.path}?mode=ro", uri=True) as db:
                return dict(db.execute("SELECT key, value FROM meta UNION SELECT 'samples', count(*) FROM sample"))
            return {}

        h.until("there are samples", lambda: int(meta().get("samples", 0)) > 10)
        os.kill(h.only("session"), signal.SIGKILL)
        h.until("the recording says so", lambda: meta().get("ended_why") == "the helper has ended")
        r.end()
        h.check(r.process.returncode == 125, f"exit status {r.process.returncode}")
        said = r"Sampling ended after [\d.]+ m?s of [\d.]+ s: the helper has ended\."
        report = subprocess.run(["as-user", A.name, "ringside", "report", r.path], stdout=subprocess.PIPE, text=True, check=True)
        for text in (r.said(), report.stdout):
            h.check(re.search(said, text), f"not said: {text}")


with open("/run/test.rules", "w", encoding="utf-8") as f:
    f.write("polkit.addRule(function (action, subject) { if (action.id == \"org.ringside.helper1.profile-own\") "
            "return polkit.Result.YES; });\n")
subprocess.run(["polkit-rules", "/run/test.rules"], check=True)
h.main(test_defaults, test_named, test_ended)
