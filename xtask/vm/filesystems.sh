#!/bin/bash
# ext4 and XFS on the served disk: verified I/O, clean checks, trim that reaches the medium.
. /vmlab/checks/lib.sh
check "a disk is served" target_up 512M || finish
check "connect" connect -i 2
check "namespace appears" connected || finish
dev=$(nvme_dev $NQN)
mkdir -p /mnt/fs
check "discard is offered" sh -c "[ \$(cat /sys/block/${dev#/dev/}/queue/discard_max_bytes) -gt 0 ]"
check "a volatile write cache is owned up to" sh -c "cat /sys/block/${dev#/dev/}/queue/write_cache; cat /sys/block/${dev#/dev/}/queue/fua"

fs_checks() { # fs_checks TYPE MKFS FSCK
  step "$1"
  check "$1: make" timeout 120 sh -c "$2 $dev >/dev/null"
  check "$1: mount" mount "$dev" /mnt/fs || return
  check "$1: fio with verify=crc32c" fio_verify /mnt/fs/verified 48M --fsync=64
  check "$1: write a file" sh -c 'dd if=/dev/urandom of=/mnt/fs/file bs=1M count=48 conv=fsync status=none && sha256sum /mnt/fs/file > /tmp/sum'
  check "$1: unmount" umount /mnt/fs
  echo 3 > /proc/sys/vm/drop_caches
  check "$1: fsck is clean" timeout 120 sh -c "$3 $dev"
  check "$1: the file is what was written" sh -c "mount $dev /mnt/fs && sha256sum -c /tmp/sum"
  local full=$(disk_allocated)
  check "$1: remove" sh -c 'rm /mnt/fs/file /mnt/fs/verified && sync'
  check "$1: fstrim" timeout 120 fstrim -v /mnt/fs
  echo "allocated on the host: $full KiB before, $(disk_allocated) KiB after"
  trimmed() { [ "$(disk_allocated)" -le $((full - 65536)) ]; }
  check "$1: the trimmed space went back to the host" trimmed
  check "$1: unmount" umount /mnt/fs
  check "$1: fsck is clean after trim" timeout 120 sh -c "$3 $dev"
}
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
check "no I/O error in the kernel's log" sh -c '! dmesg | grep -iE "I/O error|call trace"'
finish
