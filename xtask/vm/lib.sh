# Functions that the check scripts share. The scripts run inside the guest. PEER names the target under test:
#   PEER=wirepool   a server on the host, controlled through `vmctl host` (see xtask/src/vm/hook.rs);
#   PEER=nvmet      the guest kernel's own target: a check that fails against both targets is a wrong check.
# The target listens on ADDR and PORT.
. /vmlab/lib.sh
NQN=nqn.2026-01.test.wirepool:vm
host() { vmctl host "$@"; }
cli() { vmctl host cli "$@"; }

if [ "$PEER" = nvmet ]; then
  ADDR=10.0.2.15 PORT=4420 DISK=/dev/loop0
  ns2=/sys/kernel/config/nvmet/subsystems/$NQN/namespaces/2
  port=/sys/kernel/config/nvmet/ports/1
  target_up() { # target_up SIZE
    modprobe loop
    truncate -s "$1" /tmp/disk && losetup /dev/loop0 /tmp/disk && nvmet_up $ADDR $PORT $NQN /dev/loop0
  }
  disk_resize() {
    truncate -s "$1" /tmp/disk && losetup -c /dev/loop0 &&
      echo 1 > "/sys/kernel/config/nvmet/subsystems/$NQN/namespaces/1/revalidate_size"
  }
  disk_allocated() { du -k /tmp/disk | cut -f1; }
  namespace_add() { ramdisk 64 && mkdir "$ns2" && echo /dev/ram0 > "$ns2/device_path" && echo 1 > "$ns2/enable"; }
  namespace_remove() { rmdir "$ns2"; }
  server_kill() { rm "$port/subsystems/$NQN"; }
  server_start() { ln -s "/sys/kernel/config/nvmet/subsystems/$NQN" "$port/subsystems/$NQN"; }
  server_usage() { echo "fds 0 rss_kib 0"; }
else
  target_up() {
    cli disk add d0 --file @DIR/d0.img --size "$1" && cli export add $NQN d0 --nsid 1 && cli host allow $NQN any
  }
  disk_resize() { cli disk resize d0 "$1"; }
  disk_allocated() { host allocated d0.img; }
  namespace_add() { cli disk add extra --mem 64M && cli export add $NQN extra --nsid 2; }
  namespace_remove() { cli export remove $NQN --nsid 2 && cli disk remove extra; }
  server_kill() { host kill; }
  # session_is FILTER: the server lists one I/O session, and jq's FILTER is true for it
  session_is() {
    cli session list --json > /tmp/sessions.json &&
      jq -e "[.[] | select(.kind==\"io\")] | length==1 and (.[0] | $1)" /tmp/sessions.json >/dev/null ||
      { cat /tmp/sessions.json; return 1; }
  }
  server_start() { host start; }
  server_usage() { host usage; }
fi

connect() { timeout 60 nvme connect -t tcp -a $ADDR -s $PORT -n $NQN "$@"; }
disconnect() { timeout 60 nvme disconnect -n $NQN; }
# connected [NSID]: the kernel has created the namespace's device
connected() { wait_for 60 nvme_dev $NQN "${1:-1}"; }
ctrl_state() { cat "/sys/class/nvme/$(nvme_ctrls $NQN | head -1)/state"; }
ctrl_live() { [ "$(ctrl_state)" = live ]; }
# nothing_left: our devices, controllers and subsystem are gone
nothing_left() {
  [ -z "$(nvme_ctrls $NQN)" ] && nvme_gone $NQN && ! grep -qsxF $NQN /sys/class/nvme-subsystem/*/subsysnqn &&
    [ -z "$(ls /dev | grep -E '^nvme[0-9]')" ]
}
# rounds_without_leak ROUNDS CONNECT...: connecting with this command, reading and disconnecting leaves no descriptor and no memory behind.
# Memory that is used for the first time, such as the pool's caches, is no leak: it grows in one of several series of rounds, a leak in all.
rounds_without_leak() {
  local rounds=$1 before after
  shift
  step "$rounds connects and disconnects"
  round "$@" && round "$@" || fail "a first round"
  before=$(server_usage)
  check "$rounds rounds" each_round "$rounds" "$@"
  fds_back() { [ "$(server_usage | field fds)" -le "$(echo "$before" | field fds)" ]; }
  check "no file descriptor leaked" wait_for 60 fds_back
  memory_kept() {
    local series start
    for series in 1 2 3 4; do
      after=$(server_usage)
      echo "before: ${start:-$before}; after: $after"
      [ "$(echo "$after" | field rss_kib)" -le $(($(echo "${start:-$before}" | field rss_kib) + 4096)) ] && return
      start=$after
      each_round "$rounds" "$@" || return 1
    done
    return 1
  }
  check "resident memory grows by at most 4 MiB in one of four series" memory_kept "$@"
}
round() {
  "$@" >/dev/null && connected && dd if="$(nvme_dev $NQN)" of=/dev/null bs=64k count=4 iflag=direct status=none &&
    disconnect >/dev/null && wait_for 30 nothing_left
}
each_round() {
  local i rounds=$1
  shift
  for i in $(seq "$rounds"); do round "$@" || { echo "round $i failed"; return 1; }; done
}
field() { sed "s/.*$1 \([0-9]*\).*/\1/"; }
modprobe nvme-tcp
