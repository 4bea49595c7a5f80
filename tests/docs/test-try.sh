#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# tests/try.sh on a copy of the source, as from a fresh clone: it ends well, shows what it promises in few lines,
# and leaves what it names.
#
#     test-try.sh SOURCE-DIRECTORY
set -eu
top=$(mktemp -d)
trap 'rm -rf "$top"' EXIT
chmod 755 "$top"
mkdir "$top/clone"
# Neither builds (of any name) nor what they leave.
builds=()
for b in "$1"/*/build.ninja; do
        [ ! -e "$b" ] || builds+=(--exclude="./$(basename "$(dirname "$b")")")
done
tar -C "$1" --exclude=./.git --exclude='./*.log' ${builds[@]+"${builds[@]}"} -c . | tar -C "$top/clone" -x
# Reports of meson's own tests are not for the one inside.
unset DESTDIR MESON_BUILD_ROOT MESON_SOURCE_ROOT

status=0
"$top/clone/tests/try.sh" >"$top/output" 2>&1 || status=$?
[ $status != 77 ] || { cat "$top/output"; exit 77; }
failed=0
check() { # check WHAT COMMAND...
        local what=$1
        shift
        if "$@"; then
                echo "ok - $what"
        else
                echo "not ok - $what"
                failed=1
        fi
}
check "try.sh succeeds" [ $status = 0 ]
for kind in user root; do
        check "the recording of $kind is there" [ -s "$top/clone/build-try/$kind.ringside" ]
        check "the flame graph of $kind is there" grep -q table_read "$top/clone/build-try/$kind.html"
        check "it tells where" grep -q "file://$top/clone/build-try/$kind.html" "$top/output"
done
check "the program's functions are reported twice" [ "$(grep -c '%.*table_read  *wordcount$' "$top/output")" = 2 ]
check "it tells how it goes" grep -q '^== It works' "$top/output"
check "it takes 120 lines at most" [ "$(wc -l <"$top/output")" -le 120 ]
check "lines fit a terminal" [ "$(grep -v -e "$top" "$top/output" | wc -L)" -le 80 ]
[ $failed = 0 ] || cat "$top/output"
exit $failed
