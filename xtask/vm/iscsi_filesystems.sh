#!/bin/bash
# ext4 and XFS on a logical unit: verified I/O, clean checks, and trim, which frees space on the medium. Digests are on.
. /vmlab/checks/iscsi_lib.sh
check "a disk is served" target_up 512M || finish
check "discovery" discover
check "digests" node_set 'node.conn[0].iscsi.HeaderDigest' CRC32C 'node.conn[0].iscsi.DataDigest' CRC32C
check "log in" login
check "the disk appears" appeared || finish
dev=$(iscsi_dev)
check "discard is offered" sh -c "[ \$(cat /sys/block/${dev#/dev/}/queue/discard_max_bytes) -gt 0 ]"
check "the disk reports a volatile write cache and FUA" sh -c "cat /sys/block/${dev#/dev/}/queue/write_cache; grep -qx 1 /sys/block/${dev#/dev/}/queue/fua"
. /vmlab/checks/filesystem_checks.sh
fs_checks ext4 "mkfs.ext4 -q -F" "e2fsck -fn"
fs_checks xfs "mkfs.xfs -q -f" "xfs_repair -n"

step "raw"
zeroes() {
  dd if=/dev/urandom of="$dev" bs=1M count=8 oflag=direct status=none &&
    timeout 60 blkdiscard -z -o 0 -l 8M "$dev" && cmp -n 8388608 "$dev" /dev/zero
}
check "WRITE SAME of zeroes reads back as zeroes" zeroes
check "blkdiscard of the whole disk" timeout 60 blkdiscard -f "$dev"
check "log out" logout
check "nothing left behind" wait_for 30 nothing_left
check "no I/O error in the kernel's log" no_errors
finish
