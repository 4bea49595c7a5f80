#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# tests/bench/unwind.sh [--build DIR] [--quick] ...: stacks of programs without frame pointers, beside perf's, and what they
# cost. No test: its result is a table. Needs root and a quiet machine; --help has the rest.
set -eu
here=$(dirname "$(readlink -f "$0")")
build=
if [ "${1:-}" = --build ]; then
        build=$(readlink -f "$2")
        shift 2
fi
if [ -z "$build" ]; then
        . "$here/../lib/start.sh"
        build=$PWD/build-bench
        configure "$build" --prefix=/usr >"$build.log" 2>&1 && ninja -C "$build" >>"$build.log" 2>&1 ||
                { echo "unwind.sh: did not build, see $build.log" >&2; exit 1; }
fi
ninja -C "$build" tests/bench/get-stack >/dev/null ||
        { echo "unwind.sh: did not build tests/bench/get-stack" >&2; exit 1; }
exec "$here/../lib/bus-env" --build "$build" -- /usr/bin/python3 "$here/unwind.py" "$@"
