#!/bin/bash
# NFS 4.1 of a stock Linux kernel: files, names, attributes, permissions, mappings, locks between two clients, four connections.
. /vmlab/checks/nfs_lib.sh
check "a file system is served" served_up || finish
check "mount" mount_nfs /mnt/a || finish
check "the kernel uses 4.1" mounted_as /mnt/a "vers=$VERS" hard
if [ "$PEER" != nvmet ]; then check "1 MiB at a time" mounted_as /mnt/a rsize=1048576 wsize=1048576; fi
cd /mnt/a

step "a tree through tar"
make_tree $TREE_OF $(amount "" "/usr/share/perl5 /etc")
truncate -s 5G /tmp/tree/sparse; echo end >> /tmp/tree/sparse
check "in" sh -c 'tar --format=posix -C /tmp -cSf - tree | tar -C /mnt/a -xSf -'
listing /tmp/tree > /tmp/list1; listing /mnt/a/tree > /tmp/list2
echo "  $(wc -l < /tmp/list1) objects"
check "names, modes, owners, links, sizes and times are equal" diff /tmp/list1 /tmp/list2
rm /tmp/tree/sparse; tail -c 4 /mnt/a/tree/sparse > /tmp/end
check "the end of a file of 5 GiB" grep -qx end /tmp/end
rm /mnt/a/tree/sparse
cd /
check "unmount" umount /mnt/a
check "mount again" mount_nfs /mnt/a
cd /mnt/a
check "contents are equal" diff -r --no-dereference /tmp/tree/sub /mnt/a/tree/sub
check "remove the tree" rm -r /mnt/a/tree

step "verified fio"
check "direct" fio_verify /mnt/a/verified 24
check "mmap" fio_verify /mnt/a/mapped 8 --ioengine=mmap --direct=0 --iodepth=1
check "buffered with fsync" fio_verify /mnt/a/buffered 16 --ioengine=psync --direct=0 --iodepth=1 --fsync=32
rm -f verified mapped buffered

step "attributes"
times() { touch -d '2001-02-03 04:05:06.123456789' f && equal mtime "$(stat -c %.9Y f)" 981173106.123456789; }
check "times in nanoseconds" times
grown() { printf abc > g && truncate -s 100000 g && truncate -s 2 g && truncate -s 4 g && equal contents "$(od -An -c g | tr -d ' \n')" 'ab\0\0'; }
check "truncation" grown
modes() { chmod 4755 f && chown 11:12 f && equal mode "$(stat -c '%a %u %g' f)" "755 11 12"; }
check "a change of owner clears setuid" modes
as_user() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }
mkdir private open; chmod 700 private; chmod 1777 open; echo secret > private/s; echo mine > open/mine; chmod 600 open/mine
denied() { ! as_user cat private/s 2>/dev/null && ! as_user sh -c 'echo x > open/mine' 2>/dev/null && ! as_user rm -f open/mine 2>/dev/null && [ -e open/mine ]; }
check "another user is refused" denied
allowed() { as_user sh -c 'echo his > open/his' && equal owner "$(stat -c '%u %g' open/his)" "65534 65534"; }
check "and owns his own files" allowed
check "space" sh -c 'df -P /mnt/a | awk "NR == 2 && \$2 > 100000 { ok = 1 } END { exit !ok }"'

step "names"
silly() { echo kept > s && exec 4< s && rm s && [ -n "$(ls -A | grep '^[.]nfs')" ] && read -r line <&4 && equal line "$line" kept && exec 4<&- && wait_for 10 sh -c '! ls -A /mnt/a | grep "^[.]nfs"'; }
check "a removed open file is read, and gone after" silly
over() { echo old > o && echo new > n && exec 4< o && mv n o && read -r line <&4 && equal line "$line" old && equal file "$(cat o)" new && exec 4<&-; }
check "rename over an open file" over
exclusive() { # many processes, one winner for each name
  local won=0 i
  for i in $(seq 20); do
    for _ in 1 2 3; do (set -C; : > "excl.$i") 2>/dev/null && echo won & done
  done > /tmp/won
  wait
  equal winners "$(wc -l < /tmp/won)" 20
}
check "O_EXCL has one winner" exclusive
appended() {
  local i
  : > log
  for i in 1 2 3 4; do (for n in $(seq 50); do echo "process $i line $n" >> log; done) & done
  wait
  equal lines "$(sort -u log | wc -l)" 200 && equal lines "$(wc -l < log)" 200
}
check "O_APPEND of four processes" appended
files=$(amount 1000 3000)
many() {
  mkdir many && (cd many && seq -f 'file-%06g' "$files" | xargs touch) && echo 3 > /proc/sys/vm/drop_caches &&
    equal names "$(ls -l many | grep -c ' file-[0-9]*$')" "$files" && rm -r many
}
check "ls -l of $files files" many

# A macvlan cannot reach the address of its own host.
[ "$PEER" != nvmet ] || finish

step "two clients"
check "a second client" second_client
check "mounts" mount_second /mnt/b || finish
echo one > /mnt/a/shared
seen() { equal contents "$(cat /mnt/b/shared)" one && echo two > /mnt/b/shared && equal contents "$(cat /mnt/a/shared)" two; }
check "close-to-open: each sees the other's file" seen
truncate -s 1000 /mnt/a/locked
check "the first locks a range" lock_hold /mnt/a/locked 0 100
check "the second sees it" equal lock "$(lock ask /mnt/b/locked 50 10)" "write 0 100"
refused() { ! lock try /mnt/b/locked 99 1 && ! lock try /mnt/b/locked 0 0 r; }
check "and is refused" refused
check "but not behind it" lock try /mnt/b/locked 100 100
lock wait /mnt/b/locked 0 100 & waiter=$!
sleep 2
waits() { kill -0 $waiter; }
check "it waits" waits
lock_end
check "and gets the lock" wait $waiter
check "locks for reading" lock_hold /mnt/a/locked 0 100 r
check "are shared" lock try /mnt/b/locked 0 100 r
written() { ! lock try /mnt/b/locked 0 100; }
check "and keep writers out" written
lock_end
exec 5<> /mnt/a/locked
check "flock" flock -n -x 5
flocked() { ! flock -n -x /mnt/b/locked true; }
check "refuses the other client" flocked
exec 5>&-
check "until it is closed" wait_for 30 flock -n -x /mnt/b/locked true
both_append() {
  local i m
  : > /mnt/a/both
  for m in a b; do
    (for i in $(seq 20); do flock "/mnt/$m/both" sh -c "echo $m $i >> /mnt/$m/both"; done) &
  done
  wait
  equal lines "$(sort -u /mnt/a/both | wc -l)" 40
}
check "appends under flock of two clients" both_append
raced() {
  local i m
  for i in $(seq 20); do
    for m in a b; do (set -C; : > "/mnt/$m/race.$i") 2>/dev/null && echo won & done
  done > /tmp/won
  wait
  equal winners "$(wc -l < /tmp/won)" 20
}
check "O_EXCL of two clients has one winner" raced
removed() { echo here > /mnt/a/going && exec 4< /mnt/b/going && rm /mnt/a/going && ! [ -e /mnt/a/going ] && { read -r line <&4; exec 4<&-; true; }; }
check "a file that the other has open is removed" removed
check "unmount the second" umount /mnt/b
cd /
check "unmount the first" umount /mnt/a

step "four connections"
check "mount with nconnect=4" mount_nfs /mnt/a nconnect=4 || finish
connections() { equal connections "$(ss -Htn state established dst "$ADDR:$NFS_PORT" | wc -l)" 4; }
check "fio with verify=crc32c on four files" timeout 300 fio --name=four --directory=/mnt/a --numjobs=4 --size="$(amount 2M 8M)" --rw=randwrite \
  --bs=64k --direct=1 --ioengine=libaio --iodepth=8 --verify=crc32c --do_verify=1 --verify_fatal=1 --output=/tmp/four.txt
check "there are four" connections

step "link cut for 15 s"
# The cut drops the packets of both directions without notice to either TCP socket.
cut_link() { iptables -A INPUT -p tcp --sport $NFS_PORT -j DROP && iptables -A OUTPUT -p tcp --dport $NFS_PORT -j DROP; }
mend_link() { iptables -F INPUT && iptables -F OUTPUT; }
truncate -s 1000 /mnt/a/locked
check "a range is locked" lock_hold /mnt/a/locked 0 100
timeout 400 fio --name=cut --filename=/mnt/a/cut --rw=randwrite --bs=4k --size=16M --direct=1 --ioengine=libaio --iodepth=8 \
  --rate_iops=,160 --verify=crc32c --do_verify=1 --verify_fatal=1 --output-format=json --output=/tmp/cut.json &
fio_pid=$!
sleep 4
check "cut" cut_link
sleep 15
check "end of the cut" mend_link
fio_ended() {
  wait $fio_pid && sed -n '/^{/,$p' /tmp/cut.json > /tmp/cut.clean && jq -c '.jobs[0] | [.error, .write.total_ios, .read.total_ios]' /tmp/cut.clean | tee /tmp/ios &&
    equal "error, writes, reads" "$(cat /tmp/ios)" "[0,4096,4096]"
}
check "fio ends without an error, and reads its 4,096 blocks" fio_ended
check "mount for a second client" mount_second /mnt/b
still_locked() { equal lock "$(lock ask /mnt/b/locked 0 100)" "write 0 100"; }
check "the range is still locked" still_locked
lock_end
check "unmount the second" umount /mnt/b
check "remove" sh -c 'rm -rf /mnt/a/*'
check "unmount" umount /mnt/a
nothing_left() { ! grep -q ' nfs4 ' /proc/mounts && [ -z "$(ss -Htn state established dst "$ADDR:$NFS_PORT")" ]; }
check "nothing left behind" wait_for 30 nothing_left
check "no complaint in the kernel's log" no_errors "NFS:.*(error|fail)|lost|RPC:.*fail"
finish
