#!/bin/busybox sh
# First process of a machine that boots from a logical unit: boot loader, kernel and root file system are on it, and QEMU
# logs in with its own iSCSI driver. Runs twice on the same unit; the second run reads the file that the first one wrote.
/bin/busybox --install -s /bin
export PATH=/bin:/sbin
check() { local name=$1; shift; if "$@"; then echo "PASS $name"; else echo "FAIL $name"; fi; }
echo "== booted at $(cut -d' ' -f1 /proc/uptime): $(grep ' / ' /proc/mounts | tail -1)"
check "the root file system is on the LUN" grep -q '^/dev/vda2 / ext4 rw' /proc/mounts
if [ -e /written.sum ]; then
  check "the file written before the restart is intact" sha256sum -s -c /written.sum
fi
dd if=/dev/urandom of=/written bs=1M count=8 2>/dev/null
sha256sum /written > /written.sum
check "write and flush" sync
echo 3 > /proc/sys/vm/drop_caches
check "read back" sha256sum -s -c /written.sum
check "remount read-only" mount -o remount,ro /
echo "BOOTED FROM THE LUN"
poweroff -f
sleep 60
