#!/bin/sh
# Downloads the packages for the virtual machine once and unpacks them into a cache folder. The packages are not installed: Debian's
# qemu-system-x86 would remove a newer qemu-utils, and the host must not get another kernel image.
#   fetch.sh CACHE
set -eu
cache=${1:?cache folder}
mkdir -p "$cache/debs" "$cache/root"
[ -e "$cache/ready" ] && exit 0
kernel=$(apt-cache depends linux-image-amd64 | sed -n 's/^ *Depends: \(linux-image-[0-9][^ ]*\)$/\1/p' | head -n 1)
# A simulated installation lists every library that is missing on this machine.
missing=$(apt-get install -s --no-install-recommends qemu-system-x86 busybox-static python3-evdev udev | sed -n 's/^Inst \([^ ]*\) .*/\1/p')
cd "$cache/debs"
for package in $missing qemu-system-x86 busybox-static python3-evdev udev "$kernel"; do
  ls "${package}"_*.deb >/dev/null 2>&1 || apt-get download "$package"
done
for deb in *.deb; do dpkg -x "$deb" "$cache/root"; done
version=${kernel#linux-image-}
echo "$version" > "$cache/kernel-version"
cp "$cache/root/boot/vmlinuz-$version" "$cache/vmlinuz"
depmod -b "$cache/root" "$version"
touch "$cache/ready"
