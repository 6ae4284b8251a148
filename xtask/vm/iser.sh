#!/bin/bash
# iSER (iSCSI over RDMA) between two guests on soft RoCE: this one has the server, and iser_host.sh the kernel that uses it with open-iscsi.
. /vmlab/checks/inside_lib.sh
ADDR=$VMLAB_SEG_IP
IQN=iqn.2026-01.test.wirepool:vm

step "a server on the segment between two guests"
modprobe -a rdma_ucm rdma_rxe
check "a soft RoCE device" rdma link add rxe0 type rxe netdev seg0 || finish
check "our server" server_here "[iscsi]
listen = [\"$ADDR:3260\"]
listen_rdma = [\"$ADDR:3260\"]" || finish
listens() { cli status --json | jq -e '[.listen[] | select(.transport=="rdma" and .role=="iscsi")] | length==1' >/dev/null; }
check "it listens for iSER" listens || { cat /tmp/server.log; finish; }
ramdisk 64 4
check "a raidz1 of four disks" cli pool create tank raidz1 /dev/ram0 /dev/ram1 /dev/ram2 /dev/ram3 || finish
check "a volume" cli volume create tank/vm1 --size 96M
check "export it" cli export iscsi tank/vm1 --iqn $IQN --initiator any || finish
printed() { cli client-config $IQN --os debian --transport rdma | grep -xF "iscsiadm -m discovery -t sendtargets -p $ADDR:3260 -I iser"; }
check "client-config names the discovery that the host makes" printed
vmctl set served

check "the host has logged in" vmctl wait logged_in 300
check "the session is over RDMA" session_is '.protocol=="iscsi" and .transport=="rdma" and .device=="rxe0"'
id=$(cli session list --json | jq '[.[] | select(.kind=="io")][0].id')
cli session show "$id"
shows() { cli session show "$id" --json | jq -e "$1" >/dev/null; }
check "session show has the queue pair" shows '[.. | .rdma? | select(. != null) | .number > 0 and .peer_number > 0 and .receives > 0] | length==1 and all'
vmctl set seen

check "the host writes" vmctl wait writing 400
check "the server is killed" kill -KILL $server
sleep 3
check "it starts again" server_again
vmctl set restarted
check "the host has ended" vmctl wait ended 600
no_session() { cli session list --json | jq -e '[.[] | select(.kind=="io")] == []' >/dev/null; }
check "no session is left" wait_for 60 no_session
check "the server ends" server_ended
check "the offline reader finds no damage" cli inspect verify /dev/ram0 /dev/ram1 /dev/ram2 /dev/ram3
check "no error in the kernel's log" no_errors "rxe.*(error|invalid)|local protection"
[ $FAILS = 0 ] || cat /tmp/server.log
finish
