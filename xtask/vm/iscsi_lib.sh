# Functions that the iSCSI check scripts share; see lib.sh. With PEER=nvmet the target is the kernel's LIO.
. /vmlab/checks/lib.sh
IQN=iqn.2026-01.test.wirepool:vm
modprobe -a iscsi_tcp sd_mod sg

lio=/sys/kernel/config/target
# lio_up BACKSTORE CONTROL ADDRESS:PORT: the kernel's target exports a backstore as LUN 0 of $IQN, for anyone
lio_up() {
  modprobe -a target_core_mod iscsi_target_mod || return 1
  local store=$lio/core/$1/d0 group=$lio/iscsi/$IQN/tpgt_1
  mkdir -p $store && echo "$2" > $store/control && echo 1 > $store/enable && mkdir -p $lio/iscsi && mkdir -p $group/lun/lun_0 &&
    ln -s $store $group/lun/lun_0/d0 && echo 0 > $group/attrib/authentication && echo 1 > $group/attrib/generate_node_acls &&
    echo 1 > $group/attrib/cache_dynamic_acls && echo 0 > $group/attrib/demo_mode_write_protect && mkdir -p "$group/np/$3" && echo 1 > $group/enable
}
if [ "$PEER" = nvmet ]; then
  ADDR=127.0.0.1 ISCSI_PORT=3260
  target_up() { # target_up SIZE
    modprobe target_core_file && truncate -s "$1" /tmp/disk && lio_up fileio_0 "fd_dev_name=/tmp/disk,fd_dev_size=$(stat -c %s /tmp/disk)" $ADDR:$ISCSI_PORT &&
      echo 1 > $lio/core/fileio_0/d0/attrib/emulate_tpu
  }
  server_kill() { echo 0 > $lio/iscsi/$IQN/tpgt_1/enable; }
  server_start() { echo 1 > $lio/iscsi/$IQN/tpgt_1/enable; }
else
  target_up() {
    cli disk add d0 --file @DIR/d0.img --size "$1" && cli export iscsi d0 --iqn $IQN --initiator any
  }
fi
PORTAL=$ADDR:$ISCSI_PORT

# Starts the initiator's daemon; the guest starts no services.
iscsid_up() {
  mkdir -p /run/lock/iscsi
  sed -i 's#^iscsid.startup.*#iscsid.startup = /usr/sbin/iscsid#' /etc/iscsi/iscsid.conf
  pidof iscsid >/dev/null || iscsid
}
# discover: lists the targets of the portal, as "ADDRESS:PORT,TAG NAME"
discover() { timeout 60 iscsiadm -m discovery -t sendtargets -p $PORTAL "$@"; }
# The interface `iser` is built into open-iscsi.
discover_iser() { discover -I iser; }
node() { timeout 90 iscsiadm -m node -T $IQN -p $PORTAL "$@"; }
# node_set KEY VALUE...: sets keys in the record of our target
node_set() {
  while [ $# -gt 0 ]; do
    node -o update -n "$1" -v "$2" || return 1
    shift 2
  done
}
login() { node --login "$@" >/tmp/login 2>&1 || { cat /tmp/login; return 1; }; }
logout() { node --logout >/dev/null; }
# iscsi_dev [LUN [SESSION]]: the logical unit's block device
iscsi_dev() {
  local s b
  for s in /sys/class/iscsi_session/${2:-session*}; do
    [ "$(cat "$s/targetname" 2>/dev/null)" = $IQN ] || continue
    for b in "$s"/device/target*/*:*:*:"${1:-0}"/block/sd*; do
      [ -b "/dev/${b##*/}" ] && { echo "/dev/${b##*/}"; return 0; }
    done
  done
  return 1
}
# appeared [LUN]: the kernel has created the logical unit's device
appeared() { wait_for 60 iscsi_dev "${1:-0}"; }
session_state() { cat /sys/class/iscsi_session/session*/state; }
logged_in() { [ "$(session_state)" = LOGGED_IN ]; }
nothing_left() { [ -z "$(ls /sys/class/iscsi_session /sys/class/iscsi_connection 2>/dev/null | grep -E '^(session|connection)')" ] && ! ls /dev/sd? >/dev/null 2>&1; }
check "the initiator's daemon runs" iscsid_up
