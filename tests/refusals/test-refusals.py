#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""
What a machine can lack, taken away piece by piece: each time the refusal names it and the next step, the exit
status is the documented one, the command is not run and no recording is left. Runs inside bus-env, whose mount
namespace is our own to spoil.
"""

import json
import os
import pwd
import subprocess
import sys
import tempfile

USER = os.environ["RINGSIDE_TEST_USER_A"]
OWN_FAILURE, WRONG_USAGE = 125, 2
failed = 0


def check(good, what):
    global failed
    print("ok" if good else "not ok", "-", what, flush=True)
    failed += not good


def run(*command, **kwargs):
    return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, timeout=60, **kwargs)


def doctor(title, check_name, result, *options):
    """What ringside doctor says of one thing, and whether its exit status fits."""
    r = run("as-user", USER, "env", *options, "ringside", "doctor")
    lines = [line.split() for line in r.stdout.splitlines()]
    found = next((line[0] for line in lines if line[1:2] == [check_name]), "nothing")
    check(found == result, f"{title}: the doctor says {found} of {check_name}")
    check((r.returncode == 1) == any(line[:1] == ["FAILED"] for line in lines), f"{title}: exit {r.returncode}")


def end(name):
    """The next call starts a new one, which sees the machine as it is then."""
    for pid in run("pgrep", "-x", name).stdout.split():
        # Only those of this bus-env: another's are in another mount namespace.
        try:
            if os.readlink(f"/proc/{pid}/ns/mnt") == os.readlink("/proc/self/ns/mnt"):
                os.kill(int(pid), 9)
        except OSError:
            pass


class Refusal:
    """One attempt to record; what it said, and what it left behind."""

    def __init__(self, *options, as_root=False, environment=()):
        with tempfile.TemporaryDirectory(prefix="ringside-refusal-") as directory:
            os.chmod(directory, 0o777)
            ran = os.path.join(directory, "ran")
            command = ["env", *environment, "ringside", "record", "--no-ask", *options,
                       "-o", os.path.join(directory, "r.ringside"), "--", "touch", ran]
            r = run(*([] if as_root else ["as-user", USER]), *command)
            self.left = os.listdir(directory)
        self.status, self.text = r.returncode, r.stderr

    def expect(self, title, *words, status=OWN_FAILURE):
        missing = [word for word in words if word not in self.text]
        check(self.status == status, f"{title}: exit status {self.status}")
        check(not missing, f"{title}: says {words}" if not missing else f"{title}: no {missing} in: {self.text}")
        check("hint: " in self.text and "libbpf:" not in self.text, f"{title}: tells the next step, in words of our own")
        check(not self.left, f"{title}: nothing was run or left ({self.left})")


def hide(path):
    """Mounts nothing over a directory; returns how to undo it."""
    subprocess.run(["mount", "-t", "tmpfs", "none", path], check=True)
    return lambda: subprocess.run(["umount", "-l", path], check=True)


def test_no_btf():
    undo = hide("/sys/kernel/btf")
    end("ringside-helper")
    Refusal().expect("no BTF", "type information", "CONFIG_DEBUG_INFO_BTF")
    Refusal("--helper=direct", as_root=True).expect("no BTF, direct", "type information")
    doctor("no BTF", "btf", "FAILED")
    undo()
    end("ringside-helper")


def test_lockdown():
    """Only played, as it lasts until the next boot: loading fails, and the kernel says that it is locked down."""
    undo = hide("/sys/kernel/security")
    with open("/sys/kernel/security/lockdown", "w", encoding="ascii") as f:
        f.write("none integrity [confidentiality]\n")
    os.chmod("/sys/kernel/security/lockdown", 0o444)
    with tempfile.NamedTemporaryFile(prefix="ringside-refusal-") as empty:
        os.chmod(empty.name, 0o444)
        subprocess.run(["mount", "--bind", empty.name, "/sys/kernel/btf/vmlinux"], check=True)
    end("ringside-helper")
    Refusal().expect("lockdown", "locked down", "lockdown=integrity")
    Refusal("--helper=direct", as_root=True).expect("lockdown, direct", "locked down", "lockdown=integrity")
    doctor("lockdown", "kernel", "FAILED")
    subprocess.run(["umount", "-l", "/sys/kernel/btf/vmlinux"], check=True)
    undo()
    end("ringside-helper")


def test_no_capabilities():
    """As in a container that was given none."""
    helper = "/usr/libexec/ringside-helper"
    r = run("setpriv", "--bounding-set=-bpf,-perfmon", "--inh-caps=-bpf,-perfmon", "--", "ringside", "record",
            "--no-ask", "--helper=direct", "--", "true")
    check(r.returncode == OWN_FAILURE and "CAP_BPF or CAP_PERFMON" in r.stderr, f"no capabilities: {r.stderr.strip()}")
    r = run("setpriv", "--bounding-set=-bpf", "--inh-caps=-bpf", "--", helper)
    check(r.returncode == 1 and "CAP_BPF" in r.stderr, "no capabilities: the helper itself says so")
    Refusal("--helper=direct").expect("direct without rights", "CAP_BPF or CAP_PERFMON")


def test_no_user():
    """The helper never stays root."""
    with open("/etc/passwd", encoding="utf-8") as f:
        lines = f.readlines()
    with open("/etc/passwd", "w", encoding="utf-8") as f:
        f.writelines(line for line in lines if not line.startswith("ringside:"))
    Refusal("--helper=direct", as_root=True).expect("no system user", "no system user", "sysusers")
    with open("/etc/passwd", "w", encoding="utf-8") as f:
        f.writelines(lines)


def test_no_bus():
    nowhere = "DBUS_SYSTEM_BUS_ADDRESS=unix:path=/nonexistent"
    Refusal(environment=(nowhere,)).expect("no bus", "no system bus")
    for name in ("bus", "helper", "polkit", "budget"):
        doctor("no bus", name, "FAILED", nowhere)


def take_away(service):
    """The bus cannot start it any more; returns how to undo it."""
    path = f"/usr/share/dbus-1/system-services/{service}.service"

    def move(old, new):
        os.rename(old, new)
        run("busctl", "--system", "call", "org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus",
            "ReloadConfig")

    move(path, path + ".away")
    return lambda: move(path + ".away", path)


def test_not_installed():
    undo = take_away("org.ringside.Helper1")
    end("ringside-helper")
    Refusal().expect("not installed", "does not know org.ringside.Helper1")
    for name in ("installation", "helper", "budget"):
        doctor("not installed", name, "FAILED")
    undo()


def test_helper_readable():
    """Mode 0755 would let its own user trace it."""
    os.chmod("/usr/libexec/ringside-helper", 0o755)
    doctor("readable helper", "installation", "FAILED")
    os.chmod("/usr/libexec/ringside-helper", 0o711)
    doctor("helper as installed", "installation", "OK")


def test_no_polkit():
    undo = take_away("org.freedesktop.PolicyKit1")
    end("polkitd")
    Refusal().expect("no polkit", "polkit does not answer")
    doctor("no polkit", "polkit", "FAILED")
    undo()
    doctor("polkit again", "polkit", "OK")


def test_no_pmu():
    if run("perf", "stat", "-e", "cycles", "true").stderr.count("not supported") == 0:
        print("ok - no PMU: not tried, this machine has one", flush=True)
        return
    doctor("no PMU", "pmu", "note")
    r = run("as-user", USER, "ringside", "events", "--helper=bus", "--format=json")
    events = {e["name"]: e for e in json.loads(r.stdout)["events"]} if r.returncode == 0 else {}
    cycles, clock = events.get("cpu-cycles", {}), events.get("cpu-clock", {})
    check(cycles.get("available") is False and "cpu-clock" in cycles.get("reason", ""), f"no PMU: listed as {cycles}")
    check(clock.get("available") is True and clock.get("reason") == "", f"no PMU: listed as {clock}")
    Refusal("-e", "cpu-cycles").expect("no PMU", "cpu-cycles", "cpu-clock works everywhere")
    Refusal("-e", "cpu-cycles", "--helper=direct", as_root=True).expect("no PMU, direct", "cpu-clock works everywhere")


def test_budget():
    Refusal("-F", "30000").expect("a rate nobody may have", "20000", status=WRONG_USAGE)
    r = run("as-user", USER, "ringside", "record", "--no-ask", "-F", "1001", "-d", "1", "-o", "/tmp/never.ringside")
    check(r.returncode == 1 and "rate of one user without targets" in r.stderr and "1000" in r.stderr and
          "hint: " in r.stderr, f"budget: {r.stderr.strip()}")
    check(not os.path.exists("/tmp/never.ringside"), "budget: no recording is left")


def test_denied():
    run("polkit-rules", "none")
    Refusal().expect("denied", "org.ringside.helper1.profile-own")
    doctor("asks for a password", "polkit", "note")
    with open("/tmp/ringside-no.rules", "w", encoding="utf-8") as f:
        f.write('polkit.addRule(function (action) { if (action.id.indexOf("org.ringside.") == 0) '
                'return polkit.Result.NO; });')
    run("polkit-rules", "/tmp/ringside-no.rules")
    Refusal().expect("denied for good", "org.ringside.helper1.profile-own")
    doctor("denied for good", "polkit", "FAILED")
    run("polkit-rules", "default")


def test_ambient_capabilities():
    """With these two nobody need be root, nor be asked: there is no bus either."""
    with open("/proc/sys/kernel/perf_event_paranoid", encoding="ascii") as f:
        paranoid = int(f.read())
    if paranoid > 2:
        print("ok - ambient capabilities: not tried, perf_event_paranoid wants CAP_SYS_ADMIN", flush=True)
        return
    entry = pwd.getpwnam(USER)
    caps = "-all,+bpf,+perfmon"
    path = os.path.join(entry.pw_dir, "ambient.ringside")
    busy = os.environ["RINGSIDE_TEST_BUILD"] + "/tests/workloads/workload-busy"
    r = run("setpriv", "--reuid", str(entry.pw_uid), "--regid", str(entry.pw_gid), "--clear-groups",
            f"--inh-caps={caps}", f"--ambient-caps={caps}", "--bounding-set", caps, "--", "env", f"HOME={entry.pw_dir}",
            "DBUS_SYSTEM_BUS_ADDRESS=unix:path=/nonexistent", "ringside", "record", "--no-ask", "-q", "-o", path,
            "--", busy, "0.5", cwd="/")
    check(r.returncode == 0 and not r.stderr, f"ambient capabilities: exit status {r.returncode} {r.stderr}")
    r = run("as-user", USER, "ringside", "report", "--format=json", path)
    report = json.loads(r.stdout) if r.returncode == 0 else {}
    check(report.get("samples", 0) > 5, f"ambient capabilities: {report.get('samples')} samples")
    check(report.get("recording", {}).get("grant") == "direct", "ambient capabilities: the recording says direct")


def test_it_works():
    """After all of that the machine is whole again."""
    r = run("as-user", USER, "ringside", "record", "--no-ask", "-q", "-o", "/tmp/whole.ringside", "--", "true")
    check(r.returncode == 0, f"and with everything there it works: {r.stderr}")
    if os.path.exists("/tmp/whole.ringside"):
        os.unlink("/tmp/whole.ringside")


def test_log():
    """What libbpf has to say of all that may hold addresses, and is in no log either."""
    with open(os.environ["RINGSIDE_TEST_LOG"] + "/dbus-daemon.log", encoding="utf-8", errors="replace") as f:
        text = f.read()
    check("ringside-helper: there can be no session on this kernel" in text, "the log has what the helper says")
    check("libbpf:" not in text, "and its own words only")


def main():
    test_no_btf()
    test_lockdown()
    test_no_capabilities()
    test_no_user()
    test_no_bus()
    test_not_installed()
    test_helper_readable()
    test_no_polkit()
    test_no_pmu()
    test_budget()
    test_denied()
    test_ambient_capabilities()
    test_it_works()
    test_log()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
