#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# fuzz.sh NAME SECONDS: lets libFuzzer look for inputs that break fuzz target NAME. Builds in
# $FUZZ_BUILD (default: build-fuzz beside this tree's other builds) with clang and sanitizers. What it
# finds new stays there in corpus-NAME; an input that breaks something is worth a place in corpus/NAME.
set -eu

name=${1:?usage: fuzz.sh NAME SECONDS}
seconds=${2:?usage: fuzz.sh NAME SECONDS}
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
build=${FUZZ_BUILD:-$top/build-fuzz}

[ -f "$here/fuzz-$name.c" ] || { echo "fuzz.sh: no target $name" >&2; exit 2; }
[ -d "$build" ] || CC=clang meson setup "$build" "$top" -Db_sanitize=address,undefined -Db_lundef=false \
        -Dc_args=-fsanitize=fuzzer-no-link
ninja -C "$build" -j2 "client/lib/libringside-internal.a" "common/libringside-common.a" \
        "kernel/libringside-kernel-table.a"
mkdir -p "$build/corpus-$name"
clang -std=gnu17 -D_GNU_SOURCE -g -O1 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined \
        -I"$build" -I"$top/common" -I"$top/bpf" -I"$top/kernel" -I"$top/client/lib" -I"$here" -o "$build/fuzz-$name" "$here/fuzz-$name.c" \
        "$build/client/lib/libringside-internal.a" "$build/common/libringside-common.a" \
        "$build/kernel/libringside-kernel-table.a" \
        -liberty -lz -llzma -lelf -ldw -lsqlite3 -lsystemd -ljson-c -lprotobuf-c -lpthread
exec "$build/fuzz-$name" -max_total_time="$seconds" -max_len=65536 -timeout=10 -rss_limit_mb=2048 \
        -artifact_prefix="$build/" "$build/corpus-$name" "$here/corpus/$name"
