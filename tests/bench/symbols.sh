#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# tests/bench/symbols.sh [--build DIR] ...: lines and inlined functions of a program with much debug information, beside
# addr2line. No test: its result is a table. Needs root and a quiet machine; --help has the rest.
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
                { echo "symbols.sh: did not build, see $build.log" >&2; exit 1; }
fi
exec "$here/../lib/bus-env" --build "$build" -- /usr/bin/python3 "$here/symbols.py" "$@"
