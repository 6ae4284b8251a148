#!/bin/bash
# NFS 4.2, 4.1 and 3 of a stock Linux kernel on a filesystem of a mirrored pool, which a server on the host serves.
. /vmlab/checks/nfs_lib.sh
at=/mnt/a
check "a filesystem is served" served_up || finish
make_tree $TREE_OF $(amount "" /etc)
truncate -s 5G /tmp/tree/sparse; echo end >> /tmp/tree/sparse
listing /tmp/tree > /tmp/tree.list
as_user() { setpriv --reuid=1000 --regid=1000 --clear-groups "$@"; }

# The part that all versions have, below a directory of its own: at $at/$VERS
tree_in() { tar --format=posix -C /tmp -cSf - tree | tar -C "$at/$VERS" -xSf -; }
tree_equal() { listing "$at/$VERS/tree" > /tmp/got.list && diff /tmp/tree.list /tmp/got.list; }
remount() { umount $at && mount_nfs $at; }
contents_equal() { diff -r --no-dereference /tmp/tree/sub "$at/$VERS/tree/sub" && equal end "$(tail -c 4 "$at/$VERS/tree/sparse")" end; }
open_removed() { # the open file is read and written, and its name is gone after the end
  cd "$at/$VERS" && echo kept > s && exec 4<> s && rm s && [ -n "$(ls -A | grep '^[.]nfs')" ] && read -r line <&4 && equal line "$line" kept &&
    echo more >&4 && exec 4>&- && wait_for 10 sh -c '! ls -A | grep "^[.]nfs"'
}
renamed() {
  cd "$at/$VERS" && mkdir -p d/e f && echo old > d/o && echo new > n && exec 4< d/o && mv n d/o && read -r line <&4 && exec 4<&- &&
    equal line "$line" old && equal file "$(cat d/o)" new && mv d f/ && equal moved "$(cat f/d/o)" new && ! mv f f/d/e 2>/dev/null && ! rmdir f 2>/dev/null
}
linked() {
  cd "$at/$VERS" && ln -s "$(printf 'y%.0s' {1..1000})" long && equal target "$(readlink long | wc -c)" 1001 && echo one > l1 && ln l1 l2 && echo two > l2 &&
    equal contents "$(cat l1)" two && equal links "$(stat -c %h l1)" 2 && rm l2 && equal links "$(stat -c %h l1)" 1
}
files=$(amount 400 1500)
many() {
  cd "$at/$VERS" && mkdir many && (cd many && seq -f 'file-%06g' "$files" | xargs touch) && echo 3 > /proc/sys/vm/drop_caches &&
    equal names "$(ls -l many | grep -c ' file-[0-9]*$')" "$files" && rm -r many
}
common() {
  step "version $VERS"
  check "mount" mount_nfs $at || finish
  check "the kernel uses it" mounted_as $at "vers=$VERS" hard rsize=1048576 wsize=1048576
  mkdir "$at/$VERS"
  if [ $VERS != 4.1 ]; then # check `nfs` has it for 4.1
    check "a tree through tar" tree_in
    check "is equal" tree_equal
    check "mount again" remount
    check "its contents are equal" contents_equal
    check "a directory of $files files" many
  fi
  check "fio with verification, direct" fio_verify "$at/$VERS/direct" 8
  check "fio with verification, buffered with fsync" fio_verify "$at/$VERS/buffered" 8 --ioengine=psync --direct=0 --iodepth=1 --fsync=32
  check "a removed open file" open_removed
  check "renames" renamed
  check "links" linked
  cd /
  check "remove the tree" rm -r "$at/$VERS"
}

VERS=3 common
check "unmount" umount $at
VERS=4.1 common
check "unmount" umount $at
VERS=4.2
common

step "holes and copies"
cd $at
allocated() { # allocated FILE: KiB, after the pool has written it
  sync "$1" && [ "$PEER" = nvmet ] || cli pool checkpoint tank >/dev/null
  echo 3 > /proc/sys/vm/drop_caches; stat -c '%b' "$1" | awk '{ print int($1 / 2) }'
}
punched() {
  dd if=/dev/urandom of=holes bs=1M count=8 conv=fsync status=none && cp holes /tmp/holes && before=$(allocated holes) &&
    fallocate -p -o 2M -l 4M holes && fallocate -p -o 2M -l 4M /tmp/holes && after=$(allocated holes) && echo "  $before KiB, then $after" &&
    [ "$after" -le $((before - 4000)) ] && cmp holes /tmp/holes && equal size "$(stat -c %s holes)" 8388608
}
check "a punched hole frees its space and reads as zeroes" punched
sought() {
  equal hole "$(xfs_io -r -c 'seek -h 0' holes | tail -1)" "HOLE	2097152" && equal data "$(xfs_io -r -c 'seek -d 2M' holes | tail -1)" "DATA	6291456" &&
    equal end "$(xfs_io -r -c 'seek -h 6M' holes | tail -1)" "HOLE	8388608" && [ "$(operations $at SEEK)" -ge 3 ]
}
check "SEEK_HOLE and SEEK_DATA" sought
grown() { fallocate -o 8M -l 1M holes && equal size "$(stat -c %s holes)" 9437184 && equal contents "$(tail -c 1M holes | tr -d '\0' | wc -c)" 0 && ! fallocate -l 100G holes 2>/dev/null; }
check "allocation makes a file longer, and more than there is fails" grown
copied() {
  xfs_io -f -c 'copy_range holes' copy && cmp holes copy && xfs_io -f -c 'copy_range -s 1000 -d 77 -l 3000000 holes' part &&
    tail -c +78 part | cmp -n 3000000 - <(tail -c +1001 holes) && [ "$(operations $at COPY)" -ge 2 ]
}
check "copy_file_range, by the server" copied

step "extended attributes and lists"
mkdir x; echo text > x/f
attributes() {
  setfattr -n user.one -v 1 x/f && setfattr -n user.two -v "$(printf 'z%.0s' {1..15000})" x/f && setfattr -n user.dir -v here x && echo 3 > /proc/sys/vm/drop_caches &&
    equal one "$(getfattr --only-values -n user.one x/f)" 1 && equal two "$(getfattr --only-values -n user.two x/f | wc -c)" 15000 &&
    equal dir "$(getfattr --only-values -n user.dir x)" here && setfattr -x user.one x/f && equal names "$(getfattr -d x/f | grep -c ^user)" 1 && ! getfattr -n user.one x/f 2>/dev/null
}
check "set, get, list and remove" attributes
attributes=$(amount 60 200)
many_attributes() { local n; for n in $(seq "$attributes"); do setfattr -n "user.number-$n" -v "$n" x/f || return 1; done; equal names "$(getfattr -d x/f | grep -c '^user.number')" "$attributes"; }
check "$attributes attributes" many_attributes
lists() {
  chmod 600 x/f && ! as_user cat x/f 2>/dev/null && nfs4_setfacl -a A::1000:r x/f && nfs4_getfacl x/f | tee /tmp/acl && grep -q '^A::1000:r' /tmp/acl &&
    equal contents "$(as_user cat x/f)" text && ! as_user sh -c 'echo x >> x/f' 2>/dev/null && nfs4_setfacl -x A::1000:r x/f && echo 3 > /proc/sys/vm/drop_caches && ! as_user cat x/f 2>/dev/null
}
check "nfs4_setfacl grants a user, and takes it back" lists
inherited() { nfs4_setfacl -a A:fd:1000:rx x && mkdir x/d && umask 077 && echo new > x/d/f; umask 022; nfs4_getfacl x/d | grep -q '^A:fdi*:1000:' && equal contents "$(as_user cat x/d/f)" new; }
check "a new file and directory inherit entries" inherited

step "two clients"
check "a second client" second_client
check "mounts" mount_second /mnt/b || finish
truncate -s 1000 locked
check "the first locks a range" lock_hold $at/locked 0 100
check "the second sees it" equal lock "$(lock ask /mnt/b/locked 50 10)" "write 0 100"
refused() { ! lock try /mnt/b/locked 99 1 && lock try /mnt/b/locked 100 100; }
check "and is refused there, but not behind it" refused
lock_end
check "until it is released" lock wait /mnt/b/locked 0 100
# A client with a delegation opens and closes again without a request; a conflicting one has it recalled.
delegated() {
  echo first > shared && cat /mnt/b/shared > /dev/null && before=$(operations /mnt/b OPEN_NOATTR) && opens=$(operations /mnt/b OPEN) && for _ in 1 2 3 4 5; do cat /mnt/b/shared > /dev/null; done &&
    equal "further opens" "$(($(operations /mnt/b OPEN) + $(operations /mnt/b OPEN_NOATTR)))" "$((opens + before))"
}
check "a delegation saves opens" delegated
recalled() {
  returned=$(operations /mnt/b DELEGRETURN) && echo second > shared && equal contents "$(cat /mnt/b/shared)" second &&
    [ "$(operations /mnt/b DELEGRETURN)" -gt "$returned" ]
}
check "a writer has it recalled, and is seen" recalled
exchanged() { # each reads in turn the number that the other wrote
  local i
  echo 0 > turns
  for i in $(seq 1 2 20); do
    echo $i > turns && equal "at the second" "$(cat /mnt/b/turns)" $i && echo $((i + 1)) > /mnt/b/turns && equal "at the first" "$(cat turns)" $((i + 1)) || return 1
  done
}
check "writes by turns" exchanged
check "unmount the second" umount /mnt/b
if [ "$PEER" != wirepool ]; then finish; fi

step "snapshots and quotas"
echo before > kept; mkdir gone; echo gone > gone/f; sync
check "a snapshot" cli snapshot create tank/home@monday
echo after > kept; rm -r gone
browsed() {
  equal names "$(ls $at/.zfs/snapshot)" monday && equal contents "$(cat $at/.zfs/snapshot/monday/kept)" before && equal contents "$(cat $at/.zfs/snapshot/monday/gone/f)" gone &&
    equal "contents now" "$(cat $at/kept)" after && ! touch $at/.zfs/snapshot/monday/new 2>/dev/null && ! rm -f $at/.zfs/snapshot/monday/kept 2>/dev/null
}
check "is browsed, and refuses changes" browsed
check "with cmp of a file of 8 MiB" cmp holes $at/.zfs/snapshot/monday/holes
over_three() { VERS=3 mount_nfs /mnt/three && equal contents "$(cat /mnt/three/.zfs/snapshot/monday/gone/f)" gone && ! touch /mnt/three/.zfs/snapshot/monday/new 2>/dev/null; }
check "and over version 3" over_three
no_longer() { umount /mnt/three/.zfs/snapshot/monday 2>/dev/null; umount $at/.zfs/snapshot/monday 2>/dev/null; cli snapshot destroy tank/home@monday && umount /mnt/three && ! cat $at/.zfs/snapshot/monday/kept 2>/dev/null; }
check "it is destroyed" no_longer
space() { cli set quota=64M tank/home && sleep 1 && size=$(df -P --block-size=1M $at | awk 'NR == 2 { print $2 }') && echo "  $size MiB" && [ "$size" -le 64 ] && [ "$size" -ge 60 ]; }
check "df shows a quota" space
exceeded() { ! dd if=/dev/urandom of=much bs=1M count=80 conv=fsync status=none 2>/tmp/dd.err && cat /tmp/dd.err && grep -qE 'quota|No space' /tmp/dd.err; rm -f much; }
check "which is kept" exceeded
unlimited() { cli set quota=none tank/home && dd if=/dev/urandom of=much bs=1M count=80 conv=fsync status=none; }
check "and lifted" unlimited

cd /
check "unmount" umount $at
nothing_left() { ! grep -q ' nfs4* ' /proc/mounts && [ -z "$(ss -Htn state established dst "$ADDR:$NFS_PORT")" ]; }
check "nothing left behind" wait_for 30 nothing_left
check "no complaint in the kernel's log" no_errors "NFS:.*(error|fail)|lost|RPC:.*fail"
check "the server ends" host stop
check "the offline reader finds no damage" cli inspect verify @DIR/a.img @DIR/b.img
finish
