#!/bin/bash
# Two initiators (two names of one kernel, a session each) and one logical unit: register, reserve, conflict, report,
# restart with and without APTPL, preempt, release.
. /vmlab/checks/iscsi_lib.sh
[ "$PEER" = nvmet ] && { skip "the kernel's target saves reservations to a path that this guest does not have"; finish; }
check "a disk is served" target_up 64M || finish
interface() { # interface NAME INITIATOR
  iscsiadm -m iface -I "$1" -o new && iscsiadm -m iface -I "$1" -o update -n iface.initiatorname -v "$2"
}
check "initiator A" interface a iqn.2026-01.test:a
check "initiator B" interface b iqn.2026-01.test:b
check "both discover" timeout 60 iscsiadm -m discovery -t sendtargets -p $PORTAL -I a -I b
check "both log in" login
dev_of() { # dev_of INITIATOR
  local s
  for s in /sys/class/iscsi_session/session*; do
    [ "$(cat "$s/initiatorname")" = "$1" ] && { iscsi_dev 0 "${s##*/}"; return; }
  done
  return 1
}
wait_for 60 dev_of iqn.2026-01.test:a; wait_for 60 dev_of iqn.2026-01.test:b
a=$(dev_of iqn.2026-01.test:a) b=$(dev_of iqn.2026-01.test:b)
echo "A is $a, B is $b"
[ -n "$a" ] && [ -n "$b" ] || { fail "a device for each initiator"; finish; }

put() { dd if=/dev/zero of="$1" bs=4k count=1 oflag=direct status=none; }
get() { dd if="$1" of=/dev/null bs=4k count=1 iflag=direct status=none; }
refused() { ! "$@" >/dev/null 2>&1; }
out() { local d=$1; shift; sg_persist --no-inquiry --out "$@" "$d" >/tmp/persist 2>&1 || { cat /tmp/persist; return 1; }; }
says() { # says DEVICE ACTION TEXT
  sg_persist --no-inquiry --in "$2" "$1" > /tmp/persist 2>&1 && grep -qiE "$3" /tmp/persist || { cat /tmp/persist; return 1; }
}
# keys DEVICE: the keys of the registrants, sorted
keys() { sg_persist --no-inquiry --in --read-keys "$1" 2>/dev/null | grep -oE '^ +0x[0-9a-f]+' | tr -d ' ' | sort | paste -sd ' '; }
keys_are() { equal keys "$(keys "$1")" "$2"; }
# Each initiator gets pending unit attentions once, and is ready after that.
attentive() { sg_turs "$a" >/dev/null 2>&1; sg_turs "$b" >/dev/null 2>&1; sg_turs "$a" && sg_turs "$b"; }
restart() {
  host kill && host start && wait_for 120 both_logged_in && wait_for 30 attentive
}
both_logged_in() { [ "$(session_state | sort | uniq -c | tr -s ' ')" = " 2 LOGGED_IN" ]; }

step "register"
check "capabilities: APTPL" says "$a" --report-capabilities "Persist Through Power Loss Capable\(PTPL_C\): 1|PTPL_C.*: 1"
check "A registers" out "$a" --register --param-sark=0xa
check "B registers" out "$b" --register --param-sark=0xb
check "two registrants" keys_are "$a" "0xa 0xb"
check "no reservation is held" says "$b" --read-reservation "no reservation held"

step "write exclusive"
check "A reserves" out "$a" --reserve --param-rk=0xa --prout-type=1
check "the report has the reservation" says "$b" --read-reservation "type: Write Exclusive$"
check "A writes" put "$a"
check "B reads" get "$b"
check "B's write is refused" refused put "$b"
check "the kernel logs RESERVATION CONFLICT" sh -c 'dmesg | grep -qi "reservation conflict"'
check "B cannot reserve" refused out "$b" --reserve --param-rk=0xb --prout-type=1
check "a wrong key is refused" refused out "$a" --release --param-rk=0xc --prout-type=1
full_status() { sg_persist --no-inquiry --in --read-full-status "$b" > /tmp/persist && grep -q "iqn.2026-01.test:a,i,0x" /tmp/persist && grep -q "iqn.2026-01.test:b,i,0x" /tmp/persist || { cat /tmp/persist; return 1; }; }
check "full status names both initiator ports" full_status

step "a restart without APTPL"
check "SIGKILL and start" restart
check "no registrant" keys_are "$a" ""
check "no reservation is held" says "$b" --read-reservation "no reservation held"
check "B writes" put "$b"

step "a restart with APTPL"
check "A registers" out "$a" --register-ignore --param-sark=0xa --param-aptpl
check "B registers" out "$b" --register-ignore --param-sark=0xb --param-aptpl
check "A reserves" out "$a" --reserve --param-rk=0xa --prout-type=1
check "SIGKILL and start" restart
check "two registrants" keys_are "$a" "0xa 0xb"
check "A still holds the reservation" says "$b" --read-reservation "type: Write Exclusive$"
check "B's write is still refused" refused put "$b"
check "A writes" put "$a"

step "preempt and release"
check "B preempts A" out "$b" --preempt --param-rk=0xb --param-sark=0xa --prout-type=3
check "B has exclusive access" says "$b" --read-reservation "type: Exclusive Access$"
check "A is no longer registered" keys_are "$b" 0xb
sg_turs "$a" >/dev/null 2>&1
check "A's read is refused" refused get "$a"
check "B writes" put "$b"
check "B releases" out "$b" --release --param-rk=0xb --prout-type=3
check "no reservation is held" says "$b" --read-reservation "no reservation held"
check "A writes" put "$a"
check "all registrants: A registers again" out "$a" --register --param-sark=0xa
check "all registrants: B reserves" out "$b" --reserve --param-rk=0xb --prout-type=7
check "all registrants: A writes" put "$a"
check "preempt and abort" out "$a" --preempt-abort --param-rk=0xa --param-sark=0xb --prout-type=3
sg_turs "$b" >/dev/null 2>&1
check "B's write is refused" refused put "$b"
check "clear" out "$a" --clear --param-rk=0xa
check "no registrant" keys_are "$a" ""
check "log out" logout
check "nothing left behind" wait_for 30 nothing_left
finish
