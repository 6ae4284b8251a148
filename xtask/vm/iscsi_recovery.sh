#!/bin/bash
# Link cut and server kill under a running fio on a file and on a pool's volume: the kernel recovers, and fio sees no error
# and reads the data that it wrote.
. /vmlab/checks/iscsi_lib.sh
check "a disk is served" target_up 64M || finish
if [ "$PEER" = wirepool ]; then
  check "a mirror is made" cli pool create tank mirror @DIR/a.img @DIR/b.img --size 512M
  check "a volume is made" cli volume create tank/vm1 --size 64M
  check "it is LUN 1 of the same target" cli export iscsi tank/vm1 --iqn $IQN --threshold 5
fi
check "discovery" discover
# The initiator pings a silent peer soon, and keeps commands for a long time.
check "time-outs" node_set 'node.conn[0].timeo.noop_out_interval' 3 'node.conn[0].timeo.noop_out_timeout' 3 node.session.timeo.replacement_timeout 300
check "log in" login
check "the disk appears" appeared || finish
file=$(iscsi_dev 0)
jobs=(--name=file "--filename=$file")
if [ "$PEER" = wirepool ]; then
  check "the volume appears" appeared 1
  volume=$(iscsi_dev 1)
  check "the volume supports FUA" grep -qx 1 "/sys/block/${volume#/dev/}/queue/fua"
  lba_status() { sg_get_lba_status --brief --maxlen=4096 --lba="$1" "$volume" | grep ^0x | tee /tmp/lba_status; }
  nothing_mapped() { lba_status 0 | awk '$3 != 1 { other = 1 } END { exit other || NR == 0 }' || { cat /tmp/lba_status; return 1; }; }
  check "no block of the volume is allocated" nothing_mapped
  check "write some" dd if=/dev/urandom of="$volume" bs=1M count=8 oflag=direct status=none
  some_mapped() { equal status "$(lba_status 0 | awk '{ print $2, $3 }' | paste -sd ' ')" "0x800 0 0x3800 1"; }
  check "the written blocks are allocated" some_mapped
  # The space of a volume is that of its last checkpoint, and is checked every five seconds.
  check "a checkpoint" cli pool checkpoint tank
  warned() { get_block && dmesg | grep -q "thin provisioning soft threshold"; }
  get_block() { dd if="$volume" of=/dev/null bs=4k count=1 iflag=direct status=none; }
  check "the kernel logs the threshold" wait_for 60 warned
  # A pool's write cache is the server's memory and is lost with the process (docs/decisions/0106), so each write is FUA.
  jobs+=(--name=volume "--filename=$volume" --sync=1)
fi

fio_start() { # fio_start SECONDS: in the background, pid in $fio_pid
  timeout 400 fio --rw=randwrite --bs=4k --size=32M --direct=1 --ioengine=libaio --iodepth=8 --time_based --runtime="$1" \
    --verify=crc32c --verify_fatal=1 --output-format=json --output=/tmp/r.json "${jobs[@]}" &
  fio_pid=$!
}
fio_end() {
  wait "$fio_pid" || { cat /tmp/r.json; return 1; }
  sed -n '/^{/,$p' /tmp/r.json > /tmp/r.clean
  jq -r '.jobs[] | "  \(.jobname): \(.write.total_ios) writes, error \(.error)"' /tmp/r.clean
  jq -e 'all(.jobs[]; .error==0 and .write.total_ios>0)' /tmp/r.clean >/dev/null
}
not_logged_in() { ! logged_in; }
at() { echo "$1 at $(cut -d' ' -f1 /proc/uptime)"; }
# The cut drops the packets of both directions without notice to either TCP socket.
cut_link() { iptables -A INPUT -p tcp --sport $ISCSI_PORT -j DROP && iptables -A OUTPUT -p tcp --dport $ISCSI_PORT -j DROP; }
mend_link() { iptables -F INPUT && iptables -F OUTPUT; }

step "link cut for 15 s"
fio_start 30
sleep 5
check "cut" cut_link
at "cut"
sleep 15
check "the kernel notices" not_logged_in
check "end of the cut" mend_link
at "mended"
check "logged in again" wait_for 120 logged_in
at "logged in"
check "fio ends without an error" fio_end
check "no I/O error in the kernel's log" no_errors
if [ "$PEER" = wirepool ]; then
  one_session() { session_is '.protocol=="iscsi" and .io_queues==1'; }
  check "the server has closed the dead connection" wait_for 60 one_session
fi

step "server killed"
fio_start 18
sleep 5
dmesg -C >/dev/null
check "SIGKILL" server_kill
at "killed"
check "the kernel notices" wait_for 30 not_logged_in
sleep 3
check "start again" server_start
check "logged in again" wait_for 120 logged_in
at "logged in"
check "fio ends without an error" fio_end
check "no I/O error in the kernel's log" no_errors

if [ "$PEER" = wirepool ]; then
  step "server stopped with SIGTERM, and started again"
  fio_start 14
  sleep 5
  drained() { equal status "$(host stop)" "exit status: 0"; }
  check "SIGTERM drains and ends with status 0" drained
  check "start again" server_start
  check "logged in again" wait_for 120 logged_in
  check "fio ends without an error" fio_end
  check "no I/O error in the kernel's log" no_errors
fi
check "log out" logout
check "nothing left behind" wait_for 30 nothing_left
finish
