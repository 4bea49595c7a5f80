#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""
Containers that ordinary users start themselves, recorded from outside: programs and libraries that exist only in
there, names a JIT left in its /tmp there, the numbers processes have in there. And recorded from inside. As an ordinary
user over the real bus; runs inside bus-env.
"""

import contextlib
import os
import pwd
import re
import shutil
import subprocess
import sys
import tempfile
import time

from truth import OTHER_USER, RATE, USER, WORKLOADS, Recording, as_user, check, check_shares, comm_of, cpu_seconds
from truth import exit_status, running, workload

SHARES = {"inner_program": 33.3, "inner_library": 33.3, "inner_made": 33.3}
POINTS = 8.0
PROGRAM = "workload-inside"
PLACE = "/mnt"
BUS = "/run/dbus/system_bus_socket"
RUNTIME = "/run/ringside-runtime"  # XDG_RUNTIME_DIR
FLATPAK = "/run/ringside-flatpak"
ROOTFS = "/run/ringside-rootfs"
# Numbers that nobody else uses at the same time.
SUBUIDS_START = 200000000 + 65536 * (os.getpid() % 20000)
SUBUIDS = range(SUBUIDS_START, SUBUIDS_START + 65536)

INSIDE = f'cp "$1/{PROGRAM}" "$1/libinside.so" {PLACE} && exec {PLACE}/{PROGRAM} "$2"'
MOUNT = f"mount -t tmpfs tmpfs {PLACE} && mount -t tmpfs tmpfs /tmp && "
UNSHARE = ["unshare", "-Urmpf", "--mount-proc"]
BWRAP = ["bwrap", "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc",
         "--tmpfs", "/tmp", "--tmpfs", PLACE]
PODMAN = ["env", "XDG_RUNTIME_DIR=" + RUNTIME, "podman", "--cgroup-manager=cgroupfs", "--events-backend=file",
          "--log-level=error"]
PODMAN_RUN = [*PODMAN, "run", "--rm", "--cgroups=disabled", "--network=none", f"--volume={WORKLOADS}:{WORKLOADS}:ro",
              f"--tmpfs={PLACE}:exec,mode=1777", "--tmpfs=/tmp:mode=1777"]
TOOLBOX = "ringside-test"
TOOLBOX_PLACE = "/opt"
# What PODMAN says by options, for whoever starts podman without any.
CONTAINERS_CONF = "/run/ringside-containers.conf"
TOOLBOX_ENV = ["env", "XDG_RUNTIME_DIR=" + RUNTIME, "CONTAINERS_CONF=" + CONTAINERS_CONF]
TOOLBOX_RUN = [*TOOLBOX_ENV, "toolbox", "run", "--container", TOOLBOX]
FLATPAK_RUN = ["env", "XDG_RUNTIME_DIR=" + RUNTIME, "flatpak", "run", "--user"]


def shell(script, seconds):
    return ["sh", "-c", script, "sh", WORKLOADS, str(seconds)]


# What starts a container in which the program uses this much CPU time, and where it is in there.
CONTAINERS = {
    "unshare": (PLACE, lambda seconds: [*UNSHARE, *shell(MOUNT + INSIDE, seconds)]),
    "bwrap": (PLACE, lambda seconds: [*BWRAP, *shell(INSIDE, seconds)]),
    "bwrap in unshare": (PLACE, lambda seconds: [*UNSHARE, *BWRAP, *shell(INSIDE, seconds)]),
    "podman": (PLACE, lambda seconds: [*PODMAN_RUN, "--rootfs", ROOTFS, *shell(INSIDE, seconds)]),
    "podman, a user of its own": (PLACE, lambda seconds: [*PODMAN_RUN, "--user=1000", "--rootfs", ROOTFS,
                                                          *shell(INSIDE, seconds)]),
    "flatpak": ("/app/bin", lambda seconds: [*FLATPAK_RUN, "org.ringside.Test", str(seconds)]),
}


def copy_with_libraries(root, *programs):
    """Programs and what the dynamic linker finds for them, at the same paths."""
    wanted = {os.path.realpath(shutil.which(program)): shutil.which(program) for program in programs}
    for program in list(wanted):
        text = subprocess.run(["ldd", program], stdout=subprocess.PIPE, text=True, check=True).stdout
        wanted |= {os.path.realpath(path): path for path in re.findall(r"(?:=> |^\s)(/\S+)", text, re.M)}
    for real, path in wanted.items():
        os.makedirs(root + os.path.dirname(path), exist_ok=True)
        shutil.copy(real, root + path)


def set_up_podman():
    """A root directory without an image; numbers for those who are not root in a container; cgroups as of today."""
    copy_with_libraries(ROOTFS, "sh", "cp", "ringside")
    if not os.path.exists(ROOTFS + "/bin"):
        os.symlink("usr/bin", ROOTFS + "/bin")
    for name in ("dev", "etc", "proc", "run", "sys", "tmp", "var", PLACE[1:]):
        os.makedirs(os.path.join(ROOTFS, name), exist_ok=True)
    for name in ("etc", "run"):
        os.chmod(os.path.join(ROOTFS, name), 0o777)  # for what is mounted there, by whoever is root inside
    subprocess.run(["chown", "-R", USER, ROOTFS], check=True)
    for name in ("/etc/subuid", "/etc/subgid"):
        with open(name, "a", encoding="ascii") as f:
            f.write(f"{USER}:{SUBUIDS.start}:{len(SUBUIDS)}\n")
    subprocess.run(["umount", "-R", "/sys/fs/cgroup"], check=False)
    subprocess.run(["mount", "-t", "cgroup2", "cgroup2", "/sys/fs/cgroup"], check=True)
    # What podman leaves behind for its next run is not to be a descendant of a recording.
    as_user(*PODMAN, "ps")


def set_up_toolbox():
    """An image with what toolbox wants in one, which is little, and a container of it as toolbox makes them."""
    root = ROOTFS + "-toolbox"
    copy_with_libraries(root, "sh", "cp", "bash", "mount", "useradd", "usermod", "passwd", "capsh", "ringside")
    for name in ("dev", "etc", "home", "media", "mnt", "proc", "root", "run", "sys", "tmp", "var/lib", "var/log",
                 TOOLBOX_PLACE[1:]):
        os.makedirs(os.path.join(root, name), exist_ok=True)
    os.chmod(root + TOOLBOX_PLACE, 0o777)
    for name in ("bin", "sbin"):
        if not os.path.exists(f"{root}/{name}"):
            os.symlink("usr/" + name, f"{root}/{name}")
    for name, text in {"passwd": "root:x:0:0::/root:/bin/sh\n", "group": "root:x:0:\nsudo:x:27:\n",
                       "shadow": "root:*:19000::::::\n", "gshadow": "root:*::\nsudo:*::\n"}.items():
        with open(f"{root}/etc/{name}", "w", encoding="ascii") as f:
            f.write(text)
    with open(CONTAINERS_CONF, "w", encoding="ascii") as f:
        f.write('[engine]\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\n')
    subprocess.run(["tar", "-C", root, "-cf", root + ".tar", "."], check=True)
    # toolbox finds its dynamic linker by the /run/host of this.
    subprocess.run(["systemd-tmpfiles", "--create", "toolbox.conf"], check=True)
    as_user(*PODMAN, "import", "--change", "LABEL com.github.containers.toolbox=true", root + ".tar", TOOLBOX)
    as_user(*TOOLBOX_ENV, "toolbox", "--assumeyes", "create", "--image", "localhost/" + TOOLBOX, TOOLBOX)


def set_up_flatpak():
    """A runtime of the little that is needed, and an application, built and installed as users do."""
    copy_with_libraries(FLATPAK + "/whole", "sh", "env", "ringside")
    # It becomes /usr; the linker's own paths begin with / and with /usr.
    for tree in ("usr", "."):
        shutil.copytree(f"{FLATPAK}/whole/{tree}", FLATPAK + "/runtime/files", dirs_exist_ok=True)
    for name in ("runtime/usr", "app/files/bin", "app/export"):
        os.makedirs(f"{FLATPAK}/{name}")
    for name in (PROGRAM, "libinside.so"):
        shutil.copy(f"{WORKLOADS}/{name}", FLATPAK + "/app/files/bin")
    arch = subprocess.run(["flatpak", "--default-arch"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    with open(FLATPAK + "/runtime/metadata", "w", encoding="ascii") as f:
        f.write("[Runtime]\nname=org.ringside.Platform\n")
    with open(FLATPAK + "/app/metadata", "w", encoding="ascii") as f:
        platform = f"org.ringside.Platform/{arch}/1"
        f.write(f"[Application]\nname=org.ringside.Test\nruntime={platform}\nsdk={platform}\ncommand={PROGRAM}\n")
    subprocess.run(["chown", "-R", USER, FLATPAK], check=True)
    export = ["flatpak", "build-export", "--disable-sandbox", "--no-update-summary"]
    as_user(*export, "--runtime", "--files=files", FLATPAK + "/repo", FLATPAK + "/runtime", "1")
    as_user(*export, FLATPAK + "/repo", FLATPAK + "/app", "1")
    as_user("flatpak", "build-update-repo", FLATPAK + "/repo")
    as_user("flatpak", "--user", "remote-add", "--no-gpg-verify", "ringside", FLATPAK + "/repo")
    as_user("flatpak", "--user", "install", "--noninteractive", "ringside", "org.ringside.Test")


def set_up():
    missing = [name for name in ("bwrap", "podman", "newuidmap", "flatpak", "toolbox") if not shutil.which(name)]
    if missing:
        print(f"not installed: {', '.join(missing)} (tests/setup.sh installs all of them)")
        sys.exit(1 if os.environ.get("RINGSIDE_MUST_RUN") == "1" else 77)
    # Meson's, which would have libraries found where no container has them.
    os.environ.pop("LD_LIBRARY_PATH", None)
    os.mkdir(RUNTIME, 0o700)
    shutil.chown(RUNTIME, USER)
    set_up_podman()
    set_up_toolbox()
    set_up_flatpak()


def find_program(user):
    """A user's program in a container, by its number out here; 0: it does not run yet."""
    uid = pwd.getpwnam(user).pw_uid
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        with contextlib.suppress(OSError):
            owner = os.stat(f"/proc/{pid}").st_uid
            if comm_of(pid) == PROGRAM and (owner == uid or owner in SUBUIDS) and cpu_seconds(pid) >= 0.05:
                return pid
    return 0


@contextlib.contextmanager
def container(user, name):
    """One that goes on for long: the number of its program out here, and in there."""
    p = subprocess.Popen(["as-user", user, *CONTAINERS[name][1](300)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    outer = 0
    try:
        deadline = time.monotonic() + 100
        while not (outer := find_program(user)):
            if p.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{name}: the container does not run")
            time.sleep(0.02)
        yield outer, int(p.stdout.readline())
    finally:
        # Whoever started it waits for it.
        if outer:
            os.kill(outer, 9)
        else:
            p.kill()
        p.communicate()


def row_of_program(recording):
    rows = [row for row in recording.report("process")["rows"] if row["name"] == PROGRAM]
    return rows[0] if len(rows) == 1 else {}


def check_program(title, recording):
    """The program's shares: whatever starts a container may take a lot of time itself."""
    report = recording.report("function", "--process=" + PROGRAM)
    shares = {row["name"]: 100.0 * row["total_samples"] / report["samples"] for row in report["rows"]}
    check_shares(title, shares, SHARES | {"main": 100}, POINTS)


def check_files(title, place, recording):
    files = {f"{place}/{name}" for name in (PROGRAM, "libinside.so")}
    found = set(recording.shares("file"))
    check(files <= found and not any(map(os.path.exists, files)),
          f"{title}: its files are {', '.join(sorted(found))}, which are not out here")


def check_container(title, place, recording, inner):
    check_program(title, recording)
    check_files(title, place, recording)
    row = row_of_program(recording)
    check(row.get("inner_id") == inner, f"{title}: its number in there is {row.get('inner_id')}, to be {inner}")
    table = as_user("ringside", "report", "--by=process", recording.path)
    line = [line.split() for line in table.splitlines() if line.endswith(PROGRAM)][-1]
    check(line[-3:-1] == [str(row.get("id")), str(inner)], f"{title}: the table has both its numbers: {line}")
    return row


def test_containers(directory):
    for name, (place, command) in CONTAINERS.items():
        r = Recording(directory, name, "--", *command(1))
        row = check_container(name, place, r, int(r.printed))
        check(row.get("id") != row.get("inner_id"), f"{name}: its number out here is another")

        with container(USER, name) as (outer, inner):
            r = Recording(directory, name + ", attached", "-p", str(outer), "-d", "1")
            row = check_container(name + ", attached", place, r, inner)
            check(row.get("id") == outer, f"{name}, attached: its number out here is {row.get('id')}, to be {outer}")


def test_foreign(directory):
    """What runs in another user's container is as hidden as what runs outside of it."""
    with container(OTHER_USER, "unshare") as (outer, _), running(USER, workload("busy"), "300") as mine:
        before = cpu_seconds(outer)
        r = Recording(directory, "foreign", "-d", "1")
        check(cpu_seconds(outer) > before, "foreign: it ran meanwhile")
        ids = {row["id"] for row in r.report("process")["rows"]}
        check(mine in ids and outer not in ids and PROGRAM not in r.shares("process"), "foreign: it is not in all of mine")
        p = subprocess.run(["as-user", USER, "ringside", "record", "-p", str(outer), "-o",
                            os.path.join(directory, "refused.ringside")], stdin=subprocess.DEVNULL,
                           stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
        check(p.returncode != 0 and "not yours to see" in p.stderr, f"foreign: by its PID it is refused: {p.stderr.strip()}")


def record_inside(directory, name, place, *prefix, succeeds=True, program=workload("inside")):
    """Ringside itself in a container: the recording, or what it said instead. program: its path in there."""
    path = os.path.join(directory, name + ".ringside")
    p = subprocess.run(["as-user", USER, *place, *prefix, "ringside", "record", "-q",
                        "--no-ask", "-F", str(RATE), "-o", path, "--", program, "1"],
                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60,
                       check=False)
    check((p.returncode == 0) == succeeds, f"{name}: exit {p.returncode} {p.stderr.strip()}")
    if not succeeds:
        return p.stderr
    # Here, since it is a file like any other.
    return Recording.of_file(path, p.stdout)


def check_inside(name, recording):
    check_program(name, recording)
    row = row_of_program(recording)
    check(row.get("id") == int(recording.printed) and "inner_id" not in row,
          f"{name}: its number is the one it has in there, {row.get('id')}")


def test_inside(directory):
    """A client in a container, that sees what is in there under the numbers it has in there."""
    sandbox = ["bwrap", "--unshare-all", "--die-with-parent", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp",
               "--bind", directory, directory, "--ro-bind", WORKLOADS, WORKLOADS]
    for tree in ("/usr", "/bin", "/lib", "/lib64"):
        sandbox += ["--ro-bind-try", tree, tree]
    text = record_inside(directory, "sandbox without the bus", sandbox, succeeds=False)
    check("bus" in text, f"sandbox without the bus: it says so: {text.strip()}")
    sandbox += ["--ro-bind", BUS, BUS]
    check_inside("sandbox", record_inside(directory, "sandbox", sandbox))

    # As root of a user namespace everything has all capabilities there.
    root = [*UNSHARE, "sh", "-c", 'mount -t tmpfs tmpfs /tmp && exec "$@"', "sh"]
    text = record_inside(directory, "root in there", root, succeeds=False)
    check("not yours to see" in text, f"root in there: it says so: {text.strip()}")
    drop = ["setpriv", "--inh-caps=-all", "--bounding-set=-all"]
    check_inside("root without capabilities", record_inside(directory, "root-without", root, *drop))

    # A user of its own, with the bus.
    podman = [*PODMAN_RUN, "--userns=keep-id", f"--volume={directory}:{directory}", f"--volume={BUS}:{BUS}", "--rootfs",
              ROOTFS]
    check_inside("inside podman", record_inside(directory, "inside podman", podman))

    # Flatpak's filter of the bus, which --system-talk-name goes through, does not get along with sd-bus.
    flatpak = [*FLATPAK_RUN, "--filesystem=" + directory, f"--filesystem={WORKLOADS}:ro", "--command=env"]
    text = record_inside(directory, "inside flatpak without the bus", [*flatpak, "org.ringside.Test"], succeeds=False)
    check("bus" in text, f"flatpak without the bus: it says so: {text.strip()}")
    bus = "--socket=system-bus"
    check_inside("inside flatpak", record_inside(directory, "inside flatpak", [*flatpak, bus, "org.ringside.Test"]))
    filtered = [*flatpak, "--system-talk-name=org.ringside.Helper1", "org.ringside.Test"]
    text = record_inside(directory, "inside flatpak, filtered", filtered, succeeds=False)
    check(bus in text, f"flatpak, filtered: it says what to do: {text.strip()}")

    text = record_inside(directory, "outer proc", ["unshare", "-cpf"], succeeds=False)
    check("another pid namespace" in text, f"outer proc: it says so: {text.strip()}")


def test_toolbox(directory):
    """It has the host's processes and bus, /tmp and the home of its user; all else of the host is below /run/host."""
    workloads = "/run/host" + WORKLOADS
    home = pwd.getpwnam(USER).pw_dir
    try:
        check_inside("inside toolbox", record_inside(home, "inside toolbox", TOOLBOX_RUN, program=f"{workloads}/{PROGRAM}"))
        # It is started by now, by nobody who is recorded.
        script = f'cp "$1/{PROGRAM}" "$1/libinside.so" {TOOLBOX_PLACE} && exec {TOOLBOX_PLACE}/{PROGRAM} 1'
        r = Recording(directory, "toolbox", "--", *TOOLBOX_RUN, "sh", "-c", script, "sh", workloads)
        check_inside("toolbox", r)
        check_files("toolbox", TOOLBOX_PLACE, r)
    finally:
        as_user(*PODMAN, "kill", TOOLBOX)


def main():
    with tempfile.TemporaryDirectory(prefix="ringside-containers-", dir="/run") as directory:
        os.chmod(directory, 0o777)
        set_up()
        test_containers(directory)
        test_foreign(directory)
        test_inside(directory)
        test_toolbox(directory)
    return exit_status()


if __name__ == "__main__":
    sys.exit(main())
