#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""
polkit's question on a terminal, typed answers and all: over the real bus with the real polkitd, as a user
no rule speaks of. Run inside bus-env --rules none.
"""

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


def ask(command, answer, timeout=100):
    """Runs command in a shell of USER's on a terminal, types answer at the password. Output, status."""
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
            os.write(fd, answer)
            typed = True
    else:
        os.kill(pid, signal.SIGKILL)
    os.close(fd)
    return out.decode(errors="replace"), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


class AgentTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        subprocess.run(["chpasswd"], input=f"{USER}:{PASSWORD}\n", text=True, check=True)

    def tearDown(self):
        agents = subprocess.run(["pgrep", "-u", USER, "pkttyagent"], stdout=subprocess.PIPE, text=True)
        self.assertEqual(agents.stdout, "", "an agent was left behind")

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

    def test_ctrl_c_at_the_password(self):
        text, status = ask("ringside record -- echo RAN; echo STATUS $?; stty -a", b"\x03")
        self.assertIn("STATUS 130", text)
        self.assertNotIn("RAN\r\n", text)
        self.assertRegex(text, r"[^-]echo ")

    def test_no_ask(self):
        text, status = ask("ringside record --no-ask -- echo RAN", b"")
        self.assertEqual(status, 125, text)
        self.assertNotIn("assword", text)
        self.assertNotIn("RAN\r\n", text)


if __name__ == "__main__":
    unittest.main()
