#!/bin/bash
# The kernel's NFS server over RDMA (knfsd with rpcrdma) as the peer of our client, and beside our server, also with the kernel's client; and one
# comparison of four transports of our server. The kernel serves an ext4, ours a filesystem of a pool of one disk; both are on ramdisks of the same size,
# and the measured files fit the caches of both.
PROTO=rdma
VERS=4.2
. /vmlab/checks/nfs_lib.sh
. /vmlab/checks/peer_lib.sh
KERNEL_NAME=knfsd
RDMA_PORT=20050
MIB=32
FILE=disk.img
IQN=iqn.2026-01.test.wirepool:vm
KERNEL="nfs-rdma://$ADDR/$FILE?medium=ram"
OURS="nfs-rdma://$ADDR:$RDMA_PORT/tank/home/$FILE?medium=ram"

step "soft RoCE, the kernel's server, our server"
check "a soft RoCE device" soft_roce rpcrdma || finish
check "two ramdisks" ramdisk 192 2 || finish
knfsd_over_rdma() { knfsd_up /dev/ram0 && echo rdma 20049 > /proc/fs/nfsd/portlist && cat /proc/fs/nfsd/portlist; }
check "knfsd over RDMA" knfsd_over_rdma || finish
check "our server" server_here "[nfs]
listen = [\"$ADDR:2050\"]
listen_rdma = [\"$ADDR:$RDMA_PORT\"]
rpcbind = false
lease_s = 10
[iscsi]
listen = [\"$ADDR:3260\"]
listen_rdma = [\"$ADDR:3260\"]" || finish
check "a pool of one disk" cli pool create tank /dev/ram1 || finish
check "a filesystem" cli fs create tank/home
check "export it" cli export nfs tank/home --client '*:rw,squash=none' || finish

step "our client against knfsd"
filled() { bench run "$1" --create ${MIB}M --precondition --overwrite --rounds 1 --runtime 200ms > /tmp/said || { cat /tmp/said; return 1; }; }
check "a file of $MIB MiB" filled "$KERNEL"
check "verified I/O, in messages and by READ and WRITE" verified "$KERNEL" --depth 16
check "verified I/O of 64 KiB, two jobs" verified "$KERNEL" --bs 64k --jobs 2 --depth 4
check "verified I/O of 1 MiB" verified "$KERNEL" --bs 1m --depth 2
check "verified I/O with 4.1" verified "$KERNEL&minor=1" --bs 16k --depth 4

step "knfsd and our server in turn"
check "a file of $MIB MiB" filled "$OURS"
check "reads of 4 KiB, one at a time" in_turn --rw randread
check "reads of 4 KiB, 16 at a time" in_turn --rw randread --depth 16
check "writes of 4 KiB, 16 at a time, unstable" in_turn --rw randwrite --depth 16
check "reads of 64 KiB, 8 at a time" in_turn --rw randread --bs 64k --depth 8
check "writes of 64 KiB, 8 at a time" in_turn --rw randwrite --bs 64k --depth 8
check "reads of 1 MiB, 2 at a time" in_turn --rw randread --bs 1m --depth 2
check "writes of 1 MiB, 2 at a time" in_turn --rw randwrite --bs 1m --depth 2

step "the kernel's client with both"
mounted_from() { local RDMA_PORT=$2 EXPORT=$3; mount_nfs "$1"; }
check "mount knfsd's" mounted_from /mnt/a 20049 / || finish
check "mount ours" mounted_from /mnt/b $RDMA_PORT /tank/home || finish
check "both over RDMA" sh -c "grep -c ' nfs4 .*proto=rdma' /proc/mounts | grep -qx 2"
check "verified I/O with our server" fio_verify /mnt/b/verified 16
check "reads of 4 KiB, one at a time" fio_in_turn /mnt/a/$FILE /mnt/b/$FILE --rw=randread
check "reads of 4 KiB, 16 at a time" fio_in_turn /mnt/a/$FILE /mnt/b/$FILE --rw=randread --iodepth=16
check "writes of 4 KiB, 16 at a time" fio_in_turn /mnt/a/$FILE /mnt/b/$FILE --rw=randwrite --iodepth=16
check "unmount" umount /mnt/a /mnt/b

step "four transports of our server in one comparison"
check "a volume" cli volume create tank/vm1 --size ${MIB}M
check "export it" cli export iscsi tank/vm1 --iqn $IQN --initiator any
compared() {
  bench compare "iscsi://$ADDR/$IQN/0" "iser://$ADDR/$IQN/0" "nfs://$ADDR:2050/tank/home/$FILE" "nfs-rdma://$ADDR:$RDMA_PORT/tank/home/$FILE" \
    --modes randread --sizes 4k --points Q4T1 --rounds 1 --runtime "$(amount 500ms 5s)" --server-pid $server --json > /tmp/compare.json
  jq -r '.wirepool.rows[] | "ROW \(.address), \(.workload): \(.transport.kind) \(.transport.device // ""), \(.iops.median | floor) IOPS"' /tmp/compare.json
  jq -e '[.wirepool.rows[] | [(.address | split(":")[0]), .transport.kind, .transport.device]] | sort ==
    [["iscsi", "tcp", null], ["iser", "rdma", "rxe0"], ["nfs", "tcp", null], ["nfs-rdma", "rdma", "rxe0"]]' /tmp/compare.json &&
    jq -e '[.wirepool.rows[] | .iops.median > 0 and .server_cpu_us_per_io > 0] | all' /tmp/compare.json
}
check "each has a row, with the transport of its name" compared

peer_end
