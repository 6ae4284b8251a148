#!/bin/bash
# `wirepool why` under planted limits: it has to name the one that was planted. The client is the guest's kernel; for the two limits of the
# network its connection is made in a network namespace behind a link that netem delays or narrows.
. /vmlab/checks/inside_lib.sh
NEAR=127.0.0.1 FAR=10.9.0.1
ADDR=0.0.0.0

# the link to the namespace of a client that is far away
link() {
  ip link set lo up && ip netns add far && ip link add here type veth peer name there && ip link set there netns far &&
    ip addr add $FAR/24 dev here && ip link set here up &&
    ip netns exec far ip link set lo up && ip netns exec far ip addr add 10.9.0.2/24 dev there && ip netns exec far ip link set there up
}
# slow READ WRITE FLUSH: the delays of the pool's disk, ms
slow() {
  dmsetup suspend --nolockfs slow && dmsetup reload slow --table "0 $sectors delay /dev/vdb 0 $1 /dev/vdb 0 $2 /dev/vdb 0 $3" && dmsetup resume slow
}
# narrow BYTES: the most bytes that the server writes to the disk in a second; max for no limit
narrow() { echo "$(cat /sys/block/dm-0/dev) wbps=$1" > /sys/fs/cgroup/server/io.max; }

# use NAME [far]: the kernel is connected to the export of disk NAME as $dev, from here or from far away
use() {
  NQN=nqn.2026-01.test.wirepool:$1
  if [ "${2:-}" = far ]; then
    timeout 60 ip netns exec far nvme connect -t tcp -a $FAR -s $PORT -n $NQN -i 2 || return 1
  else
    timeout 60 nvme connect -t tcp -a $NEAR -s $PORT -n $NQN -i 2 || return 1
  fi
  connected || return 1
  dev=$(nvme_dev $NQN)
}
# limit_is WANTED FIO...: `why` names one of the WANTED limits (separated by commas) under this load, after WARM seconds of it
limit_is() {
  local wanted=$1
  shift
  timeout 150 fio --name=load --filename="$dev" --direct=1 --ioengine=libaio --time_based --runtime=90 --norandommap --refill_buffers "$@" > /tmp/load.txt 2>&1 &
  local load=$!
  sleep ${WARM:-6}
  cli why "$NQN" --seconds 10 --json > /tmp/why.json
  cli why "$NQN" --seconds 1 > /tmp/why.txt 2>&1
  kill $load
  wait $load
  jq -r '.[] | .limit | "\(.limit): \(.summary)\n  \(.evidence | join("\n  "))"' /tmp/why.json || cat /tmp/why.json /tmp/why.txt
  jq -e --arg wanted "$wanted" '.[0].limit.limit as $l | $wanted | split(",") | index($l)' /tmp/why.json > /dev/null || { cat /tmp/why.txt; tail -20 /tmp/load.txt; return 1; }
}

modprobe dm-mod
check "a link to a client far away" link || finish
sectors=$(blockdev --getsz /dev/vdb)
check "a disk with delays" dmsetup create slow --table "0 $sectors delay /dev/vdb 0 0 /dev/vdb 0 0 /dev/vdb 0 0" || finish
limits() { mount -t cgroup2 none /sys/fs/cgroup 2>/dev/null; echo +io > /sys/fs/cgroup/cgroup.subtree_control && mkdir /sys/fs/cgroup/server; }
check "a limit for written bytes" limits || finish
check "the server starts" server_here || finish
echo $server > /sys/fs/cgroup/server/cgroup.procs
check "a disk in memory" cli disk add ram --mem 128M
check "it is exported" cli export nvme ram --nqn nqn.2026-01.test.wirepool:ram --host any
check "a pool" cli pool create tank /dev/dm-0
for volume in reads writes; do
  check "a volume" cli volume create tank/$volume --size 160M
  check "it is exported" cli export nvme tank/$volume --nqn nqn.2026-01.test.wirepool:$volume --host any
done

step "a disk in memory"
check "the client is near" use ram || finish
check "one request at a time: the client's depth" limit_is client_depth --rw=randread --bs=4k --iodepth=1
check "many: one core" limit_is core --rw=randread --bs=4k --iodepth=64 --numjobs=2
check "disconnect" disconnect

step "the network"
check "the client is far away" use ram far || finish
check "5 ms" tc qdisc add dev here root netem delay 5ms limit 10000
check "one request at a time: round trips" limit_is round_trip --rw=randread --bs=4k --iodepth=1
check "100 Mb/s" tc qdisc change dev here root netem rate 100mbit limit 10000
check "large reads: the network to the client" limit_is network_out --rw=randread --bs=128k --iodepth=16
check "no limit" tc qdisc del dev here root
check "100 Mb/s from the client" ip netns exec far tc qdisc add dev there root netem rate 100mbit limit 10000
check "large writes: the network from the client" limit_is network_in --rw=randwrite --bs=128k --iodepth=16
check "no limit" ip netns exec far tc qdisc del dev there root
check "disconnect" disconnect

step "a pool on a slow disk"
check "the client is near" use reads || finish
check "the volume is written" timeout 300 fio --name=fill --filename="$dev" --rw=write --bs=128k --size=100% --direct=1 --ioengine=libaio --iodepth=8 --refill_buffers --end_fsync=1 --output=/tmp/fill.txt
check "a checkpoint" cli pool checkpoint tank
check "slow reads" slow 20 0 0
check "reads of the disk: the devices" limit_is device --rw=randread --bs=4k --iodepth=8
check "disconnect" disconnect
check "slow flushes" slow 0 0 50
check "another volume" use writes || finish
check "durable writes: flushes" limit_is flush,journal --rw=randwrite --bs=4k --iodepth=4 --fdatasync=1
check "a disk of 2 MB/s" slow 0 0 0
check "narrow" narrow 2000000
WARM=25
check "more writes than the disk takes: memory" limit_is memory --rw=randwrite --bs=4k --iodepth=64
check "no limit" narrow max
check "disconnect" disconnect

step "a full pool"
fill() {
  local free
  free=$(cli pool status --json | jq '.[0].free')
  cli volume create tank/rest --size $((free / 1048576 * 98 / 100))M && cli export nvme tank/rest --nqn nqn.2026-01.test.wirepool:rest --host any && use rest &&
    timeout 300 fio --name=fill --filename="$dev" --rw=write --bs=128k --size=100% --direct=1 --ioengine=libaio --iodepth=8 --refill_buffers --output=/tmp/fill.txt
  cli pool status --json | jq -e '.[0] | .used / .size > 0.95' || { cli pool status -v; tail -5 /tmp/fill.txt; return 1; }
}
check "95 % of the pool are used" fill
check "disconnect" disconnect
check "a volume that is written" use reads || finish
check "a disk of 2 MB/s" narrow 2000000
check "more writes than the disk takes: space" limit_is space --rw=randwrite --bs=4k --iodepth=64
check "no limit" narrow max
check "disconnect" disconnect
[ $FAILS = 0 ] || tail -50 /tmp/server.log
finish
