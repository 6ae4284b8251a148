#!/bin/bash
# A volume of a mirrored pool under a Linux host: file system, snapshot, clone, trim, and a server kill.
. /vmlab/checks/lib.sh
[ "$PEER" = wirepool ] || { echo "only our server has pools"; finish; }
check "a mirror is made" cli pool create tank mirror @DIR/a.img @DIR/b.img --size 512M || finish
check "a volume is made" cli volume create tank/vm1 --size 384M
check "it is exported" cli export nvme tank/vm1 --nqn $NQN --host any || finish
check "connect" connect -i 2 --keep-alive-tmo=5 --reconnect-delay=2 --ctrl-loss-tmo=600
check "namespace appears" connected || finish
dev=$(nvme_dev $NQN)
mkdir -p /mnt/fs /mnt/clone

pool_used() { cli pool checkpoint tank >/dev/null && cli pool list --json | jq '.[0].used'; }

step "file system and snapshot"
check "mkfs.ext4" timeout 120 mkfs.ext4 -q -F "$dev"
check "mount" mount "$dev" /mnt/fs || finish
check "write a file" sh -c 'dd if=/dev/urandom of=/mnt/fs/file bs=1M count=24 conv=fsync status=none && sha256sum < /mnt/fs/file > /tmp/sum'
check "snapshot under a mounted file system" cli snapshot create tank/vm1@before
check "overwrite the file" sh -c 'dd if=/dev/urandom of=/mnt/fs/file bs=1M count=24 conv=fsync,notrunc status=none && sha256sum < /mnt/fs/file > /tmp/sum2'
check "fio with verify=crc32c" fio_verify /mnt/fs/verified 48 --fsync=64

step "server killed under a verifying fio"
# A pool's write cache is the server's memory and is lost with the process (docs/decisions/0106), so each write is FUA. A
# file system cannot be used here: it writes without FUA and flushes later, and that flush may be answered by the restarted
# server, which never received the write. So the file system is unmounted, and the disk flushed, before the kill: the kernel
# writes metadata back 30 s after the change, at any moment of this script.
check "unmount and flush before the kill" sh -c "umount /mnt/fs && sync $dev"
check "a second volume" cli volume create tank/raw --size 64M
check "export it" cli export add $NQN tank/raw --nsid 3
check "its namespace appears" connected 3
timeout 400 fio --name=r --filename="$(nvme_dev $NQN 3)" --rw=randwrite --bs=4k --size=32M --direct=1 --sync=1 --ioengine=libaio \
  --iodepth=8 --time_based --runtime=30 --verify=crc32c --verify_fatal=1 --output-format=json --output=/tmp/r.json &
fio_pid=$!
sleep 8
dmesg -C >/dev/null
check "SIGKILL" server_kill
sleep 3
check "start again" server_start
check "controller is live again" wait_for 120 ctrl_live
fio_ended() { wait $fio_pid && jq -e '.jobs[0] | .error==0 and .write.total_ios>0' <(sed -n '/^{/,$p' /tmp/r.json) >/dev/null; }
check "fio ends without an error" fio_ended
check "no I/O error in the kernel's log" no_errors
echo 3 > /proc/sys/vm/drop_caches
check "fsck is clean" timeout 120 e2fsck -fn "$dev"
check "the file has the contents written last" sh -c "mount $dev /mnt/fs && sha256sum < /mnt/fs/file | cmp - /tmp/sum2"

step "clone"
check "a clone of the snapshot" cli clone tank/vm1@before tank/vm2
check "export the clone" cli export add $NQN tank/vm2 --nsid 2
check "its namespace appears" connected 2
check "mount the clone" mount "$(nvme_dev $NQN 2)" /mnt/clone
check "the clone has the file of the snapshot" sh -c 'sha256sum < /mnt/clone/file | cmp - /tmp/sum'
check "unmount the clone" umount /mnt/clone
check "end its export" cli export remove $NQN --nsid 2
check "destroy the clone" cli volume destroy tank/vm2 -f
check "destroy its snapshot" cli snapshot destroy tank/vm1@before

step "trim"
used=$(pool_used)
check "remove" sh -c 'rm /mnt/fs/file /mnt/fs/verified && sync'
check "fstrim" timeout 120 fstrim -v /mnt/fs
after=$(pool_used)
echo "used: $used before, $after after"
trimmed() { [ "$after" -le $((used - $(amount 31457280 62914560))) ]; }
check "the pool has the trimmed space again" trimmed
check "unmount" umount /mnt/fs
check "fsck is clean after trim" timeout 120 e2fsck -fn "$dev"
whole() { cli pool status --json | jq -e '.[0] | .health=="online" and ([.vdevs[].members[] | .read_errors+.write_errors+.checksum_errors] | add==0)' >/dev/null; }
check "the pool is online without errors" whole
check "disconnect" disconnect
check "nothing left behind" wait_for 30 nothing_left
finish
