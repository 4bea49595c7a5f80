#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""
session-runner.py SOCKET: the first process of a login session, which runs commands there for machine.py: for each
connection one, with the descriptor that came along for its output, and the wait status for an answer.
"""

import os
import socket
import sys


def serve(connection):
    text, fds, _, _ = socket.recv_fds(connection, 65536, 1)
    pid = os.fork()
    if pid == 0:
        os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
        os.dup2(fds[0], 1)
        os.dup2(fds[0], 2)
        os.chdir(os.environ["HOME"])
        os.closerange(3, 64)
        command = text.decode().split("\0")
        os.execvp(command[0], command)
    connection.sendall(str(pid).encode() + b"\n")
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    connection.sendall(str(status).encode() + b"\n")


def main():
    server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    server.bind(sys.argv[1] + ".new")
    server.listen()
    os.rename(sys.argv[1] + ".new", sys.argv[1])  # who sees it can connect
    while True:
        connection, _ = server.accept()
        # Twice: nobody need wait for it.
        pid = os.fork()
        if pid == 0:
            if os.fork() == 0:
                serve(connection)
            os._exit(0)
        os.waitpid(pid, 0)
        connection.close()


main()
