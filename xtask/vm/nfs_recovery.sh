#!/bin/bash
# NFS 4.2 and 3 of a stock Linux kernel while the server on the host is killed and started again on the same pool, and while the
# link is cut. Two writers run: fio, which verifies, and one that notes each record that fsync made stable.
. /vmlab/checks/nfs_lib.sh
VERS=4.2
check "a filesystem is served" served_up || finish

# write_records FILE NAME: appends records of 32 bytes to FILE, each with its number, and writes the number of each that fsync made stable
# to /tmp/NAME. Ends without an error once /tmp/NAME.end exists.
cat > /tmp/records.pl <<'PL'
use IO::Handle;
my ($name, $notes, $end) = @ARGV;
open(my $file, ">", $name) or die "$name: $!";
open(my $acknowledged, ">", $notes) or die "$notes: $!";
$acknowledged->autoflush(1);
for (my $n = 0; !-e $end; $n++) {
  my $record = sprintf("record %024d\n", $n);
  my $written = syswrite($file, $record);
  die "record $n: $!" unless $written && $written == 32;
  $file->sync or die "fsync of record $n: $!";
  print $acknowledged "$n\n";
}
close($file) or die "close: $!";
PL
write_records() { rm -f "/tmp/$2" "/tmp/$2.end"; perl /tmp/records.pl "$1" "/tmp/$2" "/tmp/$2.end" & recorder=$!; }
acknowledged() { tail -1 "/tmp/$1"; }
goes_on() { [ "$(wc -l < "/tmp/$1")" -gt "$2" ]; }
# records_kept FILE NAME: all acknowledged records are in FILE, as another client or a new mount reads it
records_kept() {
  local last=$(acknowledged "$2")
  echo "  $((last + 1)) acknowledged records"
  seq 0 "$last" | awk '{ printf "record %024d\n", $1 }' | cmp -n $((32 * (last + 1))) - "$1"
}
records_end() { : > "/tmp/$1.end" && wait $recorder; }
write_verified() { # write_verified FILE OPTIONS...
  local file=$1
  shift
  timeout 400 fio --name=w --filename="$file" --rw=randwrite --bs=4k --size=8M --ioengine=libaio --iodepth=8 --rate_iops=,200 \
    --verify=crc32c --do_verify=1 --verify_fatal=1 --output-format=json --output=/tmp/fio.json "$@" & fio_pid=$!
}
verified() {
  wait $fio_pid && sed -n '/^{/,$p' /tmp/fio.json | jq -c '.jobs[0] | [.error, .write.total_ios, .read.total_ios]' | tee /tmp/ios &&
    equal "error, writes, reads" "$(cat /tmp/ios)" "[0,2048,2048]"
}
# The cut drops the packets of both directions without notice to either TCP socket.
cut_link() { iptables -A INPUT -p tcp --sport $NFS_PORT -j DROP && iptables -A OUTPUT -p tcp --dport $NFS_PORT -j DROP; }
mend_link() { iptables -F INPUT && iptables -F OUTPUT; }

step "4.2: the server is killed under writers, locks, opens and delegations"
check "mount" mount_nfs /mnt/a || finish
check "a second client" second_client
check "mounts" mount_second /mnt/b || finish
# This shell is not in the mount: while the server is away, a shell may wait for its directory.
truncate -s 1000 /mnt/a/locked; echo first > /mnt/a/shared; echo kept > /mnt/a/removed
check "the first client locks a range" lock_hold /mnt/a/locked 0 100
exec 5< /mnt/b/shared # with a delegation; Linux reclaims only those of open files
exec 4<> /mnt/a/removed && rm /mnt/a/removed
write_records /mnt/a/records one
write_verified /mnt/a/verified --direct=1
check "100 records are acknowledged" wait_for 60 goes_on one 100
check "SIGKILL" server_kill
before=$(($(wc -l < /tmp/one) + 5))
last=$(acknowledged one)
check "start again" server_start
check "the writer continues" wait_for 100 goes_on one $before
still_held() { equal lock "$(lock ask /mnt/b/locked 0 100)" "write 0 100" && ! lock try /mnt/b/locked 0 100 && lock try /mnt/b/locked 100 1; }
check "the second client is refused the lock, and gets the range behind it" still_held
acknowledged_kept() {
  echo "  $((last + 1)) records"
  seq 0 "$last" | awk '{ printf "record %024d\n", $1 }' | cmp -n $((32 * (last + 1))) - /mnt/b/records
}
check "the second client reads all records that were acknowledged before" acknowledged_kept
check "SIGKILL again" server_kill
check "start again, and kill at once" server_start
check "so that the reclaims are interrupted" server_kill
check "start at last" server_start
before=$(($(wc -l < /tmp/one) + 5))
check "the writer continues again" wait_for 100 goes_on one $before
check "the lock is still held" still_held
open_file() { read -r line <&4 && equal line "$line" kept && echo more >&4 && exec 4>&-; }
check "a removed file that was open all the time is read and written" open_file
recalled() {
  returned=$(operations /mnt/b DELEGRETURN) && echo second > /mnt/a/shared && equal contents "$(cat /mnt/b/shared)" second &&
    [ "$(operations /mnt/b DELEGRETURN)" -gt "$returned" ]
}
check "the second client's delegation was reclaimed: a writer has it recalled" recalled
exec 5<&-
waiting() { kill -0 $waiter; }
lock wait /mnt/b/locked 0 100 & waiter=$!
sleep 1
check "the second client waits for the lock" waiting
lock_end
check "and gets it from the first" wait $waiter
check "fio ends without an error, and reads its 2,048 blocks" verified

step "4.2: the link is cut for 15 s"
check "the first client locks a range" lock_hold /mnt/a/locked 200 100
write_verified /mnt/a/buffered --direct=0 --ioengine=psync --iodepth=1 --fsync=8
before=$(($(wc -l < /tmp/one) + 20))
check "the writers run" wait_for 60 goes_on one $before
check "cut" cut_link
sleep 15
before=$(($(wc -l < /tmp/one) + 5))
check "end of the cut" mend_link
check "the writer continues" wait_for 100 goes_on one $before
held() { equal lock "$(lock ask /mnt/b/locked 200 100)" "write 200 100"; }
check "the range is still locked" held
lock_end
check "fio ends without an error, and reads its 2,048 blocks" verified
check "the record writer ends without an error" records_end one
check "all acknowledged records are there" records_kept /mnt/b/records one
check "unmount both" umount /mnt/a /mnt/b

step "3: the server is killed under writers"
VERS=3
check "mount" mount_nfs /mnt/a || finish
write_records /mnt/a/three three
write_verified /mnt/a/verified3 --direct=0 --ioengine=psync --iodepth=1 --fsync=8
check "100 records are acknowledged" wait_for 60 goes_on three 100
check "SIGKILL" server_kill
before=$(($(wc -l < /tmp/three) + 5))
check "start again" server_start
check "the writer continues" wait_for 100 goes_on three $before
check "fio ends without an error, and reads its 2,048 blocks" verified
check "the record writer ends without an error" records_end three
check "unmount" umount /mnt/a
VERS=4.2
check "mount with 4.2" mount_nfs /mnt/a
check "all acknowledged records are there" records_kept /mnt/a/three three
check "also those of 4.2" records_kept /mnt/a/records one
check "unmount" umount /mnt/a
check "no error in the kernel's log" no_errors "NFS:.*(error|fail)|lost|RPC:.*fail"
check "the server ends" host stop
check "the offline reader finds no damage" cli inspect verify @DIR/a.img @DIR/b.img
finish
