#!/bin/bash
# The kernel's NVMe/RDMA target (nvmet-rdma) as the peer of our initiator, and beside our server, on soft RoCE (rdma_rxe). Both serve memory.
# Its speed proves nothing about hardware: client and server share this guest's processors.
. /vmlab/checks/inside_lib.sh
ADDR=10.0.2.15
KERNEL_PORT=4421
MIB=64
KERNEL="nvme-rdma://$ADDR:$KERNEL_PORT/$NQN?ns=1&medium=ram"
OURS="nvme-rdma://$ADDR:$PORT/$NQN?ns=1&medium=ram"
bench() { timeout 200 /tmp/wirepool bench "$@"; }
# verified TARGET [OPTION...]: stamped blocks, checked during the run and after it
verified() {
  bench verify "$1" --overwrite --region "$(amount 4M 16M)" --runtime "$(amount 2s 60s)" "${@:2}" > /tmp/said
  cat /tmp/said
  grep -q "everything is as it must be" /tmp/said
}
# busy: seconds that the processors of this guest worked, in hundredths
busy() { awk '/^cpu / { print $2 + $3 + $4 + $7 + $8 }' /proc/stat; }
# measured NAME TARGET OPTION...: one row, with processor time of both ends together from the kernel's counters
measured() {
  local name=$1 target=$2 before=$(busy)
  bench run "$target" --rounds 1 --runtime "$(amount 2s 10s)" --overwrite --json "${@:3}" > /tmp/run.json || return 1
  jq -r --arg name "$name" --argjson busy $(($(busy) - before)) '.jobs[0] as $j | .wirepool.rows[0] as $r | ($j.read.total_ios + $j.write.total_ios + 1) as $n |
    "ROW \($name), \($r.workload): \($r.iops.median | floor) IOPS, p50 \(([$j.read, $j.write] | max_by(.total_ios)).clat_ns.percentile["50.000000"] / 1000 | floor) us, CPU us/IO of both ends with start \($busy * 10000 / $n | floor), client \($r.client_cpu_us_per_io | floor), server \($r.server_cpu_us_per_io // "in the kernel")"' \
    /tmp/run.json
}
# in_turn OPTION...: both targets, one after the other, and the ratio of their rates
in_turn() {
  measured nvmet-rdma "$KERNEL" "$@" && theirs=$(jq .wirepool.rows[0].iops.median /tmp/run.json) &&
    measured wirepool "$OURS" "$@" && jq --argjson theirs "$theirs" '"RATIO \(.wirepool.rows[0].iops.median / $theirs * 100 | floor) %"' /tmp/run.json
}
# server_time: time that the server's threads ran, ns
server_time() { cat /proc/$server/task/*/schedstat | awk '{ s += $1 } END { printf "%.0f\n", s }'; }

step "soft RoCE, the kernel's target, our server"
modprobe -a rdma_ucm rdma_rxe
check "a soft RoCE device" rdma link add rxe0 type rxe netdev net0 || finish
check "a ramdisk" ramdisk $MIB || finish
check "nvmet-rdma" nvmet_up $ADDR $KERNEL_PORT $NQN /dev/ram0 rdma || finish
check "our server" server_here "listen_rdma = [\"$ADDR:$PORT\"]" || finish
check "a disk in memory" cli disk add d0 --mem ${MIB}M
check "export it" cli export add $NQN d0 --nsid 1
check "any host may use it" cli host allow $NQN any

step "our initiator against nvmet-rdma"
check "verified I/O, in capsules and by READ and WRITE" verified "$KERNEL" --depth 16
check "verified I/O of 64 KiB, two jobs" verified "$KERNEL" --bs 64k --jobs 2 --depth 4

step "nvmet-rdma and our server in turn"
check "reads of 4 KiB, one at a time" in_turn --rw randread
check "reads of 4 KiB, 16 at a time" in_turn --rw randread --depth 16
check "writes of 4 KiB, 16 at a time" in_turn --rw randwrite --depth 16
check "reads of 64 KiB, 8 at a time" in_turn --rw randread --bs 64k --depth 8

step "100 queue pairs without work"
# used SECONDS: processor time of the server, in thousandths of a percent
used() {
  local before=$(server_time)
  sleep "$1"
  echo $((($(server_time) - before) / (10000 * $1)))
}
alone=$(used 5)
bench run "$OURS&queues=99" --depth 99 --rate 0.1 --rounds 1 --ramp 20s --runtime "$(amount 1s 40s)" --json > /tmp/idle.json &
client=$!
hundred() { cli session list --json | jq -e '[.[] | select(.kind=="io") | .io_queues] == [99]' >/dev/null; }
check "they are connected" wait_for 60 hundred
idle=$(used "$(amount 5 20)")
echo "ROW a server without connections: $alone / 1000 % of an emulated processor, with 100 queue pairs without work: $idle / 1000 %"
# A row and no check: the goal, 1 % of a processor, is for hardware; the time of an emulated one depends on the host's other work.
check "the client ends" wait $client

step "the probe, and the report for users with cards"
cli probe serve $ADDR:4430 --for 10m > /tmp/probe.log &
probe=$!
probed() { cli probe run $ADDR:4430 --time "$(amount 200ms 2s)" > /tmp/said; cat /tmp/said; grep -q "RDMA device rxe0" /tmp/said && grep -q READ /tmp/said; }
check "verbs are measured beside TCP" probed
reported() {
  bench rdma-report "$OURS" --probe $ADDR:4430 --probe-time 50ms --time 300ms --rounds 1 --json > /tmp/report.json
  jq -e '.rdma.ports[0].driver == "rxe" and .rdma.rdma_core != null and .rdma.reason == null and .probe.verbs.read.bytes_per_s > 0 and .missing == [] and
    ([.bench.wirepool.rows[] | .transport.kind] | unique) == ["rdma", "tcp"] and ([.bench.wirepool.rows[] | .server_cpu_us_per_io > 0] | all)' /tmp/report.json ||
    { jq '.rdma, .missing' /tmp/report.json; return 1; }
}
check "the report has all parts" reported
kill $probe

step "the end"
check "the server ends" server_ended
check "no error in the kernel's log" no_errors "rxe.*(error|invalid)|local protection"
[ $FAILS = 0 ] || cat /tmp/server.log
finish
