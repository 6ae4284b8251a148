#!/bin/bash
# A pool of two slow disks (dm-delay, 10 ms for each operation) with a special mirror, a log and a cache device on fast ones, served over NFS to this
# guest's own kernel. Log and cache device are taken away under a writer, and while the server is dead. Times are printed and not judged.
VERS=4.2
. /vmlab/checks/nfs_lib.sh
. /vmlab/checks/inside_lib.sh
length=$(($(blockdev --getsz /dev/vdb) / 6))
LOG=/dev/dm-4 CACHE=/dev/dm-5
# disk NUMBER [MS]: a sixth of the disk, as /dev/dm-NUMBER; each operation takes that much longer
disk() {
  local target="linear /dev/vdb $(($1 * length))"
  [ -z "${2:-}" ] || target="delay /dev/vdb $(($1 * length)) $2"
  dmsetup create s$1 --table "0 $length $target"
}
disks() { disk 0 10 && disk 1 10 && disk 2 && disk 3 && disk 4 && disk 5 && dmsetup table; }
# out NUMBER: the disk answers every request with an error. back NUMBER: it answers again
out() { dmsetup wipe_table s$1; }
back() { dmsetup reload s$1 --table "0 $length linear /dev/vdb $(($1 * length))" && dmsetup resume s$1; }
happened() { cli pool events tank | grep -q "$1"; }
# cold: neither the client nor the server has anything in memory
cold() { umount /mnt/a && echo 3 > /proc/sys/vm/drop_caches && server_ended && server_again && open_again && mount_nfs /mnt/a; }
open_again() { wait_for 60 pool_is '.health=="online"'; }
# timed WHAT COMMAND...: prints the time that it takes
timed() {
  local what=$1 start=$(date +%s.%N)
  shift
  "$@" > /tmp/timed && echo "  $what: $(date +%s.%N | awk -v a="$start" '{printf "%.2f", $1-a}') s, $(wc -l < /tmp/timed) lines"
}
# names and contents of the files that are written before the disks fail
tree() { (cd "$1" && find . -type f ! -name 'new*' | sort | xargs sha256sum); }
# The client has no contents in memory; the server has none anyway (primarycache=none).
same_tree() { echo 3 > /proc/sys/vm/drop_caches; timed "all contents" tree /mnt/a && cmp /tmp/timed /tmp/sums; }
all_stat() { find /mnt/a -printf '%s %m %T@ %P\n'; }
write_tree() {
  local d f
  for d in $(seq $(amount 8 20)); do
    mkdir -p /tmp/made/$d
    for f in $(seq 20); do head -c $((f * 1500)) /dev/urandom > /tmp/made/$d/$f; done
  done
  for f in 1 2 3; do head -c 3M /dev/urandom > /tmp/made/large$f; done
  cp -r /tmp/made/. /mnt/a && sync -f /mnt/a && tree /tmp/made > /tmp/sums && rm -r /tmp/made
}

step "the pool"
modprobe -a dm-mod dm-delay
check "two slow disks and four fast ones" disks || finish
check "the server starts in the guest" server_here "[nfs]
listen = [\"$ADDR:2049\"]
lease_s = 10" || finish
create() { cli pool create tank mirror /dev/dm-0 /dev/dm-1 special mirror /dev/dm-2 /dev/dm-3 log $LOG cache $CACHE "$@"; }
less_redundant() { ! create 2>/tmp/said && cat /tmp/said && grep -q "durable writes of the last seconds are lost" /tmp/said; }
check "a log with less redundancy is refused" less_redundant
check "a mirror with a special mirror, a log and a cache device" create -f || finish
check "small records go to the special mirror" cli set special_small_blocks=16K tank
check "no records in memory" cli set primarycache=none tank
check "a filesystem" cli fs create tank/home
check "it is exported" cli export nfs tank/home --client '*:rw,squash=none,insecure'
check "mount" mount_nfs /mnt/a || finish

step "files"
check "files are written" write_tree
check "a checkpoint" checkpoint
check "everything is cold" cold || finish
check "names and attributes of all files" timed "find and stat, cold" all_stat
check "all contents are right" same_tree
check "once more" same_tree
check "and from the cache device" same_tree
cli pool status -v tank
used() { pool_is '.special.used > 500000 and .special.spilled == [] and .caches[0].reason == null and .caches[0].blocks > 0 and .caches[0].wrong == 0'; }
check "the special class has blocks, and the cache device has some" used

step "the log and the cache device are taken away under a writer"
timeout 400 fio --name=w --filename=/mnt/a/new --rw=randwrite --bs=4k --size=$(amount 2M 8M) --ioengine=psync --fsync=4 --rate_iops=,100 \
  --verify=crc32c --do_verify=1 --verify_fatal=1 --output=/tmp/fio.txt &
writer=$!
sleep 3
check "the log is out" out 4
check "the server says so" wait_for 60 happened log.lost
check "the cache device is out" out 5
check "all contents are right without them" same_tree
check "the server says so" wait_for 60 happened cache.out
check "the writer found each block as it wrote it" wait $writer || cat /tmp/fio.txt
check "the journal is on the other disks" pool_is '[.vdevs[] | select(.journal) | .class] | length > 0 and index("log") == null'
check "both answer again" eval 'back 4 && back 5'
check "the log is added again" cli pool add tank log $LOG -f
check "the cache device is removed" cli pool remove tank $CACHE
check "and added again" cli pool add tank cache $CACHE -f
check "the journal is on the log" wait_for 60 pool_is '[.vdevs[] | select(.journal) | .class] == ["log"]'

step "SIGKILL, and the log is not there"
durable() { head -c 256K /dev/urandom > /tmp/new1 && dd if=/tmp/new1 of=/mnt/a/new1 bs=4k conv=fsync status=none; }
check "durable writes" timed "64 durable writes of 4 KiB" durable
check "SIGKILL" kill -KILL $server
wait $server 2>/dev/null
check "log and cache device are out" eval 'out 4 && out 5'
check "the server starts" server_again
held() { pool_is '.state=="held"' && cli pool status --json | jq -r '.[0].reason' | tee /tmp/said | grep -q journal; }
check "the pool is held back, since its journal is on the log" wait_for 60 held
cat /tmp/said
check "the log is back" back 4
check "the pool opens" wait_for 60 pool_is '.health=="online"'
out_of_use() { pool_is '.caches[0].reason != null'; }
check "without its cache device" out_of_use
check "the durable writes are there" cmp /tmp/new1 /mnt/a/new1
check "all contents are right" same_tree
check "the cache device is back" back 5
in_use() { pool_is '.caches[0].reason == null'; }
check "and is used again" wait_for 60 in_use
check "all contents are right" same_tree

step "the end"
check "unmount" umount /mnt/a
check "the server ends" server_ended
check "the offline reader finds no damage" cli inspect verify /dev/dm-0 /dev/dm-1 /dev/dm-2 /dev/dm-3 /dev/dm-4
[ $FAILS = 0 ] || cat /tmp/server.log
finish
