# SPDX-License-Identifier: LGPL-2.1-or-later
"""
Where in a compiled function a pointer into a map's value gets a part that is not constant, and whether that part was masked.
"""

import re

MASKED = "masked"  # a number that an `and` has bound, and which nothing but a constant has changed since
MAP_LOOKUP_ELEM = 1
# What a number that is bound stays bound by.
BY_CONSTANT = re.compile(r"[rw](\d+) (<<|>>|\+)= (-?\d+)")
BY_MASK = re.compile(r"[rw](\d+) &= (\d+)")
MOVE = re.compile(r"[rw](\d+) = [rw](\d+)")
ADDITION = re.compile(r"r(\d+) \+= r(\d+)")
LOAD_MAP = re.compile(r"r(\d+) = 0 ll")
STORE = re.compile(r"\*\(u64 \*\)\(r10 - (\d+)\) = r(\d+)")
RELOAD = re.compile(r"r(\d+) = \*\(u64 \*\)\(r10 - (\d+)\)")
SPOIL = re.compile(r"[rw](\d+) \S*= .*")


class Flow:
    """
    What the registers of a function hold, over all its paths: ("map", name) is a map, ("in", name) points into its value, MASKED
    as above; what is missing is anything else. Words on the stack are by their offset from r10.
    """

    def __init__(self, function):
        """function: code, to, and numbers, of each instruction: its text, what it is relocated to, and its place."""
        self.function = function
        self.by_place = {place: i for i, place in enumerate(function.numbers)}
        self.sums = {}  # instruction that adds to a pointer: (map, whether what is added is MASKED, on all paths)
        before = {0: {}}
        waiting = [0] if function.code else []
        while waiting:
            i = waiting.pop()
            after = self.step(i, dict(before[i]))
            for following in self.successors(i):
                old = before.get(following)
                new = after if old is None else {k: v for k, v in old.items() if after.get(k) == v}
                if new != old:
                    before[following] = new
                    waiting.append(following)

    def successors(self, i):
        code = self.function.code[i]
        jump = re.search(r"goto ([+-]\d+)$", code)
        found = [] if code == "exit" or code.startswith("goto") else [i + 1]
        if jump:
            found.append(self.by_place[self.function.numbers[i] + 1 + int(jump[1])])
        return [n for n in found if n < len(self.function.code)]

    def step(self, i, state):
        """The state after an instruction, which may change the one that is given."""
        code, to = self.function.code[i], self.function.to[i]
        called = re.fullmatch(r"call (-?\d+)", code)
        store, load, move = STORE.fullmatch(code), RELOAD.fullmatch(code), MOVE.fullmatch(code)
        addition, mask, constant = ADDITION.fullmatch(code), BY_MASK.fullmatch(code), BY_CONSTANT.fullmatch(code)
        if called:
            looked_up = state.get("1") if int(called[1]) == MAP_LOOKUP_ELEM and not to else None
            for register in "012345":
                state.pop(register, None)
            if looked_up and looked_up[0] == "map":
                state["0"] = ("in", looked_up[1])
        elif LOAD_MAP.fullmatch(code) and to:
            state[LOAD_MAP.fullmatch(code)[1]] = ("map", to)
        elif store:
            self.put(state, "-" + store[1], state.get(store[2]))
        elif load:
            self.put(state, load[1], state.get("-" + load[2]))
        elif move:
            self.put(state, move[1], state.get(move[2]))
        elif addition:
            self.put(state, addition[1], self.add(i, state.get(addition[1]), state.get(addition[2])))
        elif mask:
            state[mask[1]] = MASKED
        elif not constant and SPOIL.fullmatch(code):
            state.pop(SPOIL.fullmatch(code)[1], None)
        return state

    @staticmethod
    def put(state, where, what):
        state.pop(where, None)
        if what is not None:
            state[where] = what

    def add(self, i, one, other):
        for pointer, number in (one, other), (other, one):
            if isinstance(pointer, tuple) and pointer[0] == "in":
                name, good = pointer[1], number == MASKED
                self.sums[i] = name, good and self.sums.get(i, (name, True))[1]
                return pointer
        return None
