#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# The harness itself: what the other tests trust it for. Outside it starts itself inside bus-env, several
# ways; the product is not needed.
set -u
lib=$(dirname "$(readlink -f "$0")")
action=org.ringside.test.harness

fail() { echo "test-bus-env: $*" >&2; exit 1; }

allowed() { # allowed USER: polkit's answer about a process of USER
        local pid start
        as-user "$1" sleep 20 &
        pid=$!
        until [ "$(stat -c %U /proc/$pid)" = "$1" ]; do sleep 0.01; done
        start=$(cut -d' ' -f22 "/proc/$pid/stat")
        pkcheck --action-id $action --process "$pid,$start,$(id -u "$1")" >/dev/null 2>&1
        local r=$?
        kill $pid
        wait $pid 2>/dev/null
        return $r
}

inside() {
        local a=$RINGSIDE_TEST_USER_A b=$RINGSIDE_TEST_USER_B
        [ "$(as-user "$a" grep -cE '^Cap(Inh|Prm|Eff|Amb):	0000000000000000$' /proc/self/status)" = 4 ] \
                || fail "user A holds capabilities"
        [ "$(as-user "$a" id -un) $(as-user "$a" id -G)" = "$a $(id -g "$a")" ] || fail "user A is somebody else"
        as-user "$a" touch "/run/ringside-test/home/$a/x" || fail "user A cannot write at home"
        as-user "$b" ls "/run/ringside-test/home/$a" 2>/dev/null && fail "user B reads A's home"
        as-user "$a" test -r "$RINGSIDE_TEST_SOURCE/tests/lib/bus-env" || fail "user A cannot read the source tree"

        cat >/usr/share/polkit-1/actions/org.ringside.test.policy <<END
<?xml version="1.0" encoding="UTF-8"?>
<policyconfig><action id="$action"><message>test</message>
<defaults><allow_any>no</allow_any><allow_inactive>no</allow_inactive><allow_active>no</allow_active></defaults>
</action></policyconfig>
END
        sed "s/org.ringside.helper1.profile-own/$action/" "$lib/profile-own.rules" >/run/test.rules
        allowed "$a" && fail "allowed without a rule"
        polkit-rules /run/test.rules || fail "rule not read"
        allowed "$a" || fail "user A refused in spite of the rule"
        allowed "$b" && fail "user B allowed by A's rule"
        polkit-rules none || fail "rule not removed"
        allowed "$a" && fail "allowed after the rule was removed"

        # Activation through the setuid launcher, as root although an ordinary user asks.
        cat >/usr/share/dbus-1/system-services/org.ringside.Test1.service <<END
[D-BUS Service]
Name=org.ringside.Test1
Exec=/bin/sh -c "id -u >/run/activated"
User=root
END
        for _ in $(seq 50); do # until dbus-daemon has seen the new file
                as-user "$a" gdbus call --system --dest org.freedesktop.DBus --object-path /org/freedesktop/DBus \
                        --timeout 2 --method org.freedesktop.DBus.StartServiceByName org.ringside.Test1 0 \
                        >/dev/null 2>&1
                [ -s /run/activated ] && break
                sleep 0.1
        done
        [ "$(cat /run/activated)" = 0 ] || fail "the launcher did not start the service as root"
}

outside() {
        local before pid left
        before=$(md5sum /etc/passwd /etc/group /etc/machine-id; stat -c '%n %Y' /etc /usr/share/dbus-1/system-services)
        dir=$(mktemp -d)
        trap 'rm -rf "$dir"' EXIT

        "$lib/bus-env" --rules none -- "$0" inside &
        pid=$!
        "$lib/bus-env" --rules none -- "$0" inside || exit $?
        wait $pid || fail "two at once"

        "$lib/bus-env" -- sh -c 'exit 42' 2>/dev/null
        [ $? = 42 ] || fail "exit status not passed on"
        "$lib/bus-env" -- sh -c 'kill -9 $$' 2>/dev/null
        [ $? = 137 ] || fail "signal not passed on"
        "$lib/bus-env" --no-polkit -- pkcheck --action-id x --process $$ >/dev/null 2>&1
        [ $? != 0 ] || fail "polkit answers although there is none"
        "$lib/bus-env" --no-bus -- test -S /run/dbus/system_bus_socket 2>/dev/null && fail "a bus although there is none"

        # Killed without warning it leaves nothing: neither what it started nor what the command did, nor a
        # container of a user's.
        setsid "$lib/bus-env" -- sh -c 'setsid sleep 1000 & echo $! >'"$dir/sleep"'
                setsid as-user $RINGSIDE_TEST_USER_A unshare -Urmpf --mount-proc sleep 1000 &
                until pgrep -P $! >'"$dir/container"'; do sleep 0.05; done
                readlink /proc/self/ns/mnt >'"$dir/ns"'; wait' &
        until [ -s "$dir/ns" ]; do sleep 0.05; done
        pid=$(cat "$dir/sleep")
        kill -KILL -- -$! && wait $! 2>/dev/null
        for _ in $(seq 100); do
                left=$(find /proc -maxdepth 3 -path '/proc/[0-9]*/ns/mnt' -lname "$(cat "$dir/ns")" 2>/dev/null)
                kill -0 "$(cat "$dir/container")" 2>/dev/null && left="$left a container"
                [ -z "$left" ] && break
                sleep 0.1
        done
        [ -z "$left" ] || fail "left behind after kill -9: $left"
        [ "$before" = "$(md5sum /etc/passwd /etc/group /etc/machine-id; stat -c '%n %Y' /etc /usr/share/dbus-1/system-services)" ] \
                || fail "the machine was changed"
}

"${1:-outside}"
