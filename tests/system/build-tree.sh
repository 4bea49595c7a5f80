#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# build-tree.sh: makes a small Debian with systemd, logind, dbus and polkit, and fetches Debian's 6.1 kernel,
# both from the sources this machine installs its own packages from. Cached; prints the directory with
#     tree.cpio    the whole tree; a second cpio behind it adds or replaces files
#     etc/         its user database, for who adds users
#     vmlinuz      the kernel, which needs no modules for this
# Needs root. Exit status 77 where tools or packages cannot be had.
set -eu
umask 022
exec 3>&1 >&2 </dev/null

packages=systemd,systemd-sysv,dbus,polkitd,libpam-systemd,login,passwd,udev,kmod,util-linux,procps,libcap2-bin
packages+=,libbpf1,libelf1,libdw1,libsqlite3-0,libjson-c5,libprotobuf-c1,libseccomp2,libcap2,zlib1g
kernel_pattern='^linux-image-6\.1\.0-[0-9]+-cloud-amd64$'

skip() {
        echo "build-tree: $*"
        exit 77
}

[ "$(id -u)" = 0 ] || skip "needs root, for a file system tree"
[ "$(uname -m)" = x86_64 ] || skip "knows x86_64 machines only"
for tool in mmdebstrap cpio apt-get dpkg-deb flock; do
        command -v $tool >/dev/null || skip "$tool is not installed (tests/setup.sh installs it)"
done
. /etc/os-release
[ "${VERSION_CODENAME:-}" = bookworm ] || skip "the build must run in the tree, so this machine must be a Debian 12"

# What makes the tree is this script: another version of it makes another one. A month old it is made anew.
cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/ringside-tests
out=$cache/tree-$(sha256sum "$0" | cut -c1-16)
mkdir -p "$cache"
exec 9>"$cache/lock"
flock 9
if [ -e "$out/vmlinuz" ] && [ -n "$(find "$out" -maxdepth 0 -mtime -30)" ]; then
        echo "$out" >&3
        exit 0
fi
rm -rf "$cache"/tree-* "$cache"/new-* # older versions, and what was interrupted
new=$(mktemp -d "$cache/new-XXXXXX")
trap 'rm -rf "$new"' EXIT
mkdir "$new/out"

apt=(apt-get -q -o APT::Sandbox::User=root -o DPkg::Lock::Timeout=600)
kernel_package() {
        apt-cache pkgnames linux-image-6.1. | grep -E "$kernel_pattern" | sort -V | tail -1
}
fetch_kernel() {
        local name
        name=$(kernel_package)
        [ -n "$name" ] && (cd "$new" && "${apt[@]}" download "$name")
}
if ! fetch_kernel; then
        # The lists are empty or older than the archive.
        "${apt[@]}" update || true
        fetch_kernel || skip "cannot fetch a kernel package that matches $kernel_pattern"
fi
dpkg-deb -x "$new"/linux-image-*.deb "$new/kernel"
cp "$new"/kernel/boot/vmlinuz-* "$new/out/vmlinuz"

# The machine's own sources of Debian, with its own proxies and mirrors' peculiarities.
key=/usr/share/keyrings/debian-archive-keyring.gpg
"${apt[@]}" indextargets --format "deb [signed-by=$key] \$(REPO_URI) \$(RELEASE) \$(COMPONENT)" \
        'Identifier: Packages' 'Origin: Debian' | grep -F " $VERSION_CODENAME" >"$new/sources.list" \
        || skip "this machine has no package source of Debian"
apt-config dump | grep -E '^Acquire::(http|https|Check-)' >"$new/apt.conf" || true
tree=$new/tree
mmdebstrap --quiet --variant=minbase --mode=root --include="$packages" --aptopt="$new/apt.conf" \
        --aptopt='Apt::Install-Recommends "false"' \
        --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
        --dpkgopt='path-exclude=/usr/share/locale/*' \
        "$VERSION_CODENAME" "$tree" "$new/sources.list" 9>&- || skip "mmdebstrap could not make the tree"

# Users without any right. Names resolve, nobody has a password.
for user in alice bob; do
        chroot "$tree" useradd --create-home --shell /bin/bash $user
done
echo 7f7b3c1a5d5e4a0f9b8c6d2e1f304152 >"$tree/etc/machine-id"
echo ringside-test >"$tree/etc/hostname"
rm -rf "$tree"/var/lib/apt/lists/* "$tree"/var/cache/apt/* "$tree"/usr/share/zoneinfo "$tree"/etc/apt/sources.list*
ln -sf sbin/init "$tree/init"
# Nothing that starts later by itself, nothing that sits on the terminals the driver uses.
for unit in apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer e2scrub_reap.service \
        fstrim.timer systemd-tmpfiles-clean.timer serial-getty@ttyS0.service getty@tty1.service; do
        ln -sf /dev/null "$tree/etc/systemd/system/$unit"
done

(cd "$tree" && find . -print0 | cpio --quiet -0 -o -H newc) >"$new/out/tree.cpio"
mkdir "$new/out/etc"
(cd "$tree/etc" && cp -p passwd group shadow gshadow "$new/out/etc/")
rm -rf "$out"
mv "$new/out" "$out"
echo "$out" >&3
