#!/bin/bash
# Discovery, login, CHAP in both directions, digests, properties of the disk, a live resize.
. /vmlab/checks/iscsi_lib.sh
check "a disk is served" target_up 128M || finish

step "discovery and login"
named() { discover > /tmp/discovered && equal targets "$(cat /tmp/discovered)" "$PORTAL,1 $IQN"; }
check "discovery lists the target at the advertised address" named
check "log in" login
check "the disk appears" appeared || finish
dev=$(iscsi_dev) name=$(basename "$(iscsi_dev)")
check "state" logged_in
if [ "$PEER" = wirepool ]; then
  check "vendor and product" equal inquiry "$(sg_inq "$dev" | grep -E 'Vendor|Product id' | sed 's/.*: *//; s/ *$//' | paste -sd ' ')" "WIREPOOL Virtual disk"
  check "provisioning mode" grep -qx unmap /sys/class/scsi_disk/*/provisioning_mode
  check "cache" grep -qx "write back" /sys/class/scsi_disk/*/cache_type
  check "the server lists the session" session_is '.protocol=="iscsi" and .export=="'$IQN'" and .client=="iqn.2020-01.test:vm1" and (.header_digest or .data_digest | not)'
fi
pages() { local p; for p in sv di bl lbpv bdc; do sg_vpd -p $p "$dev" >/tmp/vpd 2>&1 || { echo "page $p"; cat /tmp/vpd; return 1; }; done; }
check "vital product data" pages
check "mode pages" sg_modes -a "$dev"
check "supported operation codes" sh -c "sg_opcodes $dev | grep -q 'Synchronize cache'"
check "verified I/O" fio_verify "$dev" 12
check "log out" logout
check "nothing left behind" wait_for 30 nothing_left

step "digests"
digest_is() { equal digest "$(cat /sys/class/iscsi_connection/connection*/"$1")" 1; }
check "request digests" node_set 'node.conn[0].iscsi.HeaderDigest' CRC32C 'node.conn[0].iscsi.DataDigest' CRC32C
check "log in" login
check "the disk appears" appeared || finish
dev=$(iscsi_dev) name=$(basename "$(iscsi_dev)")
check "header digest is on" digest_is header_digest
check "data digest is on" digest_is data_digest
[ "$PEER" = wirepool ] && check "the server lists both digests as on" session_is '.header_digest and .data_digest'
check "verified I/O" fio_verify "$dev" 12

if [ "$PEER" = wirepool ]; then
  step "live resize"
  size_is() { [ "$(blockdev --getsize64 "$dev")" = "$1" ]; }
  check "size before" size_is 134217728
  check "mkfs and mount" sh -c "mkdir -p /mnt/fs && mkfs.ext4 -q -F $dev && mount $dev /mnt/fs"
  check "resize to 256 MiB" disk_resize 256M
  # The next command gets the unit attention, which asks for a rescan.
  check "the kernel logs the unit attention" wait_for 30 sh -c "sync -f /mnt/fs; dd if=$dev of=/dev/null bs=4k count=1 iflag=direct status=none; dmesg | grep -qi 'capacity data has changed'"
  check "rescan" node --rescan
  check "the kernel sees the new size" wait_for 30 size_is 268435456
  check "the file system grows into it, mounted" timeout 120 resize2fs "$dev"
  check "verified I/O" fio_verify /mnt/fs/verified 12
  check "unmount" umount /mnt/fs
  check "fsck is clean" timeout 120 e2fsck -fn "$dev"

  step "LUN added and removed"
  check "add a LUN" sh -c "vmctl host cli disk add extra --mem 64M && vmctl host cli export iscsi extra --iqn $IQN"
  check "rescan" node --rescan
  check "the kernel sees it" appeared 1
  check "verified I/O on it" fio_verify "$(iscsi_dev 1)" 8
  check "remove it" cli export remove $IQN --lun 1
  gone() { ! dd if="$(iscsi_dev 1)" of=/dev/null bs=4k count=1 iflag=direct status=none 2>/dev/null; }
  check "I/O to its device fails" gone
  check "the first LUN still works" fio_verify "$dev" 8
fi
check "log out" logout
check "nothing left behind" wait_for 30 nothing_left

if [ "$PEER" = wirepool ]; then
  refused() { ! login >/dev/null; }
  chap() { # chap KEY VALUE...: sets keys of the session's authentication
    local args=()
    while [ $# -gt 0 ]; do args+=("node.session.auth.$1" "$2"); shift 2; done
    node_set "${args[@]}"
  }
  in_and_out() { login && wait_for 60 logged_in && logout; }
  step "CHAP"
  check "write a secret" host write secret initiator-secret-1
  check "require it" cli export chap $IQN alice --secret-file @DIR/secret
  check "a login without a secret is refused" refused
  check "set a wrong secret" chap authmethod CHAP username alice password initiator-secret-2
  check "the login is refused" refused
  check "set the right secret" chap password initiator-secret-1
  check "the login succeeds" in_and_out

  step "mutual CHAP"
  check "write a secret of the target" host write own target-secret-99
  check "configure it" cli export chap $IQN alice --secret-file @DIR/secret --mutual wirepool --mutual-secret-file @DIR/own
  check "let the initiator expect another secret" chap username_in wirepool password_in target-secret-98
  check "the login is refused" refused
  check "let the initiator expect the right secret" chap password_in target-secret-99
  check "the login succeeds" login
  check "the session is authenticated" sh -c "vmctl host cli session list --json >/tmp/s && id=\$(jq '.[0].id' /tmp/s) && vmctl host cli session show \$id --json | jq -e .iscsi.authenticated >/dev/null"
  check "log out" logout

  step "discovery CHAP"
  discovery() { timeout 60 iscsiadm -m discoverydb -t sendtargets -p $PORTAL "$@"; }
  discovery_set() {
    while [ $# -gt 0 ]; do discovery -o update -n "discovery.sendtargets.auth.$1" -v "$2" || return 1; shift 2; done
  }
  nothing_found() { ! discover >/dev/null 2>&1; }
  check "write a secret" host write finder discovery-secret
  check "require it" cli export discovery-chap finder --secret-file @DIR/finder
  check "discovery without a secret is refused" nothing_found
  discovery -o new >/dev/null
  check "set a wrong secret" discovery_set authmethod CHAP username finder password discovery-secreT
  refused_discovery() { ! discovery --discover >/dev/null 2>&1; }
  check "discovery is refused" refused_discovery
  check "set the right secret" discovery_set password discovery-secret
  found() { discovery --discover > /tmp/discovered && grep -q $IQN /tmp/discovered; }
  check "discovery succeeds" found
fi
check "nothing left behind" wait_for 30 nothing_left
check "no call trace in the kernel's log" no_errors "call trace"
finish
