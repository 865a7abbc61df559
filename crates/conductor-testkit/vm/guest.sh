# Runs in the guest as root, on the root file system of the host. /mnt is the result folder; run.sh has written this file and `settings`
# to it. `settings` defines CACHE (unpacked packages), BINARY (the test program) and FILTER (a test name, or empty).
. /mnt/settings
export PATH=/usr/local/bin:/usr/bin:/bin:/sbin:/usr/sbin HOME=/mnt
ip link set lo up 2>/dev/null || ifconfig lo up 2>/dev/null
modprobe -d "$CACHE/root" -a snd-seq snd-seq-midi uinput evdev
mkdir -p /run/udev
cp -r "$CACHE/root/lib/udev/rules.d" /run/udev/rules.d
# The program udevadm runs as the udev daemon if it is started with this name.
ln -s "$CACHE/root/bin/udevadm" /run/systemd-udevd
/run/systemd-udevd --daemon
export CONDUCTOR_LANES=vm CONDUCTOR_REQUIRE_REAL=1 CONDUCTOR_VM_MODULES="$CACHE/root" RUST_BACKTRACE=0
export PYTHONPATH="$CACHE/root/usr/lib/python3/dist-packages"
"$BINARY" --test-threads=1 --nocapture $FILTER > /mnt/output 2>&1
echo $? > /mnt/status
sync
