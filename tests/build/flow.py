# SPDX-License-Identifier: LGPL-2.1-or-later
"""
How far into a map's value the pointers of a compiled function reach, where what is added to them is not constant.

Of numbers only bounds are known that a processor which speculates keeps, too: those of masks and of shifts to the right, and
what has become of them by what was done since. What is only compared with a bound has none.
"""

import collections
import heapq
import math
import re

MAP_LOOKUP_ELEM = 1
# What registers hold, and words on the stack, which are by their offset from r10. A number is the highest that it can be; what is
# missing is anything. A pointer may be one into several maps; chosen: something has been added that is not constant.
Map = collections.namedtuple("Map", "names")
In = collections.namedtuple("In", "names low high chosen")
Stack = collections.namedtuple("Stack", "at")

HIGHEST = {"r": (1 << 64) - 1, "w": (1 << 32) - 1}
LOAD_MAP = re.compile(r"r(\d+) = 0 ll")
OPERATION = re.compile(r"([rw])(\d+) (\S{0,3})= (?:([rw])(\d+)|(-?\d+)(?: ll)?)")
STORE = re.compile(r"\*\(u(\d+) \*\)\(r(\d+) ([+-]) (\d+)\) = (?:[rw](\d+)|-?\d+)")
RELOAD = re.compile(r"r(\d+) = \*\(u64 \*\)\(r10 - (\d+)\)")
MEMORY = re.compile(r"(?:u(\d+) \*\)|_(\d+))\(r(\d+) ([+-]) (\d+)[,)]")
SPOIL = re.compile(r"[rw](\d+) \S*= .*")
# How often paths may come to an instruction with more and more: then it is a loop's, without an end that is known here.
JOINS_MAX = 32


def join(one, other, widen):
    """What a register holds where two paths meet. A pointer on one of them stays one: it is not to be missed."""
    if one == other:
        return one
    if isinstance(one, In) and isinstance(other, In):
        low, high = min(one.low, other.low), max(one.high, other.high)
        if widen:
            low, high = low if low == one.low else -math.inf, high if high == one.high else math.inf
        return In(one.names | other.names, low, high, one.chosen or other.chosen)
    if isinstance(one, Map) and isinstance(other, Map):
        return Map(one.names | other.names)
    if isinstance(one, Stack) and isinstance(other, Stack):
        return Stack(-math.inf if widen else min(one.at, other.at))
    for kind in In, Map, Stack:
        for value in one, other:
            if isinstance(value, kind):
                return value
    if None in (one, other) or widen:
        return None
    return max(one, other)


def number(value, limit):
    """The highest that an operand can be."""
    return min(value, limit) if isinstance(value, int) else limit


def compute(operation, one, other, limit):
    """The highest that comes of numbers up to these, where none is above limit; or more than that."""
    if operation == "":
        return other
    if operation == "&":
        return min(one, other)
    if operation in "|^":
        return (1 << max(one, other).bit_length()) - 1
    if operation == "+":
        return one + other
    if operation == "*":
        return one * other
    return limit + 1


class Flow:
    """
    Over all paths through a function. sums: {instruction that adds to a pointer what is not constant: In, as it is then};
    accesses: {instruction that reads or writes by such a pointer: In, from the lowest byte to one after the highest}.
    """

    def __init__(self, function):
        """function: code, to, and numbers, of each instruction: its text, what it is relocated to, and its place."""
        self.function = function
        self.by_place = {place: i for i, place in enumerate(function.numbers)}
        self.sums, self.accesses = {}, {}
        before, joins = {0: {}}, collections.Counter()
        waiting = [0] if function.code else []
        while waiting:
            i = heapq.heappop(waiting)
            while waiting and waiting[0] == i:
                heapq.heappop(waiting)
            after = self.step(i, dict(before[i]))
            for following in self.successors(i):
                old = before.get(following)
                new = after
                if old is not None:
                    widen = joins[following] >= JOINS_MAX
                    new = {k: join(old.get(k), after.get(k), widen) for k in old.keys() | after.keys()}
                    new = {k: v for k, v in new.items() if v is not None}
                if new != old:
                    joins[following] += old is not None
                    before[following] = new
                    heapq.heappush(waiting, following)

    def successors(self, i):
        code = self.function.code[i]
        jump = re.search(r"goto ([+-]\d+)$", code)
        assert jump or not code.startswith("if "), code
        found = [] if code == "exit" or code.startswith("goto") else [i + 1]
        if jump:
            found.append(self.by_place[self.function.numbers[i] + 1 + int(jump[1])])
        return [n for n in found if n < len(self.function.code)]

    def step(self, i, state):
        """The state after an instruction, which may change the one that is given."""
        code, to = self.function.code[i], self.function.to[i]
        called = re.fullmatch(r"call (-?\d+)", code)
        store, load, operation = STORE.fullmatch(code), RELOAD.fullmatch(code), OPERATION.fullmatch(code)
        self.access(i, code, state)
        if called:
            looked_up = state.get("1") if int(called[1]) == MAP_LOOKUP_ELEM and not to else None
            for register in "12345":
                if isinstance(state.get(register), Stack):
                    self.written(state, state[register].at, math.inf)
            for register in "012345":
                state.pop(register, None)
            if isinstance(looked_up, Map):
                state["0"] = In(looked_up.names, 0, 0, False)
        elif LOAD_MAP.fullmatch(code) and to:
            state[LOAD_MAP.fullmatch(code)[1]] = Map(frozenset([to]))
        elif store:
            self.store(state, store)
        elif load:
            self.put(state, load[1], state.get("-" + load[2]))
        elif operation:
            self.put(state, operation[2], self.operate(i, state, operation))
        elif SPOIL.fullmatch(code):
            state.pop(SPOIL.fullmatch(code)[1], None)
        return state

    @staticmethod
    def put(state, where, what):
        state.pop(where, None)
        if what is not None:
            state[where] = what

    @staticmethod
    def written(state, low, high):
        """Bytes of the stack: nothing is known of words that these are part of."""
        for where in [k for k in state if k[0] == "-" and int(k) < high and int(k) + 8 > low]:
            state.pop(where)

    def store(self, state, found):
        bits, register, sign, offset, source = found.groups()
        base = Stack(0) if register == "10" else state.get(register)
        if not isinstance(base, Stack):
            return
        at = base.at + int(sign + offset)
        self.written(state, at, at + int(bits) // 8 if base.at > -math.inf else math.inf)
        if register == "10" and bits == "64" and source:
            self.put(state, str(at), state.get(source))

    def access(self, i, code, state):
        found = MEMORY.search(code)
        base = state.get(found[3]) if found else None
        if isinstance(base, In) and base.chosen:
            at = int(found[4] + found[5])
            self.accesses[i] = base._replace(low=base.low + at, high=base.high + at + int(found[1] or found[2]) // 8)

    def operate(self, i, state, found):
        """What a register holds after an operation on it, with another one or with a constant."""
        size, register, operation, _, source, constant = found.groups()
        limit = HIGHEST[size]
        one, other = state.get(register), state.get(source) if source else int(constant)
        if source == "10":
            other = Stack(0)
        if size == "r" and operation == "" and not isinstance(other, int):
            return other
        if size == "r" and operation == "+" and not source and isinstance(one, (In, Stack)):
            if isinstance(one, Stack):
                return Stack(one.at + other)
            return one._replace(low=one.low + other, high=one.high + other)
        if size == "r" and operation in ("+", "-") and (isinstance(one, In) or isinstance(other, In)):
            return self.add(i, operation, one, other)
        if operation in ("<<", ">>") and not source:
            bound = number(one, limit)
            bound = bound << other if operation == "<<" else bound >> other
        elif operation == "+" and not source and other < 0:
            bound = limit + 1
        else:
            # A negative constant is one of that many bits.
            bound = compute(operation, number(one, limit), other & limit if not source else number(other, limit), limit)
        if bound > limit:
            bound = limit
        return None if bound == HIGHEST["r"] else bound

    def add(self, i, operation, one, other):
        pointer, what = (one, other) if isinstance(one, In) else (other, one)
        if isinstance(what, int) and operation == "+":
            pointer = pointer._replace(high=pointer.high + what, chosen=True)
        else:
            pointer = pointer._replace(low=-math.inf, high=math.inf, chosen=True)
            if isinstance(what, In):
                if operation == "-":
                    return None  # how far they are apart
                pointer = pointer._replace(names=pointer.names | what.names)
        self.sums[i] = pointer
        return pointer
