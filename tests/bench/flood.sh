#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# tests/bench/flood.sh [--build DIR] [ROUNDS] [WAY...]: what a user who asks for too much costs others. No test:
# its result is a table. Needs root and a quiet machine.
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
                { echo "flood.sh: did not build, see $build.log" >&2; exit 1; }
fi
exec "$here/../lib/bus-env" --build "$build" -- /usr/bin/python3 "$here/flood.py" "$@"
