#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""
A client that does not read: the ring overflows, and every sample that was taken is accounted for, to the last.
Ring and counters are read raw, through the descriptors of WELCOME. Runs inside bus-env.
"""

import mmap
import struct
import time

import harness as h

A, B = h.users()
RING = 65536
BUSY, DISCARD = 1 << 31, 1 << 30
SAMPLE, STACK, PROCESS, MAPPING = 1, 3, 4, 5
COUNTERS = struct.Struct("<32Q")
PEAK = 7


def records(memory, page):
    """Types of all records between the two positions; nobody has read any, so they start at 0."""
    consumer = struct.unpack_from("<Q", memory[0], 0)[0]
    producer = struct.unpack_from("<Q", memory[1], 0)[0]
    h.check(consumer == 0 and producer - consumer <= RING, f"positions {consumer} {producer}")
    seen = []
    while consumer < producer:
        length, = struct.unpack_from("<I", memory[1], page + consumer % RING)
        h.check(not length & (BUSY | DISCARD), "a record that is busy or discarded")
        kind, _, size = struct.unpack_from("<BBH", memory[1], page + (consumer + 8) % RING)
        h.check(size == length, "two lengths")
        seen.append(kind)
        consumer += (length + 8 + 7) & ~7
    return seen


def test_overflow():
    page = mmap.PAGESIZE
    with h.killed(A.spin()) as p, A.connect() as a, h.open_session(a, targets=True, hz=4999, ring=RING) as session:
        with A.act():
            h.check(session.hello() == 0, "HELLO refused")
            h.check(session.target(p.pid)[0] == 0, "TARGET refused")
            h.check(session.start() == 0, "START refused")

        def counters():
            cpus = int(h.read("/sys/devices/system/cpu/possible").strip().split("-")[-1]) + 1
            with mmap.mmap(session.fds[1], cpus * COUNTERS.size, prot=mmap.PROT_READ) as m:
                rows = [COUNTERS.unpack_from(m, i * COUNTERS.size) for i in range(cpus)]
                # Sums, but of the peaks the highest.
                return [(max if i == PEAK else sum)(column) for i, column in enumerate(zip(*rows))]

        # Far past what 64 KiB hold, however loaded the machine is.
        h.until("samples were lost", lambda: counters()[2] > 2000, timeout=200)
        with A.act():
            h.check(session.stop() == 0, "STOP refused")
        taken, emitted, lost, stacks, stacks_lost, processes, processes_lost, peak, mappings, _ = counters()[:10]
        with mmap.mmap(session.fds[0], page, prot=mmap.PROT_READ) as positions, \
                mmap.mmap(session.fds[0], page + 2 * RING, prot=mmap.PROT_READ, offset=page) as data:
            seen = records((positions, data), page)
        print(f"taken {taken}, emitted {emitted}, lost {lost}; in the ring {len(seen)} records")
        h.check(taken == emitted + lost, f"taken {taken}, emitted {emitted}, lost {lost}")
        h.check(seen.count(SAMPLE) == emitted, f"{seen.count(SAMPLE)} samples in the ring, {emitted} emitted")
        h.check(seen.count(STACK) == stacks, f"{seen.count(STACK)} stacks in the ring, {stacks} counted")
        h.check(seen.count(PROCESS) == processes, f"{seen.count(PROCESS)} processes in the ring, {processes} counted")
        h.check(seen.count(MAPPING) == mappings, f"{seen.count(MAPPING)} mappings in the ring, {mappings} counted")
        h.check(RING * 0.9 < peak <= RING, f"the ring was filled to {peak}")
        h.check(stacks_lost <= lost and processes_lost >= 0, "more stacks lost than samples")
        # Nothing is taken any more.
        time.sleep(0.2)
        h.check(counters()[0] == taken, "samples after STOP")


h.main(test_overflow)
