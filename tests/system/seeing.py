# SPDX-License-Identifier: LGPL-2.1-or-later
"""What a recording has: whose processes, by which numbers, and the kernel's names."""

import contextlib
import re
import subprocess

from machine import Failure, check, collapsed, sh, until


def runs(command, name):
    """Whether it has come to be the program of that name."""
    if command.ended():
        raise Failure(f"{name}: {command.wait()}")
    # One that ends just now is told of the next time, with what it said.
    with contextlib.suppress(FileNotFoundError, ProcessLookupError), \
            open(f"/proc/{command.pid}/comm", encoding="utf-8", errors="replace") as f:
        return f.read().rstrip("\n") == name
    return False


RULE = """polkit.addRule(function (action, subject) {
        if (ACTIONS.indexOf(action.id) >= 0 && subject.isInGroup("developers"))
                return polkit.Result.YES;
});
"""


def allow(users, actions=("own",)):
    """As docs/polkit.md has it for machines without a screen."""
    sh("groupadd", "-f", "developers")
    for user in users:
        sh("usermod", "-aG", "developers", user)
    with open("/etc/polkit-1/rules.d/50-ringside.rules", "w", encoding="utf-8") as f:
        f.write(RULE.replace("ACTIONS", str([f"org.ringside.helper1.profile-{action}" for action in actions])))
    sh("systemctl", "restart", "polkit")


def two_at_once(a, b):
    """Both record all they may see, while both have something to be seen."""
    commands = []
    for session in a, b:
        sh("cp", "--remove-destination", "/test/workload-busy", f"/test/{session.user}-busy")
    for session in a, b:
        commands.append(session.start("sh", "-c", f"rm -f r.ringside; /test/{session.user}-busy 100 & "
                                      "ringside record -q -F 99 -d 5 -o r.ringside; kill $!"))
    for command in commands:
        status, text = command.wait()
        check(status == 0, f"{status}: {text}")
    for session, other in (a, b), (b, a):
        stacks = collapsed(session, "r.ringside")
        own = sum(n for stack, n in stacks.items() if stack.startswith(f"{session.user}-busy"))
        check(own > 0, f"{session.user} does not see what is theirs: {stacks}")
        check(not any(other.user in stack for stack in stacks), f"{session.user} sees {other.user}: {stacks}")
    return "each sees only their own"


def what_may_be_read(session):
    """
    Of one user's programs those that the user may read, each kernel keeping in its own way what says so: neither a
    program whose file cannot be read nor a setuid one; and within a user namespace of the user's own the same.
    """
    modes = {"plain": "755", "unread": "711", "setuid": "4755", "ns-plain": "755", "ns-unread": "711"}
    for name, mode in modes.items():
        sh("install", "-m", mode, "/test/workload-busy", f"/test/{name}")
    commands = [session.start(f"/test/{name}", "1000") for name in ("plain", "unread", "setuid")]
    commands += [session.start("unshare", "-Ur", f"/test/{name}", "1000") for name in ("ns-plain", "ns-unread")]
    try:
        for command in commands:
            name = command.command[-2].rsplit("/", 1)[1]
            until(f"{name} runs", lambda: runs(command, name))
        session.shell("rm -f r.ringside; ringside record -q -F 99 -d 5 -o r.ringside")
    finally:
        for command in commands:
            command.terminate()
    seen = {stack.split(";")[0] for stack in collapsed(session, "r.ringside")} & set(modes)
    check(seen == {"plain", "ns-plain"}, f"seen: {seen}")
    return "those that the kernel lets their user read"


def pid_is_right(run):
    """run(script): its output. A recorded program has the number that it has for its user."""
    text = run("cd; rm -f r.ringside; ringside record -q -F 99 -o r.ringside -- "
               "sh -c 'echo number $$; exec /test/workload-busy 0.5'; ringside report --by=process r.ringside")
    number = re.search(r"^number (\d+)$", text, re.M)
    recorded = re.search(r"^ *[0-9.]+ % .* (\d+)  workload-busy$", text, re.M)
    check(number and recorded, text)
    check(number[1] == recorded[1], f"{recorded[1]} instead of {number[1]}")
    return "the number it has for its user"


def in_pid_namespace(user):
    """Without a session, so there must be a rule."""
    return pid_is_right(lambda script: sh("unshare", "--pid", "--fork", "--mount-proc", "--kill-child", "--",
                                          "runuser", "-u", user, "--", "sh", "-c", script))


def only_the_unit(session, manager):
    """A unit's processes, and none of the user's others. manager: options that say whose unit it is."""
    for name in "inside", "outside":
        sh("cp", "--remove-destination", "/test/workload-busy", f"/test/{name}")
    if manager:
        session.shell(f"systemd-run {manager} --quiet --collect --unit=within /test/inside 100")
    else:
        sh("systemd-run", "--quiet", "--collect", "--unit=within", f"--uid={session.user}", "/test/inside", "100")
    try:
        session.shell("rm -f r.ringside; /test/outside 100 & "
                      f"ringside record -q -F 99 -d 5 -o r.ringside {manager} --unit=within; kill $!")
    finally:
        if manager:
            session.shell(f"systemctl {manager} stop within")
        else:
            sh("systemctl", "stop", "within")
    stacks = collapsed(session, "r.ringside")
    check(stacks and all("inside;" in stack for stack in stacks), f"samples: {stacks}")
    return "its processes, and no others"


def restarted_unit(session):
    """Systemd makes another cgroup for a unit that is started again; that this is not recorded is said."""
    sh("systemd-run", "--quiet", "--collect", "--unit=within", f"--uid={session.user}", "/test/workload-busy", "100")
    try:
        session.shell("rm -f r.ringside")
        command = session.start("ringside", "record", "-F", "99", "-d", "200", "-o", "r.ringside", "--unit=within")
        until("samples", lambda: sh("find", f"/home/{session.user}", "-name", "r.ringside"))
        sh("systemctl", "restart", "within")
        command.until_said("The unit within.service was started again")
        command.terminate()
        text = command.wait()[1]
    finally:
        sh("systemctl", "stop", "within")
    check("The unit within.service was started again meanwhile" in text, f"in the summary: {text}")
    return "said"


def everybody(session, other):
    """With profile-system: the other's program, by its functions."""
    sh("cp", "--remove-destination", "/test/workload-busy", f"/test/{other.user}-busy")
    command = other.start(f"/test/{other.user}-busy", "100")
    session.shell("rm -f r.ringside; ringside record -q -a -F 999 -d 5 -o r.ringside")
    command.terminate()
    command.wait()
    stacks = collapsed(session, "r.ringside")
    check(any(stack.startswith(f"{other.user}-busy") and "busy_loop" in stack for stack in stacks),
          f"{other.user}'s program: {list(stacks)[:10]}")
    return f"{other.user}'s program, by its functions"


def idle_softirqs(session):
    """A CPU that has nothing to do but interrupts' work is seen at that, and never asleep."""
    def look():
        session.shell("rm -f r.ringside; ringside record -q -a -F 499 -d 3 -o r.ringside")
        idle = {stack: n for stack, n in collapsed(session, "r.ringside").items() if stack.startswith("[idle softirq]")}
        # The kernel's own walk ends in the thunk of an indirect jump, now and then.
        cut = [stack for stack in idle if stack.count(";") == 1 and "_thunk_" in stack]
        check(all("softirq" in stack.partition(";")[2] for stack in idle if stack not in cut), f"no softirqs: {idle}")
        check(sum(idle[stack] for stack in cut) <= max(1, sum(idle.values()) / 20), f"cut off: {idle}")
        return sum(n for stack, n in idle.items() if "net_rx_action" in stack)

    with subprocess.Popen(["unshare", "-n", "-m", "/test/datagrams.py", "0", "1"], stdin=subprocess.DEVNULL,
                          stdout=subprocess.DEVNULL) as p:
        try:
            until("softirqs on an idle CPU are seen", look)
            check(p.poll() is None, "nothing is sent")
        finally:
            p.kill()
    return "as [idle softirq], and never asleep"
