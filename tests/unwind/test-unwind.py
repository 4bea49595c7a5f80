#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""
test-unwind.py NAME...: programs without frame pointers, whose chains of calls are known, recorded by an ordinary user over the
real bus with --unwind=table: the stacks are these, to the last frame, in 99 % of all samples from exec to exit. Runs
inside bus-env. --missing=NAME in place of a name: it could not be built, and the test is skipped.
"""

import os
import sys
import tempfile

from unwinding import COMPAT, COMPLETE, EXACT_PERCENT, MAIN, OTHER, THREAD, check_stacks, ends, guessed, program, record, stacks

from truth import check, exit_status

SECONDS = 3
# The handlers' callers: the C library's few instructions that return from signals, then whatever was interrupted.
WORKS = "(;works(;works_inner(;tiny)?)?)?"
FIRST = f";{OTHER};on_first(;first_leaf)?"
SECOND = f";{OTHER};on_second(;second_leaf)?"
HERE = f"{MAIN};interrupted"
THERE = f"{THREAD};worker_run;interrupted"


def interrupted(root, share):
    return {
        root + WORKS: 50 * share,
        root + WORKS + FIRST: 10 * share,
        root + WORKS + SECOND: 5 * share,
        root + WORKS + FIRST + SECOND: 2 * share,
        # The other way round is right as well, and seldom.
        root + WORKS + SECOND + FIRST: 0,
    }


def through(n, optional):
    """What cleans up, or catches, is a part of its function that stands elsewhere, and has a name of its own."""
    further = through(n + 1, optional) if n < 10 else ""
    return rf"(;through_{n}(\.cold)?{further}){optional}"


# It has no symbol; some tools give it this name.
STUB = r"(unwind-plt\+0x[0-9a-f]+|plt_function@plt)"

PREEMPTED = rf"(;runtime\.sigreturn(\.abi0)?(;{OTHER})*)?"

# Each: the least shares of stacks, in percent.
CASES = {
    "signals": interrupted(HERE, 1),
    "other-stack": interrupted(HERE, 0.45) | interrupted(THERE, 0.45),
    "carried": {f"{MAIN};carried_outer;carried_caller;carried_leaf": 95},
    # What makecontext() has them return to was never called, and is not told.
    "coroutines": {
        "first_coroutine;first_inner;first_leaf": 30,
        "second_coroutine;second_leaf": 30,
        f"{MAIN};take_turns;main_leaf": 30,
    },
    "threads": {
        f"{THREAD};thread_run;thread_inner;thread_leaf": 45,
        "__clone;cloned_run;cloned_inner;cloned_leaf": 45,
    },
    "vfork": {f"{MAIN};start_child;child_work;child_inner;child_leaf": 95},
    "realigned": {f"{MAIN};aligned_outer(;aligned_alloca(;aligned_leaf)?)?(;use)?": 99,
                  f"{MAIN};aligned_outer;aligned_alloca;aligned_leaf": 90},
    "large-frames": {f"{MAIN};large_first(;large){{8}};large_leaf": 95},
    "guessed": {f"{MAIN};plain_outer;plain_inner;plain_leaf": 95},
    # Until the client has brought the pages back.
    "lost-pages": {"lost_coroutine;lost_outer;lost_inner;lost_leaf": 80},
    "plt": {f"{MAIN};plt_caller;plt_function": 5, f"{MAIN};plt_caller": 1, f"{MAIN};plt_caller;{STUB}": 1},
    "prologue": {f"{MAIN};calls_it;saves_all": 30, f"{MAIN};calls_it": 1},
    "vdso": {f"{MAIN};asks_clock;(__)?clock_gettime;__vdso_clock_gettime": 50, f"{MAIN};asks_clock(;{OTHER})?": 0},
    # In flight there are the frames of the libraries that look for who catches it.
    "exceptions": {rf"{MAIN};catches_often(;catches(\.cold)?{through(1, '?')})?(;(?!through_|catch){OTHER})*": 90,
                   f"{MAIN};catches_often;catches{through(1, '')}(;{OTHER})+": 30},
    # As above. The busier the machine, the more often the runtime's own thread wakes up to interrupt who computes for long.
    "goroutines": {
        rf"runtime\.main;main\.main;main\.spinFor;main\.spinInner;main\.spinLeaf{PREEMPTED}": 45,
        rf"main\.main\.func1;main\.spinFor;main\.spinInner;main\.spinLeaf{PREEMPTED}": 45,
        rf"runtime\.clone(\.abi0)?;runtime\.mstart(\.abi0)?;runtime\.mstart0;runtime\.mstart1;runtime\.sysmon(;{OTHER})*": 0,
    },
    # The address that the other stack was left from is in no frame that the chain leads to.
    "switched": {f"{MAIN};takes_turns;same_inner;same_leaf": 45,
                 f"{MAIN};takes_turns;switch_stack;other_inner;other_leaf": 45},
    # Between are the frames of the standard library.
    "rust": {f"{MAIN}(;{OTHER})+;rust_repeat;rust_inner;rust_leaf": 45,
             f"{THREAD}(;{OTHER})+;rust_repeat;rust_inner;rust_leaf": 45},
}


# Before libgcc goes to what cleans up it writes the registers of that frame, return address included, over those that
# _Unwind_Resume() and _Unwind_RaiseException() have saved, word by word, and last where to go to. From then on a rule finds words that
# are right by themselves and belong to another frame: for 3 % of the samples here the stack has a function twice or none, and
# nothing shows it; for 1 % there is no call before the address, and the walk says so. No rule for these few instructions is
# better: what was there before is in no register, and to end all of these walks would cut more stacks than are wrong.
# A page that was lost is missing until samples that say so have come to the client.
EXACT = {"exceptions": 90, "lost-pages": 80}
WHOLE = {"exceptions": 95}
# Of the second there are no tables for where the stack changes.
GUESSED = {"guessed": (EXACT_PERCENT, 100), "switched": (45, 55)}


def test_case(directory, name):
    recording = record(directory, name, program(name), str(SECONDS))
    least = EXACT.get(name, EXACT_PERCENT)
    found = stacks(recording)
    whole = {stack: n for stack, n in found.items() if not stack.startswith("[truncated]")}
    check_stacks(name, found, CASES[name], least)
    check_stacks(f"{name}, of whole stacks", whole, CASES[name], WHOLE.get(name, EXACT_PERCENT))
    check_ends(name, recording, least)
    share = guessed(recording)
    least, most = GUESSED.get(name, (0, 1))
    check(least <= share <= most, f"{name}: {share:.2f} % of the stacks are partly guessed, to be {least} to {most} %")


def check_ends(title, recording, least):
    found = ends(recording)
    total = sum(found.values())
    share = 100.0 * found.get(COMPLETE, 0) / max(1, total)
    check(share >= least, f"{title}: {share:.2f} % of {total} walks say that they are complete, to be {least} %: {found}")


def test_bound_each_time(directory):
    """
    Calls that the dynamic linker binds anew each time: the stub goes on into the first one of the table, where the stack
    has two words more. What is in the linker itself has its frame by a register that what it calls saves, where walks do
    not follow: that ends a walk, and no such stack is taken for whole.
    """
    recording = record(directory, "bound", "env", "LD_BIND_NOT=1", program("plt"), str(SECONDS))
    found = stacks(recording, "--process=unwind-plt")
    own = {stack: n for stack, n in found.items() if stack.rpartition(";")[2].startswith(("plt_", "unwind-plt+"))}
    check_stacks("bound each time", own, {f"{MAIN};plt_caller(;{OTHER})?": 99})
    linker = {stack: n for stack, n in found.items() if stack not in own}
    good = sum(n for stack, n in linker.items() if stack.startswith((f"{MAIN};plt_caller;", "[truncated];")))
    check(good >= EXACT_PERCENT / 100 * sum(linker.values()) > 0, f"bound each time: {good} stacks in the linker of "
          f"{sum(linker.values())} are whole or say that they are not")


def test_compat(directory):
    """A 32-bit program, which no table speaks of: it is said of each sample."""
    recording = record(directory, "compat", program("compat"))
    found = ends(recording)
    total = sum(found.values())
    check(total > 0 and found.get(COMPAT, 0) >= EXACT_PERCENT / 100 * total, f"32-bit: {total} walks ended so: {found}")
    found = stacks(recording)
    # Where the kernel was interrupted nothing of the user's is known.
    user = sum(n for stack, n in found.items() if stack != "[truncated]")
    leaves = sum(n for stack, n in found.items() if stack.endswith((";compat_leaf", ";compat_inner")))
    check(user > 0.9 * total and leaves >= EXACT_PERCENT / 100 * user,
          f"32-bit: the innermost function is known in {leaves} of {user}: {found}")


def skip(name):
    print(f"not here: unwind-{name}, for which no compiler was found when the build was configured", flush=True)
    return 1 if os.environ.get("RINGSIDE_MUST_RUN") == "1" else 77


def main():
    missing = sys.argv[1].partition("--missing=")[2]
    if missing:
        return skip(missing)
    with tempfile.TemporaryDirectory(prefix="ringside-unwind-") as directory:
        os.chmod(directory, 0o777)
        for name in sys.argv[1:]:
            if name == "compat":
                test_compat(directory)
                continue
            test_case(directory, name)
            if name == "plt":
                test_bound_each_time(directory)
    return exit_status()


if __name__ == "__main__":
    sys.exit(main())
