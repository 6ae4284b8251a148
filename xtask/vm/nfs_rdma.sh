#!/bin/bash
# NFS over RDMA between two guests on soft RoCE: this one has the server, and nfs_rdma_host.sh the kernel that uses it with xprtrdma.
. /vmlab/checks/inside_lib.sh
ADDR=$VMLAB_SEG_IP

step "a server on the segment between two guests"
modprobe -a rdma_ucm rdma_rxe
check "a soft RoCE device" rdma link add rxe0 type rxe netdev seg0 || finish
check "our server" server_here "[nfs]
listen = [\"$ADDR:2049\"]
listen_rdma = [\"$ADDR:20049\"]
lease_s = 10" || finish
listens() { cli status --json | jq -e '[.listen[] | select(.transport=="rdma" and .role=="nfs")] | length==1' >/dev/null; }
check "it listens for NFS over RDMA" listens || { cat /tmp/server.log; finish; }
ramdisk 96 4
check "a raidz1 of four disks" cli pool create tank raidz1 /dev/ram0 /dev/ram1 /dev/ram2 /dev/ram3 || finish
check "a filesystem" cli fs create tank/home || finish
check "export it" cli export nfs tank/home --client '*:rw,squash=none' || finish
vmctl set served

# session FILTER: the only session of NFS, and jq's FILTER is true for it
session() {
  cli session list --json > /tmp/sessions.json
  jq -e "[.[] | select(.protocol==\"nfs\")] | length==1 and (.[0] | $1)" /tmp/sessions.json >/dev/null || { cat /tmp/sessions.json; return 1; }
}
check "the client has mounted with 3" vmctl wait mounted3 300
check "the host is over RDMA" session '.transport=="rdma"'
vmctl set seen3
check "the client has mounted with 4.2" vmctl wait mounted4 900
over_rdma() { cli session list --json | jq -e '[.[] | select(.transport=="rdma" and .device=="rxe0" and .io_queues==1)] | length==1' >/dev/null; }
check "its session is over RDMA" over_rdma || cli session list --json
id=$(cli session list --json | jq '[.[] | select(.device=="rxe0")][0].id')
cli session show "$id"
shows() { cli session show "$id" --json | jq -e "$1" >/dev/null; }
check "session show has the queue pair" shows '[.. | .rdma? | select(. != null) | .number > 0 and .peer_number > 0 and .receives > 0] | length==1 and all'
vmctl set seen4

check "the client writes" vmctl wait writing 900
check "the server is killed" kill -KILL $server
sleep 3
check "it starts again" server_again
vmctl set restarted
check "the client has ended" vmctl wait ended 900
check "the server ends" server_ended
check "the offline reader finds no damage" cli inspect verify /dev/ram0 /dev/ram1 /dev/ram2 /dev/ram3
check "no error in the kernel's log" no_errors "rxe.*(error|invalid)|local protection"
[ $FAILS = 0 ] || cat /tmp/server.log
finish
