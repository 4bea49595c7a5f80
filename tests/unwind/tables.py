# SPDX-License-Identifier: LGPL-2.1-or-later
"""
The table memory of somebody's session (unwind-table.h), as root reads and writes it while it is in use: so a hostile
client would.
"""

import contextlib
import ctypes
import mmap
import os
import struct
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "helper"))

import harness as h  # pylint: disable=wrong-import-position

PROCESSES, PROCESS_SIZE, PROBES = 8192, 32, 8
RULES, RULE_SIZE = 65536, 16
RULES_AT = PROCESSES * PROCESS_SIZE
HEAP_AT = RULES_AT + RULES * RULE_SIZE
CHUNK = 4096
BPF_MAP_GET_FD_BY_ID = 14
SYS_BPF = {"x86_64": 321, "aarch64": 280}[os.uname().machine]


def map_fd(number):
    attributes = ctypes.create_string_buffer(struct.pack("<III", number, 0, 0), 128)
    fd = h.libc.syscall(SYS_BPF, BPF_MAP_GET_FD_BY_ID, attributes, 128)
    h.check(fd >= 0, f"map {number}: {os.strerror(ctypes.get_errno())}")
    return fd


def table_maps():
    """{number: bytes} of the table memories that there are."""
    return {item["id"]: item["bytes_value"] * item["max_entries"] for item in h.bpf_show("map")
            if item["type"] == "array" and item["bytes_value"] == CHUNK and item["max_entries"] * CHUNK > HEAP_AT}


class Tables:
    """Of the session that knows of this process: others on the machine have tables of their own."""

    def __init__(self, pid):
        deadline = time.monotonic() + h.PATIENCE
        while not self.find(pid):
            h.check(time.monotonic() < deadline, f"no session has tables of {pid}")
            time.sleep(0.02)

    def find(self, pid):
        for number, self.size in table_maps().items():
            try:
                fd = map_fd(number)
            except h.Failure:
                continue  # gone
            self.memory = mmap.mmap(fd, self.size, mmap.MAP_SHARED)
            os.close(fd)
            if pid in self.slots():
                return True
            self.memory.close()
        return False

    def get(self, code, place):
        """As the programs do: masked, and within one chunk."""
        return struct.unpack_from(code, self.memory, place % self.size)[0]

    def put(self, code, place, value):
        struct.pack_into(code, self.memory, place % self.size, value)

    def slots(self):
        """{pid: place} of the processes that have a list."""
        found = {}
        for place in range(0, RULES_AT, PROCESS_SIZE):
            _, pid, _, listed, _ = struct.unpack_from("<QIIQQ", self.memory, place)
            if listed:
                found[pid] = place
        return found

    def mappings(self, slot):
        """Places of a process's mappings that have tables."""
        listed = self.get("<Q", slot + 16)
        first, n = listed >> 32, listed & 0xffff
        return [place for place in range(first * 32, (first + n) * 32, 32) if self.get("<I", place + 28) > 0]


def slot_hash(pid, start):
    return ((start ^ pid) * 0x9e3779b97f4a7c15 % 2**64 >> 40) & (PROCESSES - 1)


@contextlib.contextmanager
def writing(function):
    """function(stop) in a thread meanwhile; what it raised is raised."""
    stop, failed = threading.Event(), []

    def run():
        try:
            function(stop)
        except BaseException as e:  # pylint: disable=broad-except
            failed.append(e)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    if failed:
        raise failed[0]
