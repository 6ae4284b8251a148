#!/bin/bash
# Two hosts (two host NQNs and identifiers of one kernel, native multipath off) and one namespace:
# register, acquire, conflict, report, restart, preempt, release.
. /vmlab/checks/lib.sh
[ "$PEER" = nvmet ] && { skip "the kernel's target of this release has no reservations"; finish; }
check "a disk is served" target_up 64M || finish
host_a=nqn.2014-08.org.nvmexpress:uuid:aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa
host_b=nqn.2014-08.org.nvmexpress:uuid:bbbbbbbb-bbbb-4bbb-8bbb-bbbbbbbbbbbb
# connect_as HOSTNQN HOSTID: directly to the kernel, because nvme-cli confuses the second host with the first
connect_as() {
  printf 'nqn=%s,transport=tcp,traddr=%s,trsvcid=%s,hostnqn=%s,hostid=%s,nr_io_queues=1,reconnect_delay=2' \
    $NQN $ADDR $PORT "$1" "$2" > /dev/nvme-fabrics
}
ctrl_of() { # ctrl_of HOSTNQN
  local c
  for c in /sys/class/nvme/nvme*; do [ "$(cat "$c/hostnqn")" = "$1" ] && { echo "${c##*/}"; return; }; done
  return 1
}
dev_of() { local c; c=$(ctrl_of "$1") && [ -b "/dev/${c}n1" ] && echo "/dev/${c}n1"; }
check "host A connects" connect_as $host_a aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa
check "host B connects" connect_as $host_b bbbbbbbb-bbbb-4bbb-8bbb-bbbbbbbbbbbb
wait_for 60 dev_of $host_a; wait_for 60 dev_of $host_b
a=$(dev_of $host_a) b=$(dev_of $host_b)
echo "A is $a, B is $b"
[ -n "$a" ] && [ -n "$b" ] || { fail "a device for each host"; finish; }

put() { dd if=/dev/zero of="$1" bs=4k count=1 oflag=direct status=none; }
get() { dd if="$1" of=/dev/null bs=4k count=1 iflag=direct status=none; }
refused() { ! "$@" 2>/dev/null; }
report() { nvme resv-report "$1" -n 1 -e -o json; }
registered() { report "$1" > /tmp/report.json && jq -e ".regctl==$2" /tmp/report.json >/dev/null || { cat /tmp/report.json; return 1; }; }
held_as() { report "$1" > /tmp/report.json && jq -e ".rtype==$2" /tmp/report.json >/dev/null || { cat /tmp/report.json; return 1; }; }

step "register"
check "the namespace reports reservation capabilities" sh -c "[ \$(nvme id-ns $a -o json | jq .rescap) -gt 0 ]"
check "A registers" nvme resv-register "$a" -n 1 --nrkey=0xa --rrega=0 --cptpl=3
check "B registers" nvme resv-register "$b" -n 1 --nrkey=0xb --rrega=0
check "two registrants" registered "$a" 2
check "no reservation is held" held_as "$b" 0

step "write exclusive"
check "A acquires" nvme resv-acquire "$a" -n 1 --crkey=0xa --rtype=1 --racqa=0
check "the report has the reservation" held_as "$b" 1
check "A writes" put "$a"
check "B reads" get "$b"
check "B's write is refused" refused put "$b"
check "B cannot acquire" refused nvme resv-acquire "$b" -n 1 --crkey=0xb --rtype=1 --racqa=0
check "a wrong key is refused" refused nvme resv-release "$a" -n 1 --crkey=0xc --rtype=1 --rrela=0

step "a restart"
check "SIGKILL" server_kill
check "start again" server_start
live_again() { [ "$(cat "/sys/class/nvme/$(ctrl_of $host_a)/state")$(cat "/sys/class/nvme/$(ctrl_of $host_b)/state")" = livelive ]; }
check "both are live again" wait_for 120 live_again
check "A still holds the reservation" held_as "$b" 1
check "both are still registered" registered "$a" 2
check "B's write is still refused" refused put "$b"

step "preempt and release"
check "B preempts A" nvme resv-acquire "$b" -n 1 --crkey=0xb --prkey=0xa --rtype=2 --racqa=1
check "B has exclusive access" held_as "$b" 2
check "A is no longer registered" registered "$b" 1
check "A's read is refused" refused get "$a"
check "B writes" put "$b"
check "B releases" nvme resv-release "$b" -n 1 --crkey=0xb --rtype=2 --rrela=0
check "no reservation is held" held_as "$b" 0
check "A writes" put "$a"
check "B unregisters" nvme resv-register "$b" -n 1 --crkey=0xb --rrega=1
check "no registrant" registered "$b" 0
check "disconnect" disconnect
check "nothing left behind" wait_for 30 nothing_left
finish
