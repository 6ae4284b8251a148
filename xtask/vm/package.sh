#!/bin/bash
# Two versions of the Debian package in a guest whose first process is systemd: installation, `wirepool setup`, the printed settings
# for clients with the guest's kernel as client, an upgrade, a killed server and a cut link under verifying writers, removal, purge.
. /vmlab/lib.sh
. /vmlab/checks/package_lib.sh
export DEBIAN_FRONTEND=noninteractive
# The image was made without pages and documents; the package's own are wanted.
rm -f /etc/dpkg/dpkg.cfg.d/*

step "installation"
systemd_runs() { equal "first process" "$(cat /proc/1/comm)" systemd && timeout 120 systemctl is-system-running --wait >/tmp/running; cat /tmp/running; }
check "systemd is the first process" systemd_runs
check "the package is installed" install_package old || finish
check "its version" installed 0.0.1-1
check "the unit is active" unit_is active
check "it starts at boot" equal enabled "$(systemctl is-enabled wirepool)" enabled
check "the server runs as its user" equal user "$(ps -o user= -p "$(main_pid)")" wirepool
login_shell() { getent passwd wirepool | tee /tmp/user && grep -q ':/usr/sbin/nologin$' /tmp/user; }
check "its user cannot log in" login_shell
check "the configuration is the server's" equal config "$(stat -c '%U:%G %a' $CONFIG)" "wirepool:wirepool 640"
check "the directory of disks that are files" equal directory "$(stat -c '%U:%G %a' /srv/wirepool)" "wirepool:wirepool 750"
check "the control socket is root's" cli status
denied() { ! runuser -u nobody -- wirepool status 2>/tmp/said && cat /tmp/said && grep -q 'run the command with sudo' /tmp/said; }
check "another user is denied" denied
check "no installed file differs from the package" dpkg --verify wirepool
rating() { systemd-analyze security --no-pager --threshold=20 wirepool > /tmp/rating; local rc=$?; tail -1 /tmp/rating; return $rc; }
check "systemd rates the unit 2.0 or better" rating
pages() {
  local n
  n=$(find /usr/share/man/man1 -name 'wirepool*.1*' | wc -l)
  echo "$n manual pages"
  [ "$n" -ge 50 ] && [ -n "$(find /usr/share/man/man1 -name 'wirepool-setup.1*')" ]
}
check "manual pages" pages
completes() { bash -c '. /usr/share/bash-completion/completions/wirepool && complete -p wirepool' && ls /usr/share/zsh/vendor-completions/_wirepool /usr/share/fish/vendor_completions.d/wirepool.fish; }
check "completions" completes

step "setup"
check "a disk gets a foreign file system" mkfs.ext4 -q -L mine /dev/vdd
foreign=$(sum_of /dev/vdd)
before=$(sum_of $CONFIG)
refused() { ! cli setup --disk /dev/vdb --disk /dev/vdd --listen $ADDR --client any --yes > /tmp/said 2>&1; local rc=$?; tail -3 /tmp/said; return $rc; }
check "the disk with a file system is refused" refused
check "for its file system" grep -q ext4 /tmp/said
check "it is unchanged" equal sum "$(sum_of /dev/vdd)" "$foreign"
cat > /tmp/site.toml <<END
pool = "tank"
disk = ["/dev/vdb", "/dev/vdc"]
layout = "mirror"
protocol = "nvme"
name = "vm1"
size = "48M"
listen = ["$ADDR"]
client = ["$(cat /etc/nvme/hostnqn)"]
os = "debian"
END
check "the plan" cli setup --answers /tmp/site.toml
unchanged() { equal config "$(sum_of $CONFIG)" "$before" && cli pool list --json | jq -e 'length==0'; }
check "nothing is changed by it" unchanged
setup_nvme() { cli setup --answers /tmp/site.toml --yes | tee /tmp/nvme.txt; return "${PIPESTATUS[0]}"; }
check "setup: a mirror, a volume, an NVMe export" setup_nvme || finish
check "the pool is online" pool_is online
check "the printed connection is to the address of the machine" grep -q "^nvme connect -t tcp -a $ADDR " /tmp/nvme.txt

step "the wear of an NVMe disk, which the server may not ask itself"
modprobe nvme
check "an NVMe disk" wait_for 30 test -b /dev/nvme0n1 || finish
udevadm settle --timeout=60
check "a pool of it" cli pool create flash /dev/nvme0n1
flash_health() { cli pool iostat -w flash --json | jq -c '.pools[0].disks[0].health' | tee /tmp/health; }
counted() { flash_health && jq -e '.source == "nvme" and .host_written > 0' /tmp/health >/dev/null; }
check "the disk's own counters are shown" counted
equal_bytes() { equal bytes "$(jq .host_written /tmp/health)" "$(nvme smart-log /dev/nvme0n1 -o json | jq '(.data_units_written | tostring | tonumber) * 512000')"; }
check "they are those that nvme-cli reads" equal_bytes
check "the service that reads them has its own user" not equal user "$(ps -o user= -p "$(systemctl show -p MainPID --value wirepool-health)")" root
capable() { grep CapEff "/proc/$1/status"; }
check "the server has no capability" equal capabilities "$(capable "$(main_pid)" | cut -f2)" 0000000000000000
helper_rating() { systemd-analyze security --no-pager --threshold=35 wirepool-health > /tmp/rating; local rc=$?; tail -1 /tmp/rating; return $rc; }
check "systemd rates the unit 3.5 or better" helper_rating
stopped() { systemctl stop wirepool-health.socket wirepool-health.service && flash_health && jq -e '.source == null and (.unknown | contains("wirepool-health"))' /tmp/health >/dev/null; }
check "without the service the reason names it" stopped
check "the service is started again" systemctl start wirepool-health.socket
check "and the counters are back" counted
check "the pool is destroyed" cli pool destroy flash -f

step "the printed settings for NVMe"
check "they are installed, and connect" install_printed /tmp/nvme.txt
NQN=$(cli export list --json | jq -r '[.. | .nqn? // empty] | first')
check "namespace appears" wait_for 60 nvme_dev "$NQN" || finish
nvme=$(nvme_dev "$NQN")
nvme_settings() {
  local d=/sys/class/nvme/$(nvme_ctrls "$NQN" | sed -n 1p)
  grep -H . "$d"/{kato,reconnect_delay,ctrl_loss_tmo}
  equal keep-alive "$(cat "$d/kato")" 5 && equal reconnect "$(cat "$d/reconnect_delay")" 2 && equal loss "$(cat "$d/ctrl_loss_tmo")" 600
}
check "discovery has shown no address of the loopback interface" equal controllers "$(nvme_ctrls "$NQN" | wc -l)" 1
check "the kernel has the printed time-outs" nvme_settings
no_scheduler() { udevadm settle --timeout=60; cat "/sys/block/${1#/dev/}/queue/scheduler"; grep -qE '^none$|\[none\]' "/sys/block/${1#/dev/}/queue/scheduler"; }
check "the printed rule has set the scheduler" no_scheduler "$nvme"
# in_fstab WORD DEVICE: the commented line of fstab with WORD names DEVICE
in_fstab() { local name; name=$(sed -n "s|^#\(/dev/[^ ]*$1[^ ]*\) .*|\1|p" /etc/fstab); echo "$name"; equal device "$(readlink -f "$name")" "$2"; }
check "the printed line for fstab names the disk" in_fstab nvme-uuid "$nvme"

step "a second export, and the printed settings for iSCSI"
setup_iscsi() {
  cli setup --pool tank --protocol iscsi --name vm2 --size 48M --listen $ADDR --os debian --yes \
    --client "$(sed -n 's/^InitiatorName=//p' /etc/iscsi/initiatorname.iscsi)" | tee /tmp/iscsi.txt
  return "${PIPESTATUS[0]}"
}
check "setup: an iSCSI export of the same pool" setup_iscsi || finish
check "the NVMe host is connected again after the restart" wait_for 60 ctrl_live
check "the settings are installed, and log in" install_printed /tmp/iscsi.txt
check "the disk appears" wait_for 60 iscsi_dev || finish
iscsi=$(iscsi_dev)
iscsi_settings() {
  local s=/sys/class/iscsi_session/session*
  equal replacement "$(cat $s/recovery_tmo)" 600 && equal depth "$(cat "/sys/block/${iscsi#/dev/}/device/queue_depth")" 128 &&
    equal noop "$(cat /sys/class/iscsi_connection/connection*/ping_tmo)" 5
}
check "the kernel has the printed time-outs" iscsi_settings
check "the printed rule has set the scheduler" no_scheduler "$iscsi"
check "and the time-out of commands" equal timeout "$(cat "/sys/block/${iscsi#/dev/}/device/timeout")" 60
check "the printed line for fstab names the disk" in_fstab by-path "$iscsi"

step "an upgrade under writers"
writers_start
check "the writers have begun" wait_for 120 writers_rounds 1
pid=$(main_pid) config=$(sum_of $CONFIG)
dmesg -C >/dev/null
at "upgrade begins"
check "the new version is installed" install_package new
at "upgraded"
check "its version" installed 0.0.2-1
check "another server runs" another_runs "$pid"
check "the configuration is unchanged" equal config "$(sum_of $CONFIG)" "$config"
check "both clients are connected again" wait_for 120 clients_live
at "connected"
check "the writers go on" writers_go_on

step "the server is killed under writers"
pid=$(main_pid)
at "kill"
check "SIGKILL" kill -KILL "$pid"
check "systemd starts it again" wait_for 60 another_runs "$pid"
check "both clients are connected again" wait_for 120 clients_live
at "connected"
check "the writers go on" writers_go_on

check "the writers end without an error" writers_end
check "no I/O error in the kernel's log" no_errors

# The suite has the cut for each protocol in `recovery` and `iscsi_recovery`.
cable() {
  step "the cable is cut for 20 s under a writer of each protocol"
  # udev reads a disk again that was closed by a writer. Its reads ahead are not repeated after a cut, so the kernel logs them as errors.
  check "udev has read the disks" udevadm settle --timeout=120
  drill_start 45
  sleep 5
  check "cut" cut_link
  at "cut"
  sleep 20
  check "the NVMe host notices" wait_for 30 not ctrl_live
  check "the iSCSI initiator notices" wait_for 30 not logged_in
  check "end of the cut" mend_link
  at "mended"
  check "both clients are connected again" wait_for 120 clients_live
  at "connected"
  check "the writers waited, and end without an error" drill_end
  check "no I/O error in the kernel's log" no_errors
}
if whole; then cable; fi

step "removal"
written=$(sum_of "$nvme")
disconnect_all() { timeout 60 nvme disconnect -n "$NQN" && timeout 60 iscsiadm -m node --logoutall=all; }
check "the clients leave" disconnect_all
config=$(sum_of $CONFIG)
check "the package is removed" apt remove
check "the unit is stopped" not unit_is active
check "no server runs" not pidof wirepool
check "the configuration stays" equal config "$(sum_of $CONFIG)" "$config"
members=$(sum_of /dev/vdb /dev/vdc)
check "the package is installed again" install_package new
check "it opens the pool" pool_is online
check "connect as printed" nvme connect-all
check "namespace appears" wait_for 60 nvme_dev "$NQN" || finish
check "the data are those that were written" equal data "$(sum_of "$(nvme_dev "$NQN")")" "$written"
check "the client leaves" timeout 60 nvme disconnect -n "$NQN"

step "purge"
check "the service is stopped" systemctl stop wirepool
members=$(sum_of /dev/vdb /dev/vdc)
check "the package is purged" apt purge
check "the configuration is gone" not test -e /etc/wirepool
check "the unit is gone" not systemctl cat wirepool
check "the state is kept" test -d /var/lib/wirepool
check "the pool's disks are unchanged" equal members "$(sum_of /dev/vdb /dev/vdc)" "$members"
# The pool after a purge, with a fresh configuration.
imported() {
  check "the package is installed again" install_package new
  check "its configuration has no pool" sh -c 'wirepool pool list --json | jq -e "length==0"'
  refused() { ! cli setup --disk /dev/vdb --disk /dev/vdc --listen $ADDR --client any --yes > /tmp/said 2>&1; local rc=$?; tail -3 /tmp/said; return $rc; }
  check "setup refuses the pool's disks" refused
  check "the pool is imported" cli pool import tank -d /dev/vdb /dev/vdc
  check "a volume is exported" cli export nvme tank/vm1 --nqn "$NQN" --host any
  check "connect" timeout 60 nvme connect -t tcp -a 127.0.0.1 -s 4420 -n "$NQN"
  check "namespace appears" wait_for 60 nvme_dev "$NQN" || finish
  check "the data are those that were written" equal data "$(sum_of "$(nvme_dev "$NQN")")" "$written"
  check "disconnect" timeout 60 nvme disconnect -n "$NQN"
}
if whole; then imported; fi
check "the foreign disk is unchanged at the end" equal sum "$(sum_of /dev/vdd)" "$foreign"
[ $FAILS = 0 ] || journalctl -u wirepool --no-pager | tail -60
finish
