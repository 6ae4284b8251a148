#!/bin/bash
# A server inside this guest, with the guest's kernel as its client. Its pool is a mirror on two block devices, whose writes
# the kernel logs. Afterwards the host replays the log with power cuts (xtask/src/vm/cuts.rs).
. /vmlab/checks/lib.sh
share=/mnt/share
export WIREPOOL_CONTROL=/tmp/control.sock
cp $share/wirepool $share/wirepool-cuts /tmp/ || { fail "the programs are on the share"; finish; }
cli() { timeout 120 /tmp/wirepool "$@"; }
mark() { dmsetup message cuts 0 mark "$1"; }
# refused WORDS COMMAND...: exit code 1, and an error message that contains WORDS
refused() {
  local words=$1
  shift
  cli "$@" 2>/tmp/said
  [ $? = 1 ] && cat /tmp/said && grep -q -- "$words" /tmp/said
}
checkpoint() { cli pool checkpoint tank >/dev/null; }
pool_is() { cli pool status --json | jq -e ".[0] | $1" >/dev/null; }
# Allocated KiB of the host's image of the disks
allocated() { echo $(($(stat -c %b $share/data.img) / 2)); }

step "disks"
modprobe dm-log-writes
sectors=$(blockdev --getsz /dev/vdb)
half=$((sectors / 2))
# One log below both members, so that all writes and flushes have one order.
# Without udev only the kernel creates device nodes: dm-0, then dm-1 and dm-2.
logged() {
  dmsetup create cuts --table "0 $sectors log-writes /dev/vdb /dev/vdc" &&
    dmsetup create a --table "0 $half linear /dev/dm-0 0" &&
    dmsetup create b --table "0 $half linear /dev/dm-0 $half" && dmsetup table
}
check "dm-log-writes below two disks" logged || finish
cat > /tmp/wirepool.toml <<EOF
[server]
control = "$WIREPOOL_CONTROL"
shards = 2

[nvmf]
listen = ["$ADDR:$PORT"]
EOF
(cd /tmp && exec ./wirepool serve --print-ready --config /tmp/wirepool.toml) > /tmp/ready 2> /tmp/server.log &
server=$!
ready() { wait_for 60 grep -qx ready /tmp/ready || { cat /tmp/server.log; return 1; }; }
check "the server starts in the guest" ready || finish

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
check "a volume" cli volume create tank/vm1 --size 64M
check "export it" cli export nvme tank/vm1 --nqn $NQN --host any || finish
check "connect" connect -i 2
check "namespace appears" connected || finish
dev=$(nvme_dev $NQN)
check "mark the beginning" mark begin
timeout 300 /tmp/wirepool-cuts write "$dev" --log cuts --known $share/known --writes 400 &
writer=$!
n=0
snapshots() {
  while kill -0 $writer 2>/dev/null && [ $n -lt 8 ]; do
    n=$((n + 1))
    cli snapshot create tank/vm1@s$n >/dev/null && mark @s$n && checkpoint || return 1
    sleep 0.5
  done
  echo "$n snapshots"
  [ $n -ge 2 ]
}
check "snapshots and checkpoints during the run" snapshots
check "the writers end" wait $writer

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
check "the pool is online without errors" pool_is '.health=="online" and ([.vdevs[].members[] | .read_errors+.write_errors+.checksum_errors] | add==0)'

step "the end of the log"
check "disconnect" disconnect
ended() { kill -TERM $server && wait $server; }
check "the server ends" ended
check "the offline reader finds no damage" cli inspect verify /dev/dm-1 /dev/dm-2
check "the log is closed" dmsetup remove a b cuts
[ $FAILS = 0 ] || cat /tmp/server.log
finish
