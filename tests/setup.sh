#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# Installs what tests/packages.txt names and this machine lacks. Silent when nothing is missing.
set -eu
here=$(dirname "$(readlink -f "$0")")

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
        echo "setup: this is no Debian; install what corresponds to $here/packages.txt" >&2
        exit 1
fi

missing=()
while read -r package; do
        # db:Status-Status is "installed" and nothing else for what is there and configured.
        [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
done < <(sed 's/#.*//; s/[[:space:]]//g; /^$/d' "$here/packages.txt")
[ ${#missing[@]} -gt 0 ] || exit 0

sudo=()
if [ "$(id -u)" != 0 ]; then
        if ! command -v sudo >/dev/null; then
                echo "setup: missing packages: ${missing[*]}" >&2
                echo "setup: neither root nor sudo is here; as root: apt-get install ${missing[*]}" >&2
                exit 1
        fi
        sudo=(sudo)
fi
apt=("${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=600)
log=$(mktemp)
trap 'rm -f "$log"' EXIT

echo "setup: installing ${missing[*]}"
# Out of date lists are the usual reason for a failure; a failing update alone (one dead source of several) is none.
"${apt[@]}" update >"$log" 2>&1 </dev/null || true
if ! "${apt[@]}" install -y --no-install-recommends "${missing[@]}" >>"$log" 2>&1 </dev/null; then
        tail -20 "$log" >&2
        echo "setup: apt-get failed; missing packages: ${missing[*]}" >&2
        exit 1
fi
