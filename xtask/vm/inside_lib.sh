# A server inside this guest, with the guest's kernel as its client.
. /vmlab/checks/lib.sh
export WIREPOOL_CONTROL=/tmp/control.sock
share=/mnt/share
cli() { timeout 120 /tmp/wirepool "$@"; }
checkpoint() { cli pool checkpoint tank >/dev/null; }
# refused WORDS COMMAND...: exit code 1, and an error message that contains WORDS
refused() {
  local words=$1
  shift
  cli "$@" 2>/tmp/said
  [ $? = 1 ] && cat /tmp/said && grep -q -- "$words" /tmp/said
}
# pool_is FILTER: jq's FILTER is true for the only pool
pool_is() { cli pool status --json | jq -e ".[0] | $1" >/dev/null; }
server_ready() { wait_for 60 grep -qx ready /tmp/ready || { cat /tmp/server.log; return 1; }; }
# server_here [CONFIGURATION]: the server starts, with more lines of configuration
server_here() {
  cp $share/wirepool* /tmp/ || return 1
  cat > /tmp/wirepool.toml <<END
[server]
control = "$WIREPOOL_CONTROL"
shards = 2

[nvmf]
listen = ["$ADDR:$PORT"]

${1:-}
END
  server_again
}
# server_again: the server starts with the configuration that it has
server_again() {
  : > /tmp/ready
  (cd /tmp && exec ./wirepool serve --print-ready --config /tmp/wirepool.toml) >> /tmp/ready 2>> /tmp/server.log &
  server=$!
  server_ready
}
# volume_here SIZE: a volume of the pool is exported, and the guest's kernel is connected to it as $dev
volume_here() {
  check "a volume" cli volume create tank/vm1 --size "$1"
  check "export it" cli export nvme tank/vm1 --nqn $NQN --host any || finish
  check "connect" connect -i 2
  check "namespace appears" connected || finish
  dev=$(nvme_dev $NQN)
}
# soft_roce MODULE...: these modules, and a device on the guest's own network
soft_roce() { modprobe -a rdma_ucm rdma_rxe "$@" && rdma link add rxe0 type rxe netdev net0; }
server_usage() { echo "fds $(ls /proc/$server/fd | wc -l) rss_kib $(awk '/VmRSS/ { print $2 }' /proc/$server/status)"; }
server_ended() { kill -TERM $server && wait $server; }
# end_here DISK...: the server ends, and the offline reader finds no damage on the pool's disks
end_here() {
  check "disconnect" disconnect
  check "the server ends" server_ended
  [ $# = 0 ] || check "the offline reader finds no damage" cli inspect verify "$@"
}
# slices DISK COUNT: the disk is divided into dm devices s0, s1... Without udev only the kernel creates device nodes: dm-N.
slices() {
  local sectors=$(($(blockdev --getsz "$1") / $2)) n
  for ((n = 0; n < $2; n++)); do
    dmsetup create s$n --table "0 $sectors linear $1 $((n * sectors))" || return 1
  done
  dmsetup table
}
