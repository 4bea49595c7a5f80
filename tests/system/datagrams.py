#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""
datagrams.py SENDER RECEIVER: sends datagrams from one CPU on a loopback device of its own, on which another CPU
receives them (RPS): in softirqs, and between two sleeps where that CPU has nothing else to do. Prints a line once it
sends, which goes on until it is killed. In new namespaces for network and mounts (unshare -n -m).
"""

import fcntl
import os
import socket
import struct
import subprocess
import sys

SIOCSIFFLAGS, IFF_UP = 0x8914, 1
sender, receiver = map(int, sys.argv[1:])

s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
fcntl.ioctl(s, SIOCSIFFLAGS, struct.pack("16sH22x", b"lo", IFF_UP))
# /sys shows the devices of the network it was mounted in.
subprocess.run(["mount", "-t", "sysfs", "sysfs", "/sys"], check=True)
with open("/sys/class/net/lo/queues/rx-0/rps_cpus", "w", encoding="ascii") as f:
    f.write(f"{1 << receiver:x}")
os.sched_setaffinity(0, [sender])
print(flush=True)
while True:
    try:
        s.sendto(bytes(1000), ("127.0.0.1", 9))
    except ConnectionRefusedError:
        pass
