#!/bin/bash
# The host of rdma_link.sh: the server's card has no carrier for 15 s under a verifying fio.
. /vmlab/checks/lib.sh
ADDR=$VMLAB_PEER_IP
at() { echo "$1 at $(cut -d' ' -f1 /proc/uptime)"; }
not_live() { ! ctrl_live; }

modprobe -a rdma_rxe nvme-rdma
check "the host's soft RoCE device" rdma link add rxe0 type rxe netdev seg0 || finish
check "the server is there" vmctl wait served 200 || finish
check "connect" timeout 60 nvme connect -t rdma -a $ADDR -s $PORT -n $NQN -i 2 -k 5 -c 2 -l 600
check "namespace appears" connected || finish
dev=$(nvme_dev $NQN)

step "15 s without carrier"
timeout 400 fio --name=r --filename="$dev" --rw=randwrite --bs=4k --size=32M --direct=1 --ioengine=libaio --iodepth=8 --time_based \
  --runtime="$(amount 45 120)" --verify=crc32c --verify_fatal=1 --output-format=json --output=/tmp/r.json &
fio=$!
sleep 8
dmesg -C >/dev/null
check "the carrier goes" vmctl link a off
at "off"
sleep 15
check "the kernel has noticed" wait_for 30 not_live
check "the carrier comes" vmctl link a on
at "on"
check "controller is live again" wait_for 120 ctrl_live
at "live"
check "fio ends without an error" wait $fio || cat /tmp/r.json
sed -n '/^{/,$p' /tmp/r.json | fio_line
check "no I/O error in the kernel's log" no_errors
vmctl set recovered
check "the server has counted" vmctl wait counted 200

step "after the cut"
check "verified I/O" fio_verify "$dev" 32
check "disconnect" disconnect
check "nothing left behind" wait_for 30 nothing_left
vmctl set ended
finish
