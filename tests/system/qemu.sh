#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# qemu.sh [--kernel VERSION] [--build DIR] [--file FILE]... DRIVER: boots one of Debian's own kernels (6.1; see
# fetch-kernel.sh) with systemd as PID 1, logind, polkit and dbus (tree by build-tree.sh, plain emulation, no
# KVM), with Ringside installed from the build tree, and runs DRIVER there (machine.sh). Its output is ours, and
# so is its exit status; 77 where this machine cannot do it (1 with RINGSIDE_MUST_RUN=1), 125 when the machine
# did not come to an end by itself.
. "$(dirname "$(readlink -f "$0")")/machine.sh"
limit=${RINGSIDE_TEST_LIMIT:-1500} # seconds: ten times what an idle machine needs, for nothing here is about time

need qemu-system-x86_64 cpio timeout setpriv
tree=$(cached build-tree.sh)
image=$(cached fetch-kernel.sh "$kernel")

work=$(scratch)
qemu=
trap '[ -z "$qemu" ] || kill $qemu 2>/dev/null; rm -rf "$work"' EXIT
trap 'exit 143' TERM
trap 'exit 130' INT

mkdir -p "$work/stage/usr/lib"
cp -r "$image/modules" "$work/stage/usr/lib/"
# The driver's output goes to a serial line of its own, and ends with its status.
# shellcheck disable=SC2016
stage "$work/stage" 'stty -F /dev/ttyS1 raw -echo 115200
exec >/dev/ttyS1 2>&1 </dev/null
depmod -a 2>/dev/null # it misses the lists of what is built in
finish() {
        echo "ringside-test-status $status"
        # The line must be out before the machine is gone: setting it waits for that.
        stty -F /dev/ttyS1 raw -echo
        systemctl poweroff -ff >/dev/null 2>&1
}'
(cd "$work/stage" && find . -print0 | cpio --quiet -0 -o -H newc -R 0:0) >"$work/stage.cpio"
cat "$tree/tree.cpio" "$work/stage.cpio" >"$work/all.cpio"

# pc and not microvm, which sometimes hangs; without cx16, which qemu 7.2 emulates wrongly. Each dies with its
# parent, however we end.
boot() {
        : >"$work/output"
        setpriv --pdeathsig KILL timeout --foreground -k 5 "$limit" setpriv --pdeathsig KILL \
                qemu-system-x86_64 -machine pc -accel tcg,thread=multi -cpu max,cx16=off -smp 2 -m 2048 \
                -kernel "$image/vmlinuz" -initrd "$work/all.cpio" \
                -append "console=ttyS0,115200 rdinit=/init panic=-1 quiet loglevel=4 systemd.show_status=0 no_timer_check" \
                -display none -nodefaults -no-reboot -serial "file:$work/console" -serial "file:$work/output" \
                </dev/null &
        qemu=$!
        # In the background, since a signal waits for what runs in the foreground.
        tail -q -n +1 -f --pid=$qemu -s 0.2 "$work/output" | grep --line-buffered -v '^ringside-test-status ' &
        shown=$!
        result=0
        wait $qemu || result=$?
        qemu=
        wait $shown || true

        status=$(sed -n 's/^ringside-test-status \([0-9]*\)$/\1/p' "$work/output" | tail -1)
}

boot
# Seen once in a hundred boots: the emulated processors lose the race of a kernel that patches its own code, in its idle
# loop. Nothing of ours may be in what it says, and it is told.
if [ -z "$status" ] && grep -q "Kernel panic" "$work/console" && ! grep -qE "bpf_|perf_|Comm: ringside" "$work/console"; then
        echo "qemu: the emulated kernel has crashed, by nothing of ours; it is started once more:" >&2
        tail -60 "$work/console" >&2
        boot
fi
if [ -z "$status" ]; then
        echo "qemu: the machine did not run the test to its end (qemu: $result, 124 is the limit of $limit s)" >&2
        tail -30 "$work/console" >&2
        exit 125
fi
exit "$status"
