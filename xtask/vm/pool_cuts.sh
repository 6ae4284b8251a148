#!/bin/bash
# A server inside this guest, with the guest's kernel as its client. Its pool is a mirror on two block devices, whose writes
# the kernel logs. Afterwards the host replays the log with power cuts (xtask/src/vm/cuts.rs).
. /vmlab/checks/cuts_lib.sh
# Allocated KiB of the host's image of the disks
allocated() { echo $(($(stat -c %b $share/data.img) / 2)); }

step "disks"
check "dm-log-writes below two disks" logged 2 || finish
check "the server starts in the guest" server_here || finish

step "disks in use"
mkdir -p /mnt/fs
ramdisk 64
check "a disk with a file system is mounted" sh -c 'mkfs.ext4 -q /dev/ram0 && mount /dev/ram0 /mnt/fs && echo mine > /mnt/fs/file && sync'
check "a mounted disk is refused" refused "in use" pool create bad /dev/ram0
check "also with --force" refused "in use" pool create bad /dev/ram0 --force
check "a disk that device-mapper uses is refused" refused "in use" pool create bad /dev/vdb
check "the file system is unchanged" sh -c 'umount /mnt/fs && e2fsck -fn /dev/ram0 && mount -o ro /dev/ram0 /mnt/fs && grep -qx mine /mnt/fs/file && umount /mnt/fs'

step "a logged run"
check "a mirror of two block devices" cli pool create tank mirror /dev/dm-1 /dev/dm-2 || finish
check "a disk of a pool is refused" refused "already" pool create bad /dev/dm-1
check "autotrim" cli set autotrim=on tank
volume_here 64M
logged_run

step "trim"
# 24 MiB behind the blocks of the writers, written and discarded
fill() { dd if=/dev/urandom of="$dev" bs=1M seek=16 count=24 oflag=direct conv=fsync,notrunc status=none; }
give_back() { blkdiscard -o 16M -l 24M "$dev" && checkpoint && checkpoint; }
shrank() { [ "$(allocated)" -le $((full - 40960)) ]; }
check "autotrim off" cli set autotrim=off tank
check "fill" fill
check "discard" give_back
full=$(allocated)
check "pool trim" cli pool trim tank
check "the trim ends" wait_for 60 pool_is '.trim.state == "finished"'
check "the host has the space of both members again" wait_for 30 shrank
echo "the host's image: $full KiB, then $(allocated) KiB"
check "autotrim on" cli set autotrim=on tank
check "fill again" fill
full=$(allocated)
check "discard again" give_back
again() { checkpoint && shrank; }
check "autotrim frees the space" wait_for 60 again
echo "the host's image: $full KiB, then $(allocated) KiB"

end_of_log 2
