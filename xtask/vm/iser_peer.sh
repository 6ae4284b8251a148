#!/bin/bash
# The kernel's iSER target (LIO with ib_isert) as the peer of our initiator, and beside our server, also with the kernel's initiator. Both serve memory.
. /vmlab/checks/iscsi_lib.sh
. /vmlab/checks/peer_lib.sh
KERNEL_NAME=LIO
KERNEL_IQN=iqn.2026-01.test.wirepool:lio
KERNEL_PORTAL=$ADDR:3261
PORTAL=$ADDR:3260
MIB=64
KERNEL="iser://$KERNEL_PORTAL/$KERNEL_IQN/0?medium=ram"
OURS="iser://$PORTAL/$IQN/0?medium=ram"

step "soft RoCE, the kernel's target, our server"
check "a soft RoCE device" soft_roce ib_isert ib_iser || finish
lio_over_rdma() { local IQN=$KERNEL_IQN; lio_up rd_mcp_0 rd_pages=$((MIB * 256)) $KERNEL_PORTAL && echo 1 > "$lio/iscsi/$IQN/tpgt_1/np/$KERNEL_PORTAL/iser"; }
check "LIO over RDMA" lio_over_rdma || finish
check "our server" server_here "[iscsi]
listen = [\"$PORTAL\"]
listen_rdma = [\"$PORTAL\"]" || finish
check "a disk in memory" cli disk add d0 --mem ${MIB}M
check "export it" cli export iscsi d0 --iqn $IQN --initiator any

step "our initiator against LIO"
check "verified I/O, in messages and by RDMA" verified "$KERNEL" --depth 16
check "verified I/O of 64 KiB, two jobs" verified "$KERNEL" --bs 64k --jobs 2 --depth 4
check "verified I/O without immediate data" verified "$KERNEL&immediate=0" --bs 64k --depth 4

step "LIO and our server in turn"
check "reads of 4 KiB, one at a time" in_turn --rw randread
check "reads of 4 KiB, 16 at a time" in_turn --rw randread --depth 16
check "writes of 4 KiB, 16 at a time" in_turn --rw randwrite --depth 16
check "reads of 64 KiB, 8 at a time" in_turn --rw randread --bs 64k --depth 8

step "the kernel's initiator with both"
# logged_in_to PORTAL IQN: the device is in $dev
logged_in_to() { local PORTAL=$1 IQN=$2; discover_iser > /tmp/said && login && appeared && dev=$(iscsi_dev); }
check "log in to LIO" logged_in_to $KERNEL_PORTAL $KERNEL_IQN || finish
theirs=$dev
check "log in to our server" logged_in_to $PORTAL $IQN || finish
check "both over iSER" sh -c "iscsiadm -m session | grep -c '^iser:' | grep -qx 2"
check "verified I/O with our server" fio_verify "$dev" 16
check "reads of 4 KiB, one at a time" fio_in_turn "$theirs" "$dev" --rw=randread
check "reads of 4 KiB, 16 at a time" fio_in_turn "$theirs" "$dev" --rw=randread --iodepth=16
check "writes of 4 KiB, 16 at a time" fio_in_turn "$theirs" "$dev" --rw=randwrite --iodepth=16
check "log out" iscsiadm -m session -u

peer_end
