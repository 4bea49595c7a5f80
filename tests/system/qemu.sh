#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# qemu.sh [--build DIR] [--file FILE]... DRIVER: boots Debian's own 6.1 kernel with systemd as PID 1, logind,
# polkit and dbus (tree by build-tree.sh, plain emulation, no KVM), with Ringside installed from the build tree,
# and runs DRIVER there as root in a systemd unit when the machine is up. DRIVER finds the FILEs in its current
# directory, /test. Its output is ours, and so is its exit status; 77 where this machine cannot do it (1 with
# RINGSIDE_MUST_RUN=1), 125 when the machine did not come to an end by itself.
set -eu
umask 022
here=$(dirname "$(readlink -f "$0")")
limit=240 # seconds; an idle machine needs 15 to 40

skip() {
        echo "qemu: $*" >&2
        [ "${RINGSIDE_MUST_RUN:-}" = 1 ] && exit 1
        exit 77
}

build=""
files=()
while [ $# -gt 1 ]; do
        case $1 in
        --build) build=$2 ;;
        --file) files+=("$2") ;;
        *) echo "qemu: unknown option $1" >&2; exit 125 ;;
        esac
        shift 2
done
driver=$1

for tool in qemu-system-x86_64 cpio timeout; do
        command -v $tool >/dev/null || skip "$tool is not installed (tests/setup.sh installs it)"
done
tree=$("$here/build-tree.sh") || { [ $? = 77 ] && skip "no tree to boot"; exit 125; }

work=$(mktemp -d "${TMPDIR:-/tmp}/ringside-qemu-XXXXXX")
qemu=
trap '[ -z "$qemu" ] || kill $qemu 2>/dev/null; rm -rf "$work"' EXIT
trap 'exit 143' TERM
trap 'exit 130' INT

# What is installed on top: the build, as a package would bring it, and the driver.
stage=$work/stage
mkdir -p "$stage/test" "$stage/etc/systemd/system/multi-user.target.wants"
cp -p "$tree"/etc/* "$stage/etc/"
if [ -n "$build" ]; then
        meson install -C "$build" --no-rebuild --quiet --strip --destdir "$stage" </dev/null
        systemd-sysusers --root="$stage" # finds what the build has just put there
fi
install -m 755 "$driver" "$stage/test/driver"
for f in ${files[@]+"${files[@]}"}; do
        install -m 755 "$f" "$stage/test/"
done

# The driver's output goes to a serial line of its own, and ends with its status.
cat >"$stage/test/run" <<'END'
#!/bin/bash
stty -F /dev/ttyS1 raw -echo 115200
exec >/dev/ttyS1 2>&1 </dev/null
systemctl is-system-running --wait >/dev/null
./driver
status=$?
if [ $status != 0 ]; then
        echo "--- journal"
        journalctl -b --no-pager -o short-monotonic -p debug | grep -iE 'ringside|polkit|dbus|audit|fail' | tail -60
fi
echo "ringside-test-status $status"
# The line must be out before the machine is gone.
stty -F /dev/ttyS1 -a >/dev/null
sleep 0.3
systemctl poweroff -ff >/dev/null 2>&1
END
chmod 755 "$stage/test/run"
cat >"$stage/etc/systemd/system/ringside-test.service" <<'END'
[Service]
Type=exec
WorkingDirectory=/test
ExecStart=/test/run
Environment=LANG=C.UTF-8 HOME=/root
END
ln -s ../ringside-test.service "$stage/etc/systemd/system/multi-user.target.wants/"
(cd "$stage" && find . -print0 | cpio --quiet -0 -o -H newc -R 0:0) >"$work/stage.cpio"
cat "$tree/tree.cpio" "$work/stage.cpio" >"$work/all.cpio"

# pc and not microvm, which sometimes hangs; without cx16, which qemu 7.2 emulates wrongly.
: >"$work/output"
timeout --foreground -k 5 $limit qemu-system-x86_64 -machine pc -accel tcg,thread=multi -cpu max,cx16=off -smp 2 -m 2048 \
        -kernel "$tree/vmlinuz" -initrd "$work/all.cpio" \
        -append "console=ttyS0,115200 rdinit=/init panic=-1 quiet loglevel=4 systemd.show_status=0" \
        -display none -nodefaults -no-reboot -serial "file:$work/console" -serial "file:$work/output" \
        </dev/null &
qemu=$!
tail -q -n +1 -f --pid=$qemu -s 0.2 "$work/output" | grep --line-buffered -v '^ringside-test-status ' || true
result=0
wait $qemu || result=$?
qemu=

status=$(sed -n 's/^ringside-test-status \([0-9]*\)$/\1/p' "$work/output" | tail -1)
if [ -z "$status" ]; then
        echo "qemu: the machine did not run the test to its end (qemu: $result, 124 is the limit of $limit s)" >&2
        tail -30 "$work/console" >&2
        exit 125
fi
exit "$status"
