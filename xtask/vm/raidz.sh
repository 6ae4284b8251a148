#!/bin/bash
# A raidz2 of six disks of this guest under a verifying fio, while disks stop answering and come back: with all that they had, empty, or
# with another disk's data. The client is the guest's kernel. A disk that is out answers every request with an error (dm's error target).
. /vmlab/checks/inside_lib.sh
length=$(($(blockdev --getsz /dev/vdb) / 8))
member() { echo ".vdevs[0].members[$1]"; }
is() { pool_is "$(member "$1").state==\"$2\""; }
out() { dmsetup wipe_table s$1; }
# back DISK [SLICE]: the disk answers again, with the data of its own slice or of another one
back() { dmsetup reload s$1 --table "0 $length linear /dev/vdb $((${2:-$1} * length))" && dmsetup resume s$1; }
# A disk with too many errors waits for the operator.
online() { back $1 && cli pool online tank /dev/dm-$1; }
whole_again() { wait_for 120 pool_is '.health=="online"' || { cli pool status -v; tail -30 /tmp/server.log; return 1; }; }
# Every block is read and compared with the header that fio wrote into it.
all_readable() {
  timeout 200 fio --name=read --filename="$dev" --size=32M --rw=read --bs=64k --direct=1 --ioengine=libaio --iodepth=4 \
    --output=/tmp/read.txt && sha256sum < <(dd if="$dev" bs=1M count=32 iflag=direct status=none) > /tmp/sum.now
}
same_data() { all_readable && cmp /tmp/sum.now /tmp/sum; }

step "the pool"
check "eight disks" slices /dev/vdb 8 || finish
check "the server starts in the guest" server_here || finish
check "a raidz2 of six disks" cli pool create tank raidz2 /dev/dm-{0,1,2,3,4,5} || finish
volume_here 96M

step "disks fail under a verifying writer"
# Each loop writes every block of the file once and then reads all of them.
timeout 800 fio --name=verify --filename="$dev" --size=32M --loops=$(amount 4 20) --rw=randwrite --bsrange=4k-64k --bs_unaligned=0 \
  --direct=1 --ioengine=libaio --iodepth=8 --verify=crc32c --do_verify=1 --verify_fatal=1 --rate=$(amount 4M,4M 3M,3M) --output=/tmp/verify.txt &
fio=$!
writes_on() { kill -0 $fio; }
check "disk 1 is out" out 1
check "the server says so" wait_for 60 is 1 faulted
check "disk 4 is out too" out 4
check "the server says so" wait_for 60 is 4 faulted
check "the writer goes on" writes_on
check "disk 1 is back" online 1
check "it is brought up to date" wait_for 120 is 1 online
check "disk 4 is back" online 4
check "the pool is whole again" whole_again
check "two disks are out at once" eval 'out 0 && out 5'
check "the server says so" wait_for 60 eval 'is 0 faulted && is 5 faulted'
check "both are back" eval 'online 0 && online 5'
check "the pool is whole again" whole_again
check "the writer still writes" writes_on
check "the writer found each block as it wrote it" wait $fio || cat /tmp/verify.txt
check "all blocks are read" all_readable && cp /tmp/sum.now /tmp/sum

step "another disk in the place of a member"
check "disk 2 is out" out 2
check "a write finds it" dd if=/dev/urandom of="$dev" bs=1M seek=40 count=4 oflag=direct status=none
check "the server says so" wait_for 60 is 2 faulted
check "an empty disk is in its place" back 2 6
check "it is not taken for the member" refused "does not find this member.s label" pool online tank /dev/dm-2
check "nor is another member's data" eval 'out 2 && back 2 4 && refused "does not find this member.s label" pool online tank /dev/dm-2'
check "the data is readable" same_data
check "the disk itself is back" eval 'out 2 && online 2'
check "the pool is whole again" whole_again

step "a disk that lost its data"
check "disk 3 is out" out 3
check "a write finds it" dd if=/dev/urandom of="$dev" bs=1M seek=44 count=4 oflag=direct status=none
check "the server says so" wait_for 60 is 3 faulted
check "a new disk replaces it" cli pool replace tank /dev/dm-3 /dev/dm-6
check "the pool is whole again" whole_again
check "a scrub" cli pool scrub tank
scrubbed() { pool_is '.scrub.state=="finished"'; }
check "the scrub ends" wait_for 120 scrubbed
check "the pool is online" pool_is '.health=="online"'
check "two others are out" eval 'out 0 && out 1'
check "the data is readable without them" same_data
check "they are back" eval 'online 0 && online 1'
check "the pool is whole again" whole_again

step "the end"
end_here /dev/dm-{0,1,2,4,5,6}
[ $FAILS = 0 ] || cat /tmp/server.log
finish
