#!/bin/bash
# The host of iser.sh: open-iscsi over ib_iser, a file system, a link that is lost for 15 s, a server that is killed.
. /vmlab/checks/iscsi_lib.sh
ADDR=$VMLAB_PEER_IP
PORTAL=$ADDR:3260
at() { echo "$1 at $(cut -d' ' -f1 /proc/uptime)"; }
not_logged_in() { ! logged_in; }

modprobe -a rdma_rxe ib_iser
check "the host's soft RoCE device" rdma link add rxe0 type rxe netdev seg0 || finish
check "the server is there" vmctl wait served 300 || finish
named() { discover_iser > /tmp/discovered && equal targets "$(cat /tmp/discovered)" "$PORTAL,1 $IQN"; }
check "discovery over iSER" named || finish
check "time-outs" node_set 'node.conn[0].timeo.noop_out_interval' 3 'node.conn[0].timeo.noop_out_timeout' 3 node.session.timeo.replacement_timeout 300
check "log in" login || finish
check "the disk appears" appeared || finish
dev=$(iscsi_dev)
check "the transport is iSER" sh -c "iscsiadm -m session | grep -q '^iser:'"
vmctl set logged_in
check "the server has seen it" vmctl wait seen 200

step "data"
check "verified I/O" fio_verify "$dev" 64
check "file system" timeout 120 mkfs.ext4 -q -F "$dev"
mkdir -p /mnt/fs
check "mount" mount "$dev" /mnt/fs
check "verified I/O in files" fio_verify /mnt/fs/verified 48 --fsync=64
check "unmount" umount /mnt/fs
check "fsck is clean" timeout 120 e2fsck -fn "$dev"

# A pool's write cache is the server's memory and is lost with the process (docs/decisions/0106), so each write is FUA.
fio_start() { # fio_start SECONDS: in the background, pid in $fio
  timeout 500 fio --name=r --filename="$dev" --rw=randwrite --bs=4k --size=32M --direct=1 --ioengine=libaio --iodepth=8 --sync=1 --time_based \
    --runtime="$1" --verify=crc32c --verify_fatal=1 --output-format=json --output=/tmp/r.json &
  fio=$!
}
fio_end() { wait $fio || { cat /tmp/r.json; return 1; }; sed -n '/^{/,$p' /tmp/r.json | fio_line; }

step "15 s without carrier"
fio_start "$(amount 45 120)"
sleep 8
dmesg -C >/dev/null
check "the carrier goes" vmctl link a off
at "off"
sleep 15
check "the kernel has noticed" wait_for 30 not_logged_in
check "the carrier comes" vmctl link a on
at "on"
check "logged in again" wait_for 120 logged_in
at "logged in"
check "fio ends without an error" fio_end
check "no I/O error in the kernel's log" no_errors

step "the server is killed under a running fio"
fio_start "$(amount 30 60)"
sleep 5
vmctl set writing
check "it was started again" vmctl wait restarted 300
check "logged in again" wait_for 120 logged_in
check "fio ends without an error" fio_end
check "verified I/O" fio_verify "$dev" 32

step "logins and logouts"
again() { logout && wait_for 30 nothing_left && login && appeared; }
each() { local i; for i in $(seq "$1"); do again || { echo "round $i failed"; return 1; }; done; }
check "$(amount 3 16) rounds" each "$(amount 3 16)"
check "log out" logout
check "nothing left behind" wait_for 30 nothing_left
vmctl set ended
finish
