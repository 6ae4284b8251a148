#!/bin/bash
# Changes under a connected host: resize of the disk, addition and removal of a namespace.
. /vmlab/checks/lib.sh
check "a disk is served" target_up 256M || finish
check "connect" connect -i 2
check "namespace appears" connected || finish
dev=$(nvme_dev $NQN)
size_is() { [ "$(blockdev --getsize64 "$dev")" = "$1" ]; }

step "live resize"
check "size before" size_is 268435456
mkdir -p /mnt/fs
check "mkfs and mount" sh -c "mkfs.ext4 -q -F $dev && mount $dev /mnt/fs"
check "resize to 512 MiB" disk_resize 512M
check "the kernel sees the new size without a rescan" wait_for 60 size_is 536870912
check "the file system grows into it, mounted" timeout 120 resize2fs "$dev"
check "verified I/O" fio_verify /mnt/fs/verified 24
check "unmount" umount /mnt/fs
check "fsck is clean" timeout 120 e2fsck -fn "$dev"
last_block() { dd if=/dev/urandom of="$dev" bs=4k count=1 seek=$((536870912 / 4096 - 1)) oflag=direct status=none; }
check "the new last block takes a write" last_block

step "namespaces added and removed"
check "add a namespace" namespace_add
check "the kernel sees it without a rescan" connected 2
second=$(nvme_dev $NQN 2)
check "verified I/O on it" fio_verify "$second" 16
check "verified I/O on the first namespace" fio_verify "$dev" 16
check "remove it" namespace_remove
check "its device is removed without a rescan" wait_for 60 nvme_gone $NQN 2
check "the first namespace still works" fio_verify "$dev" 16
check "controller is live" ctrl_live
check "disconnect" disconnect
check "nothing left behind" wait_for 30 nothing_left
finish
