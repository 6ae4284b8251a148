#!/bin/bash
# NVMe/RDMA between two guests on soft RoCE: this one has the server, and rdma_link_host.sh the kernel that uses it.
. /vmlab/checks/inside_lib.sh
ADDR=$VMLAB_SEG_IP

step "a server on the segment between two guests"
modprobe -a rdma_ucm rdma_rxe
check "a soft RoCE device" rdma link add rxe0 type rxe netdev seg0 || finish
check "our server" server_here "listen_rdma = [\"$ADDR:$PORT\"]" || finish
check "a disk in memory" cli disk add d0 --mem 64M
check "export it" cli export add $NQN d0 --nsid 1
check "any host may use it" cli host allow $NQN any
vmctl set served
check "the host has recovered from the cut" vmctl wait recovered 400
cli session list
check "the server has closed the dead session and counts a reconnect" wait_for 60 session_is '.transport=="rdma" and .reconnects>=1'
check "the port's lost and restored link are in the log" sh -c 'grep -q "a port lost its link" /tmp/server.log && grep -q "a port has its link again" /tmp/server.log'
vmctl set counted
check "the host has ended" vmctl wait ended 400
no_session() { cli session list --json | jq -e '[.[] | select(.kind=="io")] == []' >/dev/null; }
check "no session is left" wait_for 60 no_session
check "the server ends" server_ended
check "no error in the kernel's log" no_errors "rxe.*(error|invalid)|local protection"
[ $FAILS = 0 ] || cat /tmp/server.log
finish
