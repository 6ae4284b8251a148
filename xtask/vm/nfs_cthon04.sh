#!/bin/bash
# The Connectathon suite (cthon04) with the kernel's client over RDMA, on soft RoCE in this guest, against a filesystem of a pool. The second share is the
# built suite; its general tests compile and format while they run. Our server has no NLM: locks of version 3 stay in the client (`nolock`).
PROTO=rdma
. /vmlab/checks/nfs_lib.sh
. /vmlab/checks/inside_lib.sh
ADDR=10.0.2.15
EXPORT=/tank/home

step "a server and its client on soft RoCE"
check "a soft RoCE device" soft_roce rpcrdma || finish
check "our server" server_here "[nfs]
listen = [\"$ADDR:$NFS_PORT\"]
listen_rdma = [\"$ADDR:$RDMA_PORT\"]
rpcbind = false" || finish
ramdisk 384
check "a pool of one disk" cli pool create tank /dev/ram0 || finish
check "a filesystem" cli fs create tank/home || finish
check "export it" cli export nfs tank/home --client '*:rw,squash=none' || finish
check "the suite is copied" cp -a /mnt/share2 /tmp/cthon04 || finish

# judged OPTION: the tests of one directory; prints verdicts and warnings, and everything if they fail
judged() {
  (cd /tmp/cthon04 && ./runtests "$1" -f /mnt/a/cthon04) > /tmp/said 2>&1 && grep -qx "All tests completed" /tmp/said &&
    ! grep "not found" /tmp/said || { cat /tmp/said; return 1; }
  grep -iE "congratulations|complete|warn|pass" /tmp/said
}
for VERS in 4.2 4.1 3; do
  step "version $VERS"
  check "mount" mount_nfs /mnt/a || finish
  check "over RDMA" mounted_as /mnt/a "vers=$VERS" proto=rdma
  check "basic" judged -b
  check "general" judged -g
  check "special" judged -s
  check "lock" judged -l
  check "unmount" umount /mnt/a
done
check "the server ends" server_ended
check "the offline reader finds no damage" cli inspect verify /dev/ram0
check "no error in the kernel's log" no_errors "rxe.*(error|invalid)|local protection"
[ $FAILS = 0 ] || cat /tmp/server.log
finish
