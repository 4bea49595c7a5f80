#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# meson install puts everything where a distribution expects it, the helper unreadable.
#
#     test-install.sh BUILDDIR
set -eu
source=$(cd "$(dirname "$0")/../.." && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
DESTDIR=$tmp meson install -C "$1" --no-rebuild >"$tmp/log" 2>&1 || { cat "$tmp/log"; exit 1; }
prefix=$(meson introspect "$1" --buildoptions | python3 -c '
import json, sys
o = {x["name"]: x["value"] for x in json.load(sys.stdin)}
print(o["prefix"], o["libdir"], o["libexecdir"])')
# shellcheck disable=SC2086
set -- $prefix
failed=0
for f in bin/ringside "$3/ringside-helper" "$2/libringside.so.0" "$2/pkgconfig/ringside.pc" include/ringside.h \
        share/dbus-1/system-services/org.ringside.Helper1.service share/dbus-1/system.d/org.ringside.Helper1.conf \
        share/dbus-1/interfaces/org.ringside.Helper1.xml lib/systemd/system/ringside-helper.service \
        share/polkit-1/actions/org.ringside.helper1.policy lib/sysusers.d/ringside.conf \
        share/bash-completion/completions/ringside share/man/man1/ringside.1 share/man/man1/ringside-record.1 \
        share/man/man1/ringside-report.1 share/man/man1/ringside-flamegraph.1 share/man/man1/ringside-export.1 \
        share/man/man1/ringside-annotate.1 \
        share/man/man1/ringside-symbolize.1 \
        share/man/man1/ringside-events.1 share/man/man1/ringside-doctor.1 share/man/man8/ringside-helper.8; do
    if [ -e "$tmp$1/$f" ]; then
        echo "ok - $f"
    else
        echo "not ok - $f is not installed"
        failed=1
    fi
done
mode=$(stat -c '%a %U:%G' "$tmp$1/$3/ringside-helper")
if [ "$mode" = "711 root:root" ]; then
    echo "ok - the helper's mode is 0711 root:root"
else
    echo "not ok - the helper's mode is $mode"
    failed=1
fi
# What was installed suffices for a program of somebody else's; without a helper to ask, it says so.
export PKG_CONFIG_PATH="$tmp$1/$2/pkgconfig" PKG_CONFIG_SYSROOT_DIR="$tmp"
# shellcheck disable=SC2046
if "${CC:-cc}" -o "$tmp/example" "$source/docs/example.c" $(pkg-config --cflags --libs ringside) >"$tmp/log" 2>&1 &&
        ! DBUS_SYSTEM_BUS_ADDRESS=unix:path=/nonexistent LD_LIBRARY_PATH="$tmp$1/$2" "$tmp/example" >"$tmp/log" 2>&1 &&
        grep -q '^example: ' "$tmp/log"; then
    echo "ok - docs/example.c builds and runs by pkg-config"
else
    echo "not ok - docs/example.c does not build or run by pkg-config"
    cat "$tmp/log"
    failed=1
fi
exit $failed
