#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""
polkit's question on a terminal, typed answers and all: over the real bus with the real polkitd, as a user
no rule speaks of. Run inside bus-env --rules none.
"""

import json
import os
import pty
import select
import signal
import subprocess
import termios
import time
import unittest

USER = os.environ["RINGSIDE_TEST_USER_A"]
PASSWORD = "a word for the tests"
ASK_KERNEL = os.environ["RINGSIDE_TEST_SOURCE"] + "/tests/lib/ask-kernel.rules"
IN_KERNEL = os.environ["RINGSIDE_TEST_BUILD"] + "/tests/workloads/workload-kernel"


def agents():
    """Processes of the agent: no other test has this user."""
    return subprocess.run(["pgrep", "-u", USER, "pkttyagent"], stdout=subprocess.PIPE, text=True).stdout.split()


def dismiss():
    """What a desktop does when its dialog is closed: the agent goes without an answer."""
    for pid in agents():
        os.kill(int(pid), signal.SIGTERM)


def describe():
    """Who waits for what in the kernel, for when an answer does not come."""
    text = subprocess.run(["ps", "-eLo", "pid,tid,user,stat,wchan:24,args"], stdout=subprocess.PIPE, text=True).stdout
    return "".join(line for line in text.splitlines(True)
                   if any(word in line for word in ("WCHAN", "polkit", "pkttyagent", "dbus-daemon", "ringside")))


def ask(command, answer, timeout=100):
    """
    Runs command in a shell of USER's on a terminal, types answer at the password, or without one dismisses the
    question. Output, status.
    """
    pid, fd = pty.fork()
    if pid == 0:
        try:
            os.execvp("as-user", ["as-user", USER, "sh", "-c", "cd; trap : INT; " + command])
        finally:
            os._exit(99)  # or the child would go on with the tests
    out, typed, end = b"", False, time.monotonic() + timeout
    while time.monotonic() < end:
        if select.select([fd], [], [], 0.1)[0]:
            try:
                data = os.read(fd, 4096)
            except OSError:
                break
            if not data:
                break
            out += data
        # What is typed while it still echoes is thrown away.
        if b"assword:" in out and not typed and not termios.tcgetattr(fd)[3] & termios.ECHO:
            if answer is None:
                dismiss()
            else:
                os.write(fd, answer)
            typed = True
    else:
        out += f"\nno end after {timeout} s:\n{describe()}".encode()
        os.kill(pid, signal.SIGKILL)
    os.close(fd)
    return out.decode(errors="replace"), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


class AgentTest(unittest.TestCase):
    RULES = "none"

    @classmethod
    def setUpClass(cls):
        subprocess.run(["chpasswd"], input=f"{USER}:{PASSWORD}\n", text=True, check=True)
        subprocess.run(["polkit-rules", cls.RULES], check=True)

    def tearDown(self):
        self.assertEqual(agents(), [], "an agent was left behind")


class OwnTest(AgentTest):
    def test_right_password(self):
        """The agent is gone before the program runs, and the terminal echoes as before."""
        text, status = ask("ringside record -q -- sh -c 'pgrep -u $(id -u) pkttyagent; stty -a; echo RAN; exit 9'",
                           PASSWORD.encode() + b"\n")
        self.assertEqual(status, 9, text)
        self.assertIn("AUTHENTICATION COMPLETE", text)
        self.assertIn("RAN", text)
        self.assertRegex(text, r"[^-]echo ")
        self.assertNotIn(PASSWORD, text)

    def test_wrong_password(self):
        text, status = ask("ringside record -- echo RAN", b"wrong\n")
        self.assertEqual(status, 125, text)
        self.assertNotIn("RAN", text)
        self.assertIn("profile-own", text)
        self.assertNotIn("you are asked", text)

    def test_ctrl_c_at_the_password(self):
        # The agent, which has set the terminal, sets it back, and may be the last of the two to end.
        echoes = "i=0; while [ $i -lt 300 ] && ! stty -a | grep -q ' echo '; do sleep 0.1; i=$((i + 1)); done"
        text, status = ask(f"ringside record -- echo RAN; echo STATUS $?; {echoes}; stty -a", b"\x03")
        self.assertIn("STATUS 130", text)
        self.assertNotIn("RAN\r\n", text)
        self.assertRegex(text, r"[^-]echo ")

    def test_no_ask(self):
        text, status = ask("ringside record --no-ask -- echo RAN", b"")
        self.assertEqual(status, 125, text)
        self.assertNotIn("assword", text)
        self.assertNotIn("RAN\r\n", text)
        self.assertIn("without --no-ask, you are asked", " ".join(text.split()))


class KernelTest(AgentTest):
    """The question is only for more than there is without: whatever the answer, the command is recorded."""
    RULES = ASK_KERNEL

    def record(self, answer):
        """What was said, what the recording says, and its kernel functions."""
        text, status = ask("rm -f kernel.ringside; ringside record --kernel -o kernel.ringside "
                           f"-- {IN_KERNEL} 1; exit $?", answer)
        self.assertEqual(status, 0, text)
        self.assertEqual(text.count("assword:"), 1, text)
        self.assertIn("profile-kernel", text)
        report = json.loads(subprocess.run(["as-user", USER, "sh", "-c", "cd; ringside report --format=json --threshold=0 kernel.ringside"],
                                           stdout=subprocess.PIPE, check=True, text=True).stdout)
        self.assertGreater(report["samples"], 0)
        kernel = {row["name"] for row in report["rows"] if row["kernel"]}
        return " ".join(text.split()), report["recording"]["kernel_frames"], kernel

    def without(self, answer):
        text, granted, functions = self.record(answer)
        self.assertEqual((granted, functions), ("denied", {"[kernel]"}))
        self.assertIn("Kernel frames were not granted", text)
        self.assertNotIn("--kernel asks", text)

    def test_right_password(self):
        text, granted, functions = self.record(PASSWORD.encode() + b"\n")
        self.assertEqual(granted, "yes")
        self.assertTrue(functions - {"[kernel]"}, functions)
        self.assertNotIn("not granted", text)

    def test_wrong_password(self):
        self.without(b"wrong\n")

    def test_dismissed(self):
        self.without(None)

    def test_no_ask(self):
        text, status = ask(f"ringside record --kernel --no-ask -o no.ringside -- {IN_KERNEL} 0.1; exit $?", b"")
        self.assertEqual(status, 0, text)
        self.assertNotIn("assword:", text)
        self.assertIn("Kernel frames were not granted", " ".join(text.split()))


if __name__ == "__main__":
    unittest.main()
