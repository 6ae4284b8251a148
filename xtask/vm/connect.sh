#!/bin/bash
# Discovery, connect, output of the tools, queues, digests, disconnect, and rounds of connect and disconnect.
. /vmlab/checks/lib.sh
step "discovery"
check "a disk is served" target_up 256M || finish
discovered() {
  timeout 60 nvme discover -t tcp -a $ADDR -s $PORT -o json > /tmp/discover.json || return 1
  jq -e --arg n $NQN --arg a $ADDR --arg p $PORT '.records[] | select(.subnqn==$n and .traddr==$a and .trsvcid==$p and .trtype=="tcp")' /tmp/discover.json >/dev/null ||
    { cat /tmp/discover.json; return 1; }
}
check "nvme discover lists the subsystem at the address used" discovered
connect_all() { timeout 60 nvme connect-all -t tcp -a $ADDR -s $PORT && connected; }
check "nvme connect-all follows discovery" connect_all
check "disconnect" disconnect
check "nothing left behind" wait_for 30 nothing_left

step "four I/O queues"
check "connect" connect -i 4
check "namespace appears" connected || finish
ctrl=$(nvme_ctrls $NQN); dev=$(nvme_dev $NQN)
check "five queues with the admin queue" equal queue_count "$(cat "/sys/class/nvme/$ctrl/queue_count")" 5
if [ "$PEER" = wirepool ]; then
  check "the server lists the same session" session_is '.io_queues==4 and (.header_digest or .data_digest|not)'
fi
four_jobs() {
  fio_verify "$dev" 8 --numjobs=4 --offset_increment=8M --cpus_allowed=0-3 --cpus_allowed_policy=split
}
check "verified I/O on each queue" four_jobs

step "output of nvme-cli"
listed() {
  nvme list -o json > /tmp/list.json && nvme list &&
    jq -e --arg d "$dev" '.Devices[] | select(.DevicePath==$d and .PhysicalSize==268435456)' /tmp/list.json >/dev/null
}
check "nvme list" listed
id_ctrl() {
  nvme id-ctrl "/dev/$ctrl" -o json > /tmp/id.json || return 1
  jq -e --arg n $NQN '.subnqn==$n and .cntlid>0 and .sqes==102 and .cqes==68 and .nn>=1 and .maxcmd>0
    and (.kas>0) and (.ioccsz>=4) and (.mn|length>0) and (.sn|length>0) and (.fr|length>0)' /tmp/id.json >/dev/null ||
    { cat /tmp/id.json; return 1; }
}
check "nvme id-ctrl" id_ctrl
id_ns() {
  nvme id-ns "$dev" -o json > /tmp/ns.json || return 1
  jq -e '.nsze * pow(2; .lbafs[.flbas % 16].ds) == 268435456 and .ncap<=.nsze' /tmp/ns.json >/dev/null ||
    { cat /tmp/ns.json; return 1; }
}
check "nvme id-ns" id_ns
check "nvme ns-descs" nvme ns-descs "$dev"
[ "$PEER" = nvmet ] || check "the namespace has an NGUID" jq -e '.nguid|test("[1-9a-f]")' /tmp/ns.json
check "nvme list-ns" sh -c "nvme list-ns /dev/$ctrl | grep -q 0x1"
smart() {
  nvme smart-log "/dev/$ctrl" -o json > /tmp/smart.json || return 1
  jq -e '.critical_warning==0 and (.host_write_commands|tonumber)>0' /tmp/smart.json >/dev/null || { cat /tmp/smart.json; return 1; }
}
check "nvme smart-log counts the writes" smart
check "nvme error-log" sh -c "nvme error-log /dev/$ctrl >/dev/null"
check "nvme fw-log" sh -c "nvme fw-log /dev/$ctrl >/dev/null"
check "nvme effects-log" sh -c "nvme effects-log /dev/$ctrl >/dev/null"
check "nvme get-feature (number of queues)" sh -c "nvme get-feature /dev/$ctrl -f 7 | tail -1"
check "disconnect" disconnect
check "nothing left behind" wait_for 30 nothing_left

step "header and data digests"
check "connect with digests" connect -i 2 --hdr-digest --data-digest
check "namespace appears" connected || finish
dev=$(nvme_dev $NQN)
if [ "$PEER" = wirepool ]; then
  check "the server lists both digests as on" session_is '.header_digest and .data_digest and .io_queues==2 and (.transport|ascii_downcase)=="tcp"'
fi
check "verified I/O" fio_verify "$dev" 24
check "no digest error in the kernel's log" sh -c '! dmesg | grep -iE "digest|data_digest|crc"'
check "disconnect" disconnect
check "nothing left behind" wait_for 30 nothing_left

rounds_without_leak "$(amount 8 32)" connect -i 2
check "no error in the kernel's log" no_errors "nvme.*(error|invalid|fail|timed out|timeout)"
finish
