#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""
hash.py ALGORITHM SECONDS|PATH [PATH]: has the kernel compute hashes, for CPU seconds as told or until there is such a
file: time in a module's text. The second PATH is what it waits for before, once it has made PATH.ready.
"""

import os
import socket
import sys
import time


def wait_for(path):
    with open(path + ".ready", "w", encoding="ascii"):
        pass
    while not os.path.exists(path):
        time.sleep(0.01)


def main():
    if sys.argv[3:]:
        wait_for(sys.argv[3])
    kernel = socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET)
    kernel.bind(("hash", sys.argv[1]))
    operation, _ = kernel.accept()
    data = bytes(65536)
    path, began = sys.argv[2], time.process_time()
    goes_on = (lambda: not os.path.exists(path)) if "/" in path else (lambda: time.process_time() < began + float(path))
    while goes_on():
        operation.sendall(data)
        operation.recv(512)


main()
