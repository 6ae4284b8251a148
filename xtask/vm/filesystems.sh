#!/bin/bash
# ext4 and XFS on the served disk: verified I/O, clean checks, and trim, which frees space on the medium.
. /vmlab/checks/lib.sh
check "a disk is served" target_up 512M || finish
check "connect" connect -i 2
check "namespace appears" connected || finish
dev=$(nvme_dev $NQN)
check "discard is offered" sh -c "[ \$(cat /sys/block/${dev#/dev/}/queue/discard_max_bytes) -gt 0 ]"
check "the disk reports a volatile write cache and FUA" sh -c "cat /sys/block/${dev#/dev/}/queue/write_cache; cat /sys/block/${dev#/dev/}/queue/fua"
. /vmlab/checks/filesystem_checks.sh
fs_checks ext4 "mkfs.ext4 -q -F" "e2fsck -fn"
fs_checks xfs "mkfs.xfs -q -f" "xfs_repair -n"

step "raw"
zeroes() {
  dd if=/dev/urandom of="$dev" bs=1M count=8 oflag=direct status=none &&
    timeout 60 blkdiscard -z -o 0 -l 8M "$dev" && cmp -n 8388608 "$dev" /dev/zero
}
check "Write Zeroes reads back as zeroes" zeroes
check "blkdiscard of the whole disk" timeout 60 blkdiscard -f "$dev"
check "disconnect" disconnect
check "nothing left behind" wait_for 30 nothing_left
check "no I/O error in the kernel's log" no_errors
finish
