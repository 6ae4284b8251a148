# Functions of package.sh: the package, the printed settings, the writers, the cut.
ADDR=10.0.2.15
CONFIG=/etc/wirepool/wirepool.toml
cli() { timeout 120 wirepool "$@"; }
not() { ! "$@"; }
at() { echo "$1 at $(cut -d' ' -f1 /proc/uptime)"; }
# quietly COMMAND...: shows the output only of a failure
quietly() { "$@" > /tmp/quiet 2>&1 || { local rc=$?; cat /tmp/quiet; return $rc; }; }
apt() { quietly timeout 300 apt-get -q -y "$1" wirepool; }
install_package() { quietly timeout 300 apt-get -q -y install "/mnt/share/$1.deb"; }
installed() { equal version "$(dpkg-query -W -f '${Version}' wirepool)" "$1"; }
unit_is() { equal unit "$(systemctl is-active wirepool)" "$1"; }
main_pid() { systemctl show -p MainPID --value wirepool; }
# another_runs PID: the unit is active with another process than PID
another_runs() { unit_is active && [ "$(main_pid)" != 0 ] && [ "$(main_pid)" != "$1" ]; }
sum_of() { cat "$@" | md5sum | cut -d' ' -f1; }
pool_is() { cli pool status --json | jq -e ".[0].health==\"$1\"" >/dev/null || { cli pool status; return 1; }; }

# install_printed FILE: does what FILE, the output of setup or client-config, tells people to do
install_printed() {
  rm -rf /tmp/printed && mkdir /tmp/printed
  awk '/^==> / { n++; print substr($0, 5) > "/tmp/printed/heads"; next } n { print > ("/tmp/printed/" n) }' "$1"
  local n=0 first second third
  while read -r first second third <&7; do
    n=$((n + 1))
    case "$first $second" in
      "file "*) mkdir -p "$(dirname "$second")" && cat "/tmp/printed/$n" > "$second";;
      "add to") cat "/tmp/printed/$n" >> "$third";;
      *" as") timeout 300 sh -ex "/tmp/printed/$n" || return 1;;
      "by hand") ;;
      *) echo "unknown heading: $first $second $third"; return 1;;
    esac
    echo "$first $second $third"
  done 7< /tmp/printed/heads
  [ $n -ge 5 ]
}

ctrl_live() { [ "$(cat "/sys/class/nvme/$(nvme_ctrls "$NQN" | sed -n 1p)/state")" = live ]; }
logged_in() { [ "$(cat /sys/class/iscsi_session/session*/state)" = LOGGED_IN ]; }
clients_live() { ctrl_live && logged_in; }
iscsi_dev() {
  local b
  for b in /sys/class/iscsi_session/session*/device/target*/*/block/sd*; do
    [ -b "/dev/${b##*/}" ] && { echo "/dev/${b##*/}"; return 0; }
  done
  return 1
}
# The cut drops the packets of both directions without notice to any TCP socket.
cut_link() {
  local port
  for port in 4420 3260; do
    iptables -A INPUT -i lo -p tcp --sport $port -j DROP && iptables -A INPUT -i lo -p tcp --dport $port -j DROP || return 1
  done
}
mend_link() { iptables -F INPUT; }

# A writer: rounds of random writes, each of which is read back and compared, until /tmp/stop is there. A pool's write cache is lost with
# a killed server, so each write is durable when it is acknowledged. The rate leaves the emulated processor to the installation.
writer() { # writer NAME DEVICE
  local round=0
  while [ ! -e /tmp/stop ]; do
    timeout 400 fio --name="$1" --filename="$2" --rw=randwrite --bs=4k --size=128K --rate_iops=20,4 --direct=1 --sync=1 --ioengine=libaio --iodepth=8 \
      --randseed=$((round + 1)) --verify=crc32c --verify_fatal=1 --output-format=json --output="/tmp/$1.json" || { cat "/tmp/$1.json"; return 1; }
    sed -n '/^{/,$p' "/tmp/$1.json" | jq -e '.jobs[0] | .error==0 and .write.total_ios==32 and .read.total_ios==32' >/dev/null || { cat "/tmp/$1.json"; return 1; }
    sed -n '/^{/,$p' "/tmp/$1.json" | jq -r '.jobs[0] | [.write, .read][] | .clat_ns.max' >> "/tmp/$1.pauses"
    round=$((round + 1))
    echo $round > "/tmp/$1.rounds"
  done
}
writers_start() {
  rm -f /tmp/stop
  echo 0 | tee /tmp/nvme.rounds > /tmp/iscsi.rounds
  writer nvme "$nvme" & nvme_writer=$!
  writer iscsi "$iscsi" & iscsi_writer=$!
}
# writers_rounds N: both have ended N rounds
writers_rounds() { [ "$(cat /tmp/nvme.rounds)" -ge "$1" ] && [ "$(cat /tmp/iscsi.rounds)" -ge "$1" ]; }
# Both write and compare two more rounds.
writers_go_on() {
  local a b
  a=$(cat /tmp/nvme.rounds) b=$(cat /tmp/iscsi.rounds)
  more() { [ "$(cat /tmp/nvme.rounds)" -ge $((a + 2)) ] && [ "$(cat /tmp/iscsi.rounds)" -ge $((b + 2)) ]; }
  wait_for 240 more || { cat /tmp/nvme.rounds /tmp/iscsi.rounds; return 1; }
}
writers_end() {
  touch /tmp/stop
  wait $nvme_writer && wait $iscsi_writer || return 1
  local name
  for name in nvme iscsi; do
    echo "$name: $(cat /tmp/$name.rounds) rounds, longest pause $(sort -n /tmp/$name.pauses | tail -1 | awk '{ printf "%.1f", $1 / 1e9 }') s"
  done
}

# One fio that writes and compares on both disks for SECONDS; it runs from before the cut until after it.
drill_start() {
  timeout 400 fio --rw=randwrite --bs=4k --size=16M --direct=1 --ioengine=libaio --iodepth=8 --time_based --runtime="$1" --verify=crc32c \
    --verify_fatal=1 --output-format=json --output=/tmp/drill.json --name=nvme "--filename=$nvme" --name=iscsi "--filename=$iscsi" &
  drill=$!
}
# Some request of each disk was open during the cut.
drill_end() {
  wait $drill || { cat /tmp/drill.json; return 1; }
  sed -n '/^{/,$p' /tmp/drill.json > /tmp/drill.clean
  jq -r '.jobs[] | "\(.jobname): \(.write.total_ios) writes, \(.read.total_ios) reads, error \(.error), longest pause \([.write, .read | .clat_ns.max] | max / 1e8 | floor / 10) s"' /tmp/drill.clean
  jq -e 'all(.jobs[]; .error == 0 and ([.write, .read | .clat_ns.max] | max) > 15e9)' /tmp/drill.clean >/dev/null
}
