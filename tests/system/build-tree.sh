#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# build-tree.sh: makes a small Debian with systemd, logind, dbus and polkit from the sources this machine installs
# its own packages from. Cached; prints the directory with
#     root/        the whole tree, for a container
#     tree.cpio    the same, for a kernel; a second cpio behind it adds or replaces files
# Needs root. Exit status 77 where tools or packages cannot be had.
set -eu
umask 022
exec 3>&1 >&2 </dev/null

packages=systemd,systemd-sysv,dbus,polkitd,libpam-systemd,login,passwd,udev,kmod,util-linux,procps,libcap2-bin
packages+=,dbus-user-session,python3
packages+=,libbpf1,libelf1,libdw1,liblzma5,libsqlite3-0,libjson-c5,libprotobuf-c1,libseccomp2,libcap2,zlib1g

skip() {
        echo "build-tree: $*"
        exit 77
}

[ "$(id -u)" = 0 ] || skip "needs root, for a file system tree"
[ "$(uname -m)" = x86_64 ] || skip "knows x86_64 machines only"
for tool in mmdebstrap cpio apt-get flock; do
        command -v $tool >/dev/null || skip "$tool is not installed (tests/setup.sh installs it)"
done
. /etc/os-release
[ "${VERSION_CODENAME:-}" = bookworm ] || skip "the build must run in the tree, so this machine must be a Debian 12"

# What makes the tree is this script: another version of it makes another one. A month old it is made anew.
cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/ringside-tests
out=$cache/tree-$(sha256sum "$0" | cut -c1-16)
mkdir -p "$cache"
exec 9>"$cache/lock-tree"
flock 9
if [ -e "$out/tree.cpio" ] && [ -n "$(find "$out" -maxdepth 0 -mtime -30)" ]; then
        echo "$out" >&3
        exit 0
fi
rm -rf "$cache"/new-tree-* # what was interrupted
find "$cache" -maxdepth 1 -name 'tree-*' -mtime +0 -exec rm -rf '{}' '+' # older ones, that nobody runs any more
new=$(mktemp -d "$cache/new-tree-XXXXXX")
trap 'rm -rf "$new"' EXIT
mkdir "$new/out"

# The machine's own sources of Debian, with its own proxies and mirrors' peculiarities.
apt=(apt-get -q -o APT::Sandbox::User=root)
key=/usr/share/keyrings/debian-archive-keyring.gpg
"${apt[@]}" indextargets --format "deb [signed-by=$key] \$(REPO_URI) \$(RELEASE) \$(COMPONENT)" \
        'Identifier: Packages' 'Origin: Debian' | grep -F " $VERSION_CODENAME" >"$new/sources.list" \
        || skip "this machine has no package source of Debian"
apt-config dump | grep -E '^Acquire::(http|https|Check-)' >"$new/apt.conf" || true
tree=$new/out/root
# In a mount namespace: whoever is killed must not leave its /proc behind, to be removed by the next.
unshare -m --propagation private mmdebstrap --quiet --variant=minbase --mode=root --include="$packages" --aptopt="$new/apt.conf" \
        --aptopt='Apt::Install-Recommends "false"' \
        --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
        --dpkgopt='path-exclude=/usr/share/locale/*' \
        "$VERSION_CODENAME" "$tree" "$new/sources.list" 9>&- || skip "mmdebstrap could not make the tree"

# Two users without any right, and one whom polkit takes for an administrator. Each has its name for a password.
for user in alice bob carol; do
        chroot "$tree" useradd --create-home --shell /bin/bash $user
        echo "$user:$user" | chroot "$tree" chpasswd -c SHA512
done
chroot "$tree" usermod --append --groups sudo carol
echo 7f7b3c1a5d5e4a0f9b8c6d2e1f304152 >"$tree/etc/machine-id"
echo ringside-test >"$tree/etc/hostname"
rm -rf "$tree"/var/lib/apt/lists/* "$tree"/var/cache/apt/* "$tree"/usr/share/zoneinfo "$tree"/etc/apt/sources.list*
ln -sf sbin/init "$tree/init"
# Nothing that starts later by itself, nothing that sits on the terminals the driver uses.
for unit in apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer e2scrub_reap.service \
        fstrim.timer systemd-tmpfiles-clean.timer serial-getty@ttyS0.service getty@tty1.service \
        console-getty.service; do
        ln -sf /dev/null "$tree/etc/systemd/system/$unit"
done

(cd "$tree" && find . -print0 | cpio --quiet -0 -o -H newc) >"$new/out/tree.cpio"
rm -rf "$out"
mv "$new/out" "$out"
echo "$out" >&3
