#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# build-tree.sh: a Debian 13 with no more than Python, which there can tell perf of its functions; from where this machine
# has its own packages. Nothing in it is configured, and nothing runs in it but python3.13. Cached; prints the
# directory of the tree.
# Needs root, for its owners. Exit status 77 where tools or packages cannot be had.
set -eu
umask 022
exec 3>&1 >&2 </dev/null

packages=base-files,libc6,python3.13

skip() {
        echo "build-tree: $*"
        exit 77
}

[ "$(id -u)" = 0 ] || skip "needs root, for a file system tree"
for tool in mmdebstrap apt-get flock; do
        command -v $tool >/dev/null || skip "$tool is not installed (tests/setup.sh installs it)"
done

# What makes the tree is this script: another version of it makes another one. A month old it is made anew.
cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/ringside-tests
out=$cache/python-$(sha256sum "$0" | cut -c1-16)
mkdir -p "$cache"
exec 9>"$cache/lock-python"
flock 9
if [ -e "$out/usr/bin/python3.13" ] && [ -n "$(find "$out" -maxdepth 0 -mtime -30)" ]; then
        echo "$out" >&3
        exit 0
fi
rm -rf "$cache"/new-python-* # what was interrupted
find "$cache" -maxdepth 1 -name 'python-*' -mtime +0 -exec rm -rf '{}' '+' # older ones
new=$(mktemp -d "$cache/new-python-XXXXXX")
trap 'rm -rf "$new"' EXIT

archive=$(apt-get indextargets --format '$(REPO_URI)' 'Origin: Debian' 'Label: Debian' | sort -u | head -1)
[ -n "$archive" ] || skip "this machine has no package source of Debian"
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $archive trixie main" >"$new/sources.list"
apt-config dump | grep -E '^Acquire::(http|https|Check-)' >"$new/apt.conf" || true
unshare -m --propagation private mmdebstrap --quiet --variant=extract --mode=root --include="$packages" --aptopt="$new/apt.conf" \
        --aptopt='Apt::Install-Recommends "false"' \
        --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
        --dpkgopt='path-exclude=/usr/share/locale/*' \
        trixie "$new/root" "$new/sources.list" 9>&- || skip "mmdebstrap could not make the tree"
[ -e "$new/root/usr/bin/python3.13" ] || skip "there is no python3.13 in the tree"
rm -rf "$new"/root/var/lib/apt/lists/* "$new"/root/var/cache/apt/* "$new"/root/usr/share/zoneinfo
mkdir -p "$new/root/tmp" "$new/root/proc"
chmod 755 "$new/root"
touch "$new/root" # its age is that of the tree
rm -rf "$out"
mv "$new/root" "$out"
echo "$out" >&3
