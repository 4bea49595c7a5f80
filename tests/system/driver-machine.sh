#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# Runs in the machine: is it what the other drivers take it for?
set -u
failed=0
check() { # check WHAT IS SHOULD
        [ "$2" = "$3" ] && return
        echo "machine: $1 is '$2', not '$3'"
        failed=1
}

uname -r
check "perf_event_paranoid" "$(sysctl -n kernel.perf_event_paranoid)" 3
check "init" "$(cat /proc/1/comm)" systemd
check "kernel" "$(uname -r | cut -d. -f1-2)" 6.1
check "BTF" "$(test -r /sys/kernel/btf/vmlinux && echo yes)" yes
check "failed units" "$(systemctl list-units --failed --plain --no-legend)" ""
check "polkit" "$(busctl call org.freedesktop.DBus /org/freedesktop/DBus org.freedesktop.DBus StartServiceByName su \
        org.freedesktop.PolicyKit1 0 | cut -d' ' -f1)" u
check "alice's session" "$(./as-session alice sh -c 'id -un; grep CapEff /proc/self/status
        loginctl show-session --value -p Active -p Seat "$XDG_SESSION_ID"')" \
        "$(printf 'alice\nCapEff:\t0000000000000000\nseat0\nyes')"
exit $failed
