#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# The main job on Debian's kernel with Debian's settings (perf_event_paranoid 3): alice, who has no right at
# all, records a program in her desktop session and sees where its time goes; without a session she is refused
# until a rule speaks for her. Meanwhile the helper's processes, as its unit starts them, hold what they should.
set -u
failed=0
fail() {
        echo "record: $*"
        failed=1
}
./driver-machine.sh || exit 1

# All there is of the programs, as no one session loads it.
out=$(./load-programs sampler.bpf.o maps.bpf.o) || fail "programs are refused, or too long"
echo "$out"

main_job='cd && rm -f shares.ringside && ringside record -F 99 -o shares.ringside -- /test/workload-shares 2 && ringside report shares.ringside'

# Prints what it got if it is not the profile of workload-shares.
check_profile() { # check_profile WHO STATUS OUTPUT
        local name
        [ "$2" = 0 ] || { fail "$1: exit status $2"; echo "$3"; return; }
        for name in takes_seventy takes_twenty takes_ten; do
                grep -q "\<$name\>" <<<"$3" || { fail "$1: no $name in the report"; echo "$3"; return; }
        done
        # Whole stacks: theirs pass through main. How long the program takes to start is the machine's affair.
        awk '$6 == "main" { main = $3 } $6 ~ /^takes_/ { takes += $3 }
                END { exit !(takes > 0 && main >= 0.97 * takes) }' <<<"$3" ||
                { fail "$1: main has not called nearly all of it"; echo "$3"; }
}

out=$(./as-session alice sh -c "$main_job")
check_profile "alice's session" $? "$out"
echo "$out"

out=$(runuser -u alice -- sh -c "$main_job" 2>&1 </dev/null)
status=$?
[ $status = 125 ] || fail "alice without a session: exit status $status, not 125"
grep -q org.ringside.helper1.profile-own <<<"$out" || { fail "the refusal does not name the action"; echo "$out"; }

cat >/etc/polkit-1/rules.d/10-alice.rules <<'END'
polkit.addRule(function (action, subject) {
        if (action.id == "org.ringside.helper1.profile-own" && subject.user == "alice")
                return polkit.Result.YES;
});
END
systemctl restart polkit
out=$(runuser -u alice -- sh -c "$main_job" 2>&1 </dev/null)
check_profile "alice with a rule" $? "$out"

# Of every process of the unit while one session is at work, all that bounds it. The keeper is the one that has
# CAP_BPF (39) and CAP_PERFMON (38) at all, and CAP_SYS_ADMIN (21) only in reserve. The bounding set is the unit's:
# nobody here has the CAP_SETPCAP it takes to make it smaller, nor, without new privileges, a use for it.
processes() {
        local pid
        for pid in $(cat "/sys/fs/cgroup$(systemctl show --value -p ControlGroup ringside-helper)/cgroup.procs"); do
                awk -v user="$(id -u ringside)" '{ f[$1] = $2 == $3 && $3 == $4 && $4 == $5 || $1 != "Uid:" ? $2 : "mixed" }
                        END { print f["CapPrm:"], f["CapEff:"], f["CapBnd:"], f["CapAmb:"], "nnp=" f["NoNewPrivs:"],
                                "seccomp=" f["Seccomp:"], f["Uid:"] == user ? "ringside" : "uid=" f["Uid:"] }' \
                        "/proc/$pid/status"
        done | sort
}

none=0000000000000000
two=000000c000000000
three=000000c000200000
unit=000000c400200000 # CAP_SYSLOG, too, which all have dropped
expected="$none $none $unit $none nnp=1 seccomp=2 ringside
$none $none $unit $none nnp=1 seccomp=2 ringside
$three $two $unit $none nnp=1 seccomp=2 ringside"
runuser -u alice -- sh -c 'cd && ringside record -q -F 99 -o long.ringside -- /test/workload-shares 3600' </dev/null &
record=$!
limit=$((SECONDS + 240))
found=
until [ "$found" = "$expected" ] || [ $SECONDS -gt $limit ]; do
        found=$(processes 2>/dev/null) # one that ends meanwhile has no status
        sleep 0.1
done
[ "$found" = "$expected" ] || { fail "while recording the helper's processes are"; echo "$found"; }
kill -0 $record 2>/dev/null || fail "the recording has ended before the helper's processes were looked at"
pkill -u alice -x workload-shares
wait $record

# This kernel's paranoia is met with CAP_SYS_ADMIN only.
out=$(setpriv --bounding-set=-sys_admin --inh-caps=-sys_admin -- \
        ringside record --helper=direct --no-ask -- true 2>&1 </dev/null)
status=$?
[ $status = 125 ] || fail "root without CAP_SYS_ADMIN: exit status $status, not 125"
grep -q perf_event_paranoid <<<"$out" || { fail "the refusal does not name perf_event_paranoid"; echo "$out"; }

# Where that is no hindrance the doctor only tells of it.
check_doctor() { # check_doctor WHO RESULT OUTPUT
        grep -q "^$2 *paranoid " <<<"$3" || { fail "the doctor does not tell $1: $2 paranoid"; echo "$3"; }
}
check_doctor "root without CAP_SYS_ADMIN" FAILED \
        "$(setpriv --bounding-set=-sys_admin --inh-caps=-sys_admin -- ringside doctor 2>&1 </dev/null)"
check_doctor alice note "$(runuser -u alice -- ringside doctor 2>&1 </dev/null)"

out=$(runuser -u bob -- sh -c "$main_job" 2>&1 </dev/null)
[ $? = 125 ] || { fail "bob is served by alice's rule"; echo "$out"; }

# A program that this kernel's verifier refuses may be missed by nobody but us.
refused=$(journalctl -b -o cat _COMM=ringside-helper | grep -iE 'libbpf:.*failed|PROG LOAD LOG')
[ -z "$refused" ] || fail "the kernel refused a program"
exit $failed
