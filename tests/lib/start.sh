# SPDX-License-Identifier: LGPL-2.1-or-later
# Sourced first by tests/run.sh and tests/try.sh: root (by sudo if need be), the top directory, packages.
# shellcheck shell=bash

if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null || { echo "$0: needs root or sudo, for mount namespaces and packages" >&2; exit 1; }
        exec sudo --preserve-env=RINGSIDE_MUST_RUN -- "$0" "$@"
fi
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.." || exit 1
# Test users must be able to read and run what is built here; and nothing may wait for a terminal.
umask 022
exec </dev/null
export LANG=C.UTF-8 PATH="$PATH:/usr/sbin:/sbin"

# What root built in the clone of an ordinary user is that user's.
give_back() {
        [ -z "${SUDO_UID:-}" ] || chown -R "$SUDO_UID:${SUDO_GID:-$SUDO_UID}" build-* 2>/dev/null || true
}
trap give_back EXIT

configure() { # configure DIR OPTION...: a tree from an earlier run is used again if it can be
        local dir=$1
        shift
        if [ -e "$dir/build.ninja" ]; then
                meson setup --reconfigure "$dir" "$@" && return
                meson setup --wipe "$dir" "$@"
        else
                meson setup "$dir" "$@"
        fi
}

tests/setup.sh || exit 1
