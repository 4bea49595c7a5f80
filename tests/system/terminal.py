#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""
terminal.py COMMAND...: runs COMMAND on a terminal of its own, prints what is said there, and ends with its exit
status. Where polkit's agent asks for a password, each user's name is typed.
"""

import os
import re
import sys
import termios
import time


class Terminal:
    def __init__(self, *command):
        self.text, self.asked = "", []
        self.pid, self.fd = os.forkpty()
        if self.pid == 0:
            try:
                os.execvp(command[0], command)
            finally:
                os._exit(127)

    def echoes(self):
        return termios.tcgetattr(self.fd)[3] & termios.ECHO

    def read(self):
        """What is said next, which is answered; "" at the end."""
        try:
            said = os.read(self.fd, 4096).decode(errors="replace")
        except OSError:
            return ""
        self.text += said
        names = re.findall(r"Authenticating as: .*?\(?(\w+)\)?\s*\r\nPassword: ", self.text)
        for name in names[len(self.asked):]:
            self.asked.append(name)
            # It asks first, and then forgets what has been typed and stops the echo.
            while self.echoes():
                time.sleep(0.01)
            os.write(self.fd, name.encode() + b"\n")
        return said


def main():
    terminal = Terminal(*sys.argv[1:])
    while said := terminal.read():
        print(said, end="", flush=True)
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(terminal.pid, 0)[1]))


if __name__ == "__main__":
    main()
