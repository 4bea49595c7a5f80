#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# nspawn.sh [--build DIR] [--file FILE]... DRIVER: boots systemd with logind, polkit and dbus (tree by
# build-tree.sh) in a container on this machine's kernel, with Ringside installed from the build tree, and runs
# DRIVER there (machine.sh). Its output is ours, and so is its exit status; 77 where this machine cannot do it (1
# with RINGSIDE_MUST_RUN=1).
#
# Mounts and processes stand in namespaces that end with this script, kill -9 included. A cgroup may be left
# behind then, empty, for the next run to remove.
. "$(dirname "$(readlink -f "$0")")/machine.sh"
limit=${RINGSIDE_TEST_LIMIT:-1500} # seconds, as in qemu.sh

need systemd-nspawn unshare setpriv timeout flock
tree=$(cached build-tree.sh)

work=$(scratch)
container=
trap '[ -z "$container" ] || kill $container 2>/dev/null; rm -rf "$work"' EXIT
trap 'exit 143' TERM
trap 'exit 130' INT
mkdir "$work/results" "$work/root" "$work/scratch"
stage "$work/stage" 'exec >/results/output 2>&1 </dev/null
finish() {
        exit $status
}'

# What runs in the namespaces, with $work, $tree, $limit and $number.
# shellcheck disable=SC2016
inside='
mount -t tmpfs ringside-test /run # where the container would be known by its name
mount -t tmpfs ringside-test "$work/scratch"
mkdir "$work/scratch/upper" "$work/scratch/work"
mount -t overlay ringside-test "$work/root" -o \
        "lowerdir=$work/stage:$tree/root,upperdir=$work/scratch/upper,workdir=$work/scratch/work"

# A cgroup of our own, in the hierarchy of version 2, whatever the machine has mounted.
mountpoint -q /sys/fs/cgroup && umount -l /sys/fs/cgroup
mount -t cgroup2 cgroup2 /sys/fs/cgroup
exec 9>"${TMPDIR:-/tmp}/ringside-nspawn.lock"
flock 9
remove() {
        find "$1" -depth -type d -exec rmdir "{}" + 2>/dev/null || true
}
for dir in /sys/fs/cgroup/ringside-test-nspawn-*; do
        ! grep -qs "populated 0" "$dir/cgroup.events" || remove "$dir"
done
own=/sys/fs/cgroup/ringside-test-nspawn-$number
mkdir "$own"
echo 0 >"$own/cgroup.procs"
exec 9>&-

status=0
timeout -k 5 "$limit" systemd-nspawn -q -M "ringside-test-$number" -D "$work/root" -b --register=no --keep-unit \
        --private-network --capability=CAP_BPF,CAP_PERFMON,CAP_SYSLOG --system-call-filter="bpf perf_event_open" \
        --bind="$work/results:/results" </dev/null || status=$?
echo 0 >/sys/fs/cgroup/cgroup.procs
remove "$own"
exit $status
'
: >"$work/results/output"
work=$work tree=$tree limit=$limit number=$$ setpriv --pdeathsig KILL \
        unshare --mount --propagation private --pid --fork --kill-child --mount-proc -- \
        bash -eu -c "$inside" >"$work/console" 2>&1 </dev/null &
container=$!
# In the background, since a signal waits for what runs in the foreground.
tail -q -n +1 -f --pid=$container -s 0.2 "$work/results/output" &
shown=$!
status=0
wait $container || status=$?
container=
wait $shown || true
if [ $status != 0 ] && [ ! -s "$work/results/output" ] || [ $status = 124 ]; then
        echo "nspawn: the machine did not run the test to its end ($status, 124 is the limit of $limit s)" >&2
        tail -30 "$work/console" >&2
        exit 125
fi
exit $status
