# SPDX-License-Identifier: LGPL-2.1-or-later
# Sourced by nspawn.sh and qemu.sh: what a machine is made of, whatever runs it.
#     [--build DIR] [--file FILE]... DRIVER
# Ringside is installed into it from the build tree, and DRIVER runs in it as root in a systemd unit when the
# machine is up. It finds the FILEs in its current directory, /test, and in $RINGSIDE_MACHINE what runs it.
# shellcheck shell=bash
set -eu
umask 022
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
name=$(basename "$0" .sh)

skip() {
        echo "$name: $*" >&2
        [ "${RINGSIDE_MUST_RUN:-}" = 1 ] && exit 1
        exit 77
}

need() { # need TOOL...
        local tool
        for tool; do
                command -v "$tool" >/dev/null || skip "$tool is not installed (tests/setup.sh installs it)"
        done
}

cached() { # cached MAKER ARGUMENT...: the directory that it prints
        "$here/$@" || { [ $? = 77 ] && skip "no machine to run"; exit 125; }
}

# A directory that is removed at the end, and by the next run after a kill -9.
scratch() {
        local dir pid
        for dir in "${TMPDIR:-/tmp}/ringside-$name"-*-??????; do
                pid=${dir%-*}
                [ -d "$dir" ] && [ ! -d "/proc/${pid##*-}" ] && rm -rf "$dir"
        done
        mktemp -d "${TMPDIR:-/tmp}/ringside-$name-$$-XXXXXX"
}

build=
files=()
kernel=6.1
while [ $# -gt 1 ]; do
        case $1 in
        --build) build=$2 ;;
        --file) files+=("$2") ;;
        --kernel) kernel=$2 ;;
        *) echo "$name: unknown option $1" >&2; exit 125 ;;
        esac
        shift 2
done
driver=$1
tree= # of build-tree.sh

# Into a tree of its own or over the machine's: the build, as a package would bring it, and the driver with what
# `ending` says to be done when it has run ($status).
stage() { # stage DIR ENDING
        local stage=$1 f
        mkdir -p "$stage/test" "$stage/etc/systemd/system/multi-user.target.wants"
        for f in passwd group shadow gshadow; do
                cp -p "$tree/root/etc/$f" "$stage/etc/" # for who adds users
        done
        if [ -n "$build" ]; then
                meson install -C "$build" --no-rebuild --quiet --strip --destdir "$stage" </dev/null
                systemd-sysusers --root="$stage" # finds what the build has just put there
        fi
        install -m 755 "$driver" "$stage/test/driver"
        for f in ${files[@]+"${files[@]}"}; do
                install -m 755 "$f" "$stage/test/"
        done
        cat >"$stage/test/run" <<END
#!/bin/bash
$2
systemctl is-system-running --wait >/dev/null
./driver
status=\$?
if [ \$status != 0 ]; then
        echo "--- journal"
        journalctl -b --no-pager -o short-monotonic -p debug | grep -iE 'ringside|polkit|dbus|audit|fail' | tail -60
fi
finish
END
        chmod 755 "$stage/test/run"
        cat >"$stage/etc/systemd/system/ringside-test.service" <<END
[Unit]
SuccessAction=exit
FailureAction=exit
[Service]
Type=exec
WorkingDirectory=/test
ExecStart=/test/run
Environment=LANG=C.UTF-8 HOME=/root PYTHONUNBUFFERED=1 RINGSIDE_MACHINE=$name
END
        ln -sf ../ringside-test.service "$stage/etc/systemd/system/multi-user.target.wants/"
}
