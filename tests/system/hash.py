#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""hash.py ALGORITHM SECONDS: has the kernel compute hashes, for CPU seconds as told: time in a module's text."""

import socket
import sys
import time


def main():
    kernel = socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET)
    kernel.bind(("hash", sys.argv[1]))
    operation, _ = kernel.accept()
    data = bytes(65536)
    end = time.process_time() + float(sys.argv[2])
    while time.process_time() < end:
        operation.sendall(data)
        operation.recv(512)


main()
