#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# fetch-kernel.sh 5.10|6.1|6.12|newest: fetches Debian's own kernel for cloud machines, the newest build there is
# of it. Cached; prints the directory with
#     vmlinuz      which needs no modules to boot
#     modules/     a few that burn CPU time when they are told to, as /lib/modules has them
# Needs no root. Exit status 77 where it cannot be had.
set -eu
umask 022
exec 3>&1 >&2 </dev/null

skip() {
        echo "fetch-kernel: $*"
        exit 77
}

# Suites this machine has no source of get one of their own, with the machine's keys and from where it has its others.
archive() { # archive LABEL
        apt-get indextargets --format '$(REPO_URI)' 'Origin: Debian' "Label: $1" | sort -u | head -1
}
suite=
case ${1:-} in
6.1) pattern='linux-image-6\.1\.0-[0-9]+-cloud-amd64' ;;
6.12) pattern='linux-image-6\.12\.[0-9]+\+deb12-cloud-amd64' ;;
5.10) pattern='linux-image-5\.10\.0-[0-9]+-cloud-amd64' suite="$(archive Debian-Security) bullseye-security" ;;
newest) pattern='linux-binary-[0-9.]+\+deb13-cloud-amd64' suite="$(archive Debian) trixie-backports" ;;
*) echo "fetch-kernel: there are 5.10, 6.1, 6.12 and newest"; exit 2 ;;
esac
for tool in apt-get dpkg-deb flock; do
        command -v $tool >/dev/null || skip "$tool is not installed (tests/setup.sh installs it)"
done

cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/ringside-tests
out=$cache/kernel-$1-$(sha256sum "$0" | cut -c1-16)
mkdir -p "$cache"
exec 9>"$cache/lock-kernel-$1"
flock 9
if [ -e "$out/vmlinuz" ] && [ -n "$(find "$out" -maxdepth 0 -mtime -30)" ]; then
        echo "$out" >&3
        exit 0
fi
rm -rf "$cache/new-kernel-$1-"* # what was interrupted
find "$cache" -maxdepth 1 -name "kernel-$1-*" -mtime +0 -exec rm -rf '{}' '+' # older ones
new=$(mktemp -d "$cache/new-kernel-$1-XXXXXX")
trap 'rm -rf "$new"' EXIT
mkdir "$new/out"

options=(-q -o APT::Sandbox::User=root -o DPkg::Lock::Timeout=600)
if [ -n "$suite" ]; then
        mkdir -p "$new/lists/partial"
        echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $suite main" >"$new/sources.list"
        options+=(-o "Dir::Etc::SourceList=$new/sources.list" -o Dir::Etc::SourceParts=/dev/null
                  -o "Dir::State::Lists=$new/lists" -o "Dir::Cache=$new" -o Acquire::Languages=none)
        apt-get "${options[@]}" update || skip "no lists of $suite"
fi
package() {
        apt-cache "${options[@]}" pkgnames linux- | grep -xE "$pattern" | sort -V | tail -1
}
fetch() {
        local names
        names=$(package)
        [ -n "$names" ] || return
        # Since 7.2 the modules are a package of their own.
        names+=" $(apt-cache "${options[@]}" pkgnames "linux-modules-${names#linux-binary-}")"
        # shellcheck disable=SC2086
        (cd "$new" && apt-get "${options[@]}" download $names)
}
if ! fetch; then
        # The lists are empty or older than the archive.
        apt-get "${options[@]}" update || true
        fetch || skip "cannot fetch a kernel package that matches $pattern"
fi
for deb in "$new"/linux-*.deb; do
        dpkg-deb -x "$deb" "$new/kernel"
done
find "$new/kernel" -name 'vmlinuz*' -exec cp '{}' "$new/out/vmlinuz" ';'
for name in af_alg algif_hash wp512 rmd160; do
        module=$(find "$new/kernel" -name "$name.ko" -o -name "$name.ko.xz")
        [ -n "$module" ] || skip "$(package) has no module $name"
        path=modules/${module#"$new"/kernel/*lib/modules/}
        mkdir -p "$new/out/$(dirname "$path")"
        cp "$module" "$new/out/$path"
done
rm -rf "$out"
mv "$new/out" "$out"
echo "$out" >&3
