#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# tests/try.sh: shows that Ringside works on this machine. Installs what is missing, builds in build-try/, and
# profiles a small program twice: as a user without any right, over a real dbus-daemon and polkitd with a polkit
# rule for that user, and as root without a bus. Nothing is installed outside a mount namespace of its own.
set -eu

say() {
        printf '\n%s\n' "$*"
}

run() { # run RINGSIDE... -- ARGUMENT...: shows the command as one would type it, and runs it
        local program=()
        while [ "$1" != -- ]; do
                program+=("$1")
                shift
        done
        shift
        say "\$ ringside $*"
        "${program[@]}" "$@"
}

profile() { # profile NAME RINGSIDE...: records, reports and draws; keeps the results in build-try/
        local name=$1
        shift
        install -m 755 "$RINGSIDE_TEST_BUILD/wordcount" .
        install -m 644 "$RINGSIDE_TEST_SOURCE/LICENSE" .
        run "$@" -- record -o wordcount.ringside -- ./wordcount LICENSE 6000
        run "$@" -- report --limit=10 wordcount.ringside
        run "$@" -- flamegraph -o wordcount.html wordcount.ringside
        install -m 644 wordcount.ringside "$RINGSIDE_TEST_BUILD/$name.ringside"
        install -m 644 wordcount.html "$RINGSIDE_TEST_BUILD/$name.html"
}

inside_user() {
        local user=$RINGSIDE_TEST_USER_A
        say "== As $user (uid $(id -u "$user"), no capability), over D-Bus and polkit"
        cd "/run/ringside-test/home/$user"
        profile user as-user "$user" ringside
}

inside_root() {
        say "== As root, where there is no bus: direct mode"
        mkdir /run/ringside-test/root
        cd /run/ringside-test/root
        profile root ringside
}

case ${1:-} in
inside-user) inside_user; exit ;;
inside-root) inside_root; exit ;;
esac

. "$(dirname "$(readlink -f "$0")")/lib/start.sh"

echo "try: building in $PWD/build-try"
if ! { configure build-try --prefix=/usr -Dtests=false && ninja -C build-try; } >build-try.log 2>&1; then
        tail -40 build-try.log >&2
        echo "try: did not build, all of its output is in build-try.log" >&2
        exit 1
fi
# Built as one builds what one wants to profile: with frame pointers, in leaf functions too, and its functions
# left apart.
cc -std=gnu17 -D_GNU_SOURCE -O2 -g -fno-omit-frame-pointer -mno-omit-leaf-frame-pointer \
        -fno-inline-functions -fno-inline-functions-called-once -o build-try/wordcount tests/workloads/wordcount.c

tests/lib/bus-env --build build-try -- "$0" inside-user
tests/lib/bus-env --build build-try --no-bus -- "$0" inside-root

say "== It works."
echo "Flame graphs: file://$PWD/build-try/user.html"
echo "              file://$PWD/build-try/root.html"
echo "Recordings:   build-try/user.ringside, build-try/root.ringside"
