#!/bin/bash
# Link cut and server kill under a running fio: the kernel recovers, and fio sees no error.
. /vmlab/checks/lib.sh
check "a disk is served" target_up 256M || finish
# a short keep-alive, so that a silent cut is noticed soon
check "connect" connect -i 2 --keep-alive-tmo=5 --reconnect-delay=2 --ctrl-loss-tmo=600
check "namespace appears" connected || finish
dev=$(nvme_dev $NQN)

fio_start() { # fio_start SECONDS: in the background, pid in $fio_pid
  timeout 400 fio --name=r --filename="$dev" --rw=randwrite --bs=4k --size=32M --direct=1 --ioengine=libaio --iodepth=8 \
    --time_based --runtime="$1" --verify=crc32c --verify_fatal=1 --output-format=json --output=/tmp/r.json &
  fio_pid=$!
}
fio_end() {
  wait "$fio_pid" || { cat /tmp/r.json; return 1; }
  sed -n '/^{/,$p' /tmp/r.json | fio_line
  jq -e '.jobs[0] | .error==0 and .write.total_ios>0' <(sed -n '/^{/,$p' /tmp/r.json) >/dev/null
}
not_live() { ! ctrl_live; }
at() { echo "$1 at $(cut -d' ' -f1 /proc/uptime)"; }
# The cut drops the packets of both directions without notice to either TCP socket.
cut_link() { iptables -A INPUT -p tcp --sport $PORT -j DROP && iptables -A OUTPUT -p tcp --dport $PORT -j DROP; }
mend_link() { iptables -F INPUT && iptables -F OUTPUT; }

step "link cut for 15 s"
fio_start 60
sleep 8
dmesg -C >/dev/null
check "cut" cut_link
at "cut"
sleep 15
check "the kernel notices" not_live
check "end of the cut" mend_link
at "mended"
check "controller is live again" wait_for 120 ctrl_live
at "live"
check "fio ends without an error" fio_end
dmesg | grep -i nvme | head -20
check "no I/O error in the kernel's log" no_errors

if [ "$PEER" = wirepool ]; then
  one_session() { session_is '.reconnects>=1'; }
  check "the server has closed the dead session and counts a reconnect" wait_for 60 one_session
fi

step "server killed"
fio_start 40
sleep 8
dmesg -C >/dev/null
check "SIGKILL" server_kill
at "killed"
sleep 6
check "the kernel notices" not_live
check "start again" server_start
check "controller is live again" wait_for 120 ctrl_live
at "live"
check "fio ends without an error" fio_end
dmesg | grep -i nvme | head -20
check "no I/O error in the kernel's log" no_errors
if [ "$PEER" = wirepool ]; then
  step "server stopped with SIGTERM, and started again"
  fio_start 30
  sleep 6
  drained() { equal status "$(host stop)" "exit status: 0"; }
  check "SIGTERM drains and ends with status 0" drained
  check "start again" server_start
  check "controller is live again" wait_for 120 ctrl_live
  check "fio ends without an error" fio_end
fi

check "verified I/O at the end" fio_verify "$dev" 16
check "disconnect" disconnect
check "nothing left behind" wait_for 30 nothing_left
finish
