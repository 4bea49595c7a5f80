#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""
What a user is told of programs that the access rule hides: that they are hidden, and not that they used no CPU time.
Over the real bus, with the real kernel's answers. Run inside bus-env.
"""

import os
import shutil
import subprocess
import tempfile
import unittest

USER = os.environ["RINGSIDE_TEST_USER_A"]
BUSY = os.environ["RINGSIDE_TEST_BUILD"] + "/tests/workloads/workload-busy"


class HiddenTest(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="hidden-", dir="/var/tmp")
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        os.chmod(self.dir, 0o777)
        for name, mode in (("setuid", 0o4755), ("unreadable", 0o711), ("plain", 0o755)):
            shutil.copy(BUSY, os.path.join(self.dir, name))
            os.chmod(os.path.join(self.dir, name), mode)

    def ringside(self, *args):
        p = subprocess.run(["as-user", USER, "ringside", *args], cwd=self.dir, stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=100)
        self.assertEqual(p.returncode, 0, p.stdout)
        return " ".join(p.stdout.split())

    def texts(self, name, *command):
        """The summary and the report."""
        return self.ringside("record", "-o", name, "--", *command), self.ringside("report", name)

    def test_command(self):
        for name in "setuid", "unreadable":
            for text in self.texts(name + ".ringside", f"./{name}", "0.3"):
                self.assertIn("the program that was run is not yours to see", text)
                self.assertNotIn("hardly any", text)

    def test_becomes_one(self):
        for text in self.texts("exec.ringside", "sh", "-c", "exec ./setuid 0.3"):
            self.assertRegex(text, "(what was recorded|1 process) became a program that is not yours to see")
            self.assertNotIn("hardly any", text)

    def test_starts_one(self):
        for text in self.texts("both.ringside", "sh", "-c", "./plain 0.3; ./unreadable 0.3"):
            self.assertIn("1 process became a program that is not yours to see", text)
            self.assertIn("busy_loop", text)

    def test_plain(self):
        for text in self.texts("plain.ringside", "./plain", "0.3"):
            self.assertNotIn("yours to see", text)


if __name__ == "__main__":
    unittest.main()
