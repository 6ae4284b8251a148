#!/bin/bash
# Wear of NVMe disks: QEMU's disks count the bytes that hosts write to them (SMART / Health Information). The server's own counts and its
# forecast are compared with these counters, which nvme-cli reads.
. /vmlab/checks/inside_lib.sh
disks="/dev/nvme0n1 /dev/nvme1n1"
modprobe nvme
disks_there() { [ -b /dev/nvme0n1 ] && [ -b /dev/nvme1n1 ]; }
check "two NVMe disks" wait_for 30 disks_there || finish
rated='[wear]
rated_tbw = { "/dev/nvme0n1" = 1, "/dev/nvme1n1" = 2 }'
check "the server starts in the guest" server_here "$rated" || finish
check "a mirror of the two disks" cli pool create tank mirror $disks || finish
volume_here 96M

# by_disk: bytes by the counter of each disk, as nvme-cli reads it
by_disk() { for d in $disks; do nvme smart-log "$d" -o json | jq '(.data_units_written | tostring | tonumber) * 512000'; done; }
# by_server FIELD: a number of each disk, as the server has it
by_server() { cli pool iostat -w tank --json | jq "[.pools[0].disks[] | {path, n: .$1}] | sort_by(.path)[].n"; }
# grown BEFORE AFTER: the growth of each disk's number
grown() { paste <(echo "$1") <(echo "$2") | awk '{ print $2 - $1 }'; }
# near WANTED GOT: the numbers of each disk differ by 10 % at most
near() {
  paste <(echo "$1") <(echo "$2") | awk '{ d = ($2 - $1) / ($1 ? $1 : 1); printf "%.6g and %.6g: %+.2f %%\n", $1, $2, 100 * d; if (d > 0.1 || d < -0.1) bad = 1 } END { exit bad || NR != 2 }'
}
# load MIB: random bytes to the volume, and a checkpoint, after which nothing is left to write
load() {
  timeout 200 fio --name=load --filename="$dev" --rw=write --bs=64k --size="$1M" --direct=1 --ioengine=libaio --iodepth=8 --refill_buffers \
    --end_fsync=1 --output=/tmp/load.txt || { cat /tmp/load.txt; return 1; }
  cli pool checkpoint tank
}

step "written bytes"
check "a first checkpoint" cli pool checkpoint tank
disk=$(by_disk) server_bytes=$(by_server total)
check "64 MiB are written" load 64
disk_after=$(by_disk) server_after=$(by_server total)
enough() { [ "$(grown "$disk" "$disk_after" | sort -n | sed -n 1p)" -ge 67108864 ]; }
check "the disks count them" enough
check "the server counts within 10 % of the disks" near "$(grown "$disk" "$disk_after")" "$(grown "$server_bytes" "$server_after")"
check "the server shows the disks' own counters" near "$(by_disk)" "$(by_server health.host_written)"
check "their source is NVMe" equal source "$(by_server health.source | sort -u)" '"nvme"'

step "the forecast of an interval"
before=$(by_disk)
cli pool iostat -w tank --json 40 2 > /tmp/interval.json &
interval=$!
check "the interval begins" wait_for 30 test -s /tmp/interval.json
check "64 MiB are written in it" load 64
runs() { kill -0 $interval; }
check "the load ends before the interval" runs
check "the interval ends" wait $interval
after=$(by_disk)
of_interval() { jq -s ".[-1] | .seconds as \$seconds | [.pools[0].disks[] | . + {seconds: \$seconds}] | sort_by(.path)[] | $1" /tmp/interval.json; }
of_interval .forecast
check "the rate is that of the disks' counters" equal rate "$(of_interval .forecast.rate | sort -u)" '"disk"'
check "the endurance is the rated one" equal endurance "$(of_interval .forecast.endurance | sort -u)" '"rated"'
seconds=$(of_interval .seconds | sed -n 1p)
# days = (rated - written) / (growth per day), from the counters that nvme-cli reads
expected=$(paste <(printf '1e12\n2e12\n') <(echo "$before") <(echo "$after") | awk -v s="$seconds" '{ printf "%.9g\n", ($1 - $3) / (($3 - $2) / s * 86400) }')
check "the days are within 10 % of those by the disks' counters" near "$expected" "$(of_interval .forecast.days)"

step "the end"
end_here
[ $FAILS = 0 ] || { cat /tmp/server.log; cat /tmp/interval.json; }
finish
