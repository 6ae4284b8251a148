#!/bin/bash
# The client of nfs_rdma.sh: the kernel's NFS over RDMA with versions 3, 4.1 and 4.2; a second client over TCP with locks and recalls of delegations;
# a link that is lost for 15 s; a server that is killed.
PROTO=rdma
. /vmlab/checks/nfs_lib.sh
ADDR=$VMLAB_PEER_IP
EXPORT=/tank/home
at() { echo "$1 at $(cut -d' ' -f1 /proc/uptime)"; }

modprobe -a rdma_rxe rpcrdma
check "the client's soft RoCE device" rdma link add rxe0 type rxe netdev seg0 || finish
check "the server is there" vmctl wait served 300 || finish
dmesg -C >/dev/null

# contents VERSION: files of all kinds and sizes are read as they were written, by a new mount
contents() {
  local size
  step "version $1"
  VERS=$1
  check "mount" mount_nfs /mnt/a || { dmesg | tail -30; finish; }
  check "over RDMA" mounted_as /mnt/a "vers=$1" proto=rdma
  grep " /mnt/a nfs" /proc/mounts
  mkdir -p /mnt/a/sizes
  sizes="1 3 4 511 1000 4095 4096 4097 9000 65536 100001 1048576 3000001"
  written() { for size in $sizes; do head -c $size /dev/urandom > /tmp/f.$size && cp /tmp/f.$size /mnt/a/sizes/ || return 1; done; }
  check "files of many sizes" written
  check "verified I/O" fio_verify /mnt/a/verified 16
  check "verified I/O, buffered" fio_verify /mnt/a/buffered 4 --ioengine=psync --direct=0 --iodepth=1 --fsync=32
  rm -rf /tmp/tree; make_tree /etc/ssl
  listing /tmp/tree > /tmp/list1
  check "a tree" cp -a /tmp/tree /mnt/a/
  long=$(printf 'x%.0s' {1..1000})
  check "a long symbolic link" ln -s "$long" /mnt/a/long
  # Their list is much longer than a message.
  files=$(amount 200 1000)
  many() { mkdir /mnt/a/many && (cd /mnt/a/many && seq -f 'file-with-a-long-name-%06g' "$files" | xargs touch); }
  check "$files files" many
  check "unmount" umount /mnt/a
  check "mount again" mount_nfs /mnt/a || finish
  read_back() { for size in $sizes; do cmp /tmp/f.$size /mnt/a/sizes/f.$size || return 1; done; }
  check "files of many sizes are read" read_back
  listing /mnt/a/tree > /tmp/list2
  check "names, modes, owners, links, sizes and times are equal" diff /tmp/list1 /tmp/list2
  check "contents are equal" diff -r --no-dereference /tmp/tree/sub /mnt/a/tree/sub
  check "the link is read" equal link "$(readlink /mnt/a/long)" "$long"
  check "$files files are listed" equal files "$(ls -l /mnt/a/many | grep -c ' file-with-a-long-name-[0-9]*$')" "$files"
  if [ "$1" = 4.2 ]; then
    big() { head -c 20000 /dev/urandom | base64 -w0 | head -c 20000 > /tmp/value && setfattr -n user.big -v "$(cat /tmp/value)" /mnt/a/long-attribute; }
    : > /mnt/a/long-attribute
    check "a long attribute" big
    check "it is read" sh -c 'getfattr --only-values -n user.big /mnt/a/long-attribute | cmp - /tmp/value'
  fi
  check "remove everything" sh -c 'rm -r /mnt/a/*'
}
contents 3
vmctl set mounted3
check "the server has seen it" vmctl wait seen3 200
check "unmount" umount /mnt/a
if whole; then
  contents 4.1
  check "unmount" umount /mnt/a
fi
contents 4.2
vmctl set mounted4
check "the server has seen it" vmctl wait seen4 200
check "no error in the kernel's log" no_errors "rpcrdma.*(error|fail)|NFS:.*(error|fail)"

step "two clients"
# The second one is over TCP, in a network namespace of its own.
second() {
  ip netns add two && ip link add link seg0 name two0 type macvlan mode bridge && ip link set two0 netns two &&
    ip -n two addr add 10.77.0.9/24 dev two0 && ip -n two link set two0 up && ip -n two link set lo up
}
check "a second client" second
check "mounts" env PROTO=tcp NFS_PORT=2049 bash -c '. /vmlab/checks/nfs_lib.sh; VERS=4.2 ADDR=$VMLAB_PEER_IP EXPORT=/tank/home mount_second /mnt/b' || finish
echo one > /mnt/a/shared
seen() { equal contents "$(cat /mnt/b/shared)" one && echo two > /mnt/b/shared && equal contents "$(cat /mnt/a/shared)" two; }
check "close-to-open: each sees the other's file" seen
exec 5< /mnt/a/shared
cat /mnt/a/shared > /dev/null
recalled() {
  returned=$(operations /mnt/a DELEGRETURN) && timeout 30 sh -c 'echo three > /mnt/b/shared' && equal contents "$(cat /mnt/a/shared)" three &&
    [ "$(operations /mnt/a DELEGRETURN)" -gt "$returned" ]
}
check "a delegation is recalled over RDMA" recalled
exec 5<&-
truncate -s 1000 /mnt/a/locked
check "the second locks a range" lock_hold /mnt/b/locked 0 100
check "the first sees it" equal lock "$(lock ask /mnt/a/locked 50 10)" "write 0 100"
lock wait /mnt/a/locked 0 100 & waiter=$!
sleep 2
waits() { kill -0 $waiter; }
check "and waits" waits
lock_end
check "and gets the lock" wait $waiter
check "unmount the second" umount /mnt/b

write_verified() { # write_verified SECONDS: in the background, pid in $fio
  timeout 500 fio --name=r --filename=/mnt/a/running --rw=randwrite --bs=4k --size=16M --direct=1 --ioengine=libaio --iodepth=8 --sync=1 --time_based \
    --runtime="$1" --verify=crc32c --verify_fatal=1 --output-format=json --output=/tmp/r.json &
  fio=$!
}
written_verified() { wait $fio || { cat /tmp/r.json; return 1; }; sed -n '/^{/,$p' /tmp/r.json | fio_line; }

step "15 s without carrier"
check "a range is locked" lock_hold /mnt/a/locked 0 100
write_verified "$(amount 40 120)"
sleep 8
dmesg -C >/dev/null
check "the carrier goes" vmctl link a off
at "off"
sleep 15
check "the carrier comes" vmctl link a on
at "on"
check "fio ends without an error" written_verified
check "no I/O error in the kernel's log" no_errors
lock_end

step "the server is killed under a running fio"
check "a range is locked" lock_hold /mnt/a/locked 0 100
write_verified "$(amount 30 60)"
sleep 5
vmctl set writing
check "it was started again" vmctl wait restarted 300
check "fio ends without an error" written_verified
holds() { kill -0 $holder; }
check "the lock is held" holds
lock_end
check "verified I/O" fio_verify /mnt/a/verified 16
check "unmount" umount /mnt/a

step "mounts and unmounts"
VERS=4.2
each() { local i; for i in $(seq "$1"); do mount_nfs /mnt/a && ls /mnt/a >/dev/null && umount /mnt/a || { echo "round $i failed"; return 1; }; done; }
check "$(amount 3 16) rounds" each "$(amount 3 16)"
vmctl set ended
finish
