#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# tests/run.sh: installs what is missing, builds with gcc, with clang and with sanitizers, and runs every test.
# The last line is "N passed, N failed", with ", N skipped" where the machine could not do something; with
# RINGSIDE_MUST_RUN=1 a skipped test has failed. Logs are in build-*/meson-logs.
set -u
. "$(dirname "$(readlink -f "$0")")/lib/start.sh"

passed=0 failed=0 skipped=0 bad=()

progress() {
        printf 'run: %3d:%02d %s\n' $((SECONDS / 60)) $((SECONDS % 60)) "$*"
}

build() { # build DIR OPTION...
        local dir=$1 log=$1.log
        progress "$dir: building"
        if configure "$@" >"$log" 2>&1 && ninja -C "$dir" >>"$log" 2>&1; then
                return 0
        fi
        grep -v '^\[[0-9]*/' "$log" | tail -40 # without what went well
        progress "$dir: did not build, all of its output is in $log"
        failed=$((failed + 1))
        bad+=("$dir: build")
        return 1
}

run() { # run DIR MESON-TEST-OPTION...
        local dir=$1 json=$1/meson-logs/testlog.json name result
        shift
        progress "$dir: testing"
        rm -f "$json"
        # What it returns stands in the log too, test by test.
        # Timeouts are for a test that hangs, not for a machine that is slow.
        meson test -C "$dir" --no-rebuild --timeout-multiplier 4 --print-errorlogs "$@" || true
        if [ ! -s "$json" ]; then
                failed=$((failed + 1))
                bad+=("$dir: no test ran")
                return
        fi
        while IFS=$'\t' read -r result name; do
                [ "$result" = SKIP ] && [ "${RINGSIDE_MUST_RUN:-}" = 1 ] && result="SKIP, and RINGSIDE_MUST_RUN is set"
                case $result in
                OK | EXPECTEDFAIL) passed=$((passed + 1)) ;;
                SKIP) skipped=$((skipped + 1)) ;;
                *)
                        failed=$((failed + 1))
                        bad+=("$dir: $name: $result")
                        ;;
                esac
        done < <(/usr/bin/python3 -c '
import json, sys
for line in open(sys.argv[1]):
    test = json.loads(line)
    print(test["result"], test["name"], sep="\t")' "$json")
}

tables() { # tables DIR: what the system tests have found, on each kernel, as one table
        /usr/bin/python3 -c '
import itertools, json, sys
rows = []
for line in open(sys.argv[1]):
    lines = json.loads(line).get("stdout", "").splitlines()
    table = itertools.dropwhile(lambda row: row.split()[:3] != ["kernel", "session", "action"], lines)
    rows += itertools.takewhile(lambda row: not row.startswith("---"), table)
print(*[row for i, row in enumerate(rows) if i == 0 or row != rows[0]], sep="\n")
' "$1/meson-logs/testlog.json" || true
}

if build build-gcc --prefix=/usr --werror; then
        run build-gcc
        tables build-gcc
fi
CC=clang build build-clang --prefix=/usr --werror && run build-clang --suite unit
build build-asan --prefix=/usr --werror -Db_sanitize=address,undefined && run build-asan --suite unit --suite fuzz

progress "done"
for b in ${bad[@]+"${bad[@]}"}; do
        echo "failed: $b"
done
[ $skipped = 0 ] && summary= || summary=", $skipped skipped"
echo "$passed passed, $failed failed$summary"
[ $failed = 0 ]
