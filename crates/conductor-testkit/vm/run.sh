#!/bin/sh
# Runs a test program in a virtual machine with the ALSA sequencer and the input devices of a real kernel, on any machine. QEMU boots Debian's stock
# kernel by software emulation; the guest shares the root of the host read-only.
#   run.sh CACHE BINARY [FILTER]
# Exits with the status of the test program. If the guest writes no status, prints the last lines of its console and fails.
set -eu
cache=${1:?cache folder} binary=${2:?test program} filter=${3:-}
here=$(dirname "$(readlink -f "$0")")
cache=$(mkdir -p "$cache" && readlink -f "$cache")
"$here/fetch.sh" "$cache"
root=$cache/root version=$(cat "$cache/kernel-version")
out=$(mktemp -d) initramfs=$(mktemp -d)
trap 'rm -rf "$out" "$initramfs"' EXIT

mkdir -p "$initramfs/bin" "$initramfs/mods" "$initramfs/proc" "$initramfs/sys" "$initramfs/dev" "$initramfs/newroot"
cp "$root/bin/busybox" "$initramfs/bin/"
for applet in sh mount insmod mkdir chroot poweroff echo; do ln -s busybox "$initramfs/bin/$applet"; done
for module in virtio virtio_ring virtio_pci_legacy_dev virtio_pci_modern_dev virtio_pci netfs fscache 9pnet 9pnet_virtio 9p; do
  cp "$(find "$root/lib/modules/$version" -name "$module.ko")" "$initramfs/mods/"
done
cp "$here/init" "$initramfs/init"; chmod +x "$initramfs/init"
(cd "$initramfs" && find . | "$root/bin/busybox" cpio -o -H newc 2>/dev/null | gzip) > "$out/initramfs.gz"

cp "$here/guest.sh" "$out/guest.sh"
printf 'CACHE=%s\nBINARY=%s\nFILTER=%s\n' "$cache" "$(readlink -f "$binary")" "$filter" > "$out/settings"
# The limit only ends a guest that hangs: on a busy machine the tests take many minutes.
libraries=$root/usr/lib/x86_64-linux-gnu:$root/lib/x86_64-linux-gnu
LD_LIBRARY_PATH=$libraries timeout "${CONDUCTOR_VM_LIMIT:-1800}" "$root/usr/bin/qemu-system-x86_64" \
  -L "$root/usr/share/qemu" -L "$root/usr/share/seabios" -L "$root/usr/lib/ipxe/qemu" \
  -accel tcg -cpu max -m 1024 -smp 1 -nographic -no-reboot -nic none \
  -kernel "$cache/vmlinuz" -initrd "$out/initramfs.gz" -append "console=ttyS0 quiet panic=-1" \
  -fsdev local,id=h,path=/,security_model=none,readonly=on,multidevs=remap -device virtio-9p-pci,fsdev=h,mount_tag=host \
  -fsdev local,id=o,path="$out",security_model=none -device virtio-9p-pci,fsdev=o,mount_tag=out \
  < /dev/null > "$out/console" 2>&1 || true
[ -e "$out/output" ] && cat "$out/output"
if [ ! -e "$out/status" ]; then
  echo "the guest wrote no result; the last lines of its console:" >&2
  tail -n 40 "$out/console" >&2
  exit 1
fi
exit "$(cat "$out/status")"
