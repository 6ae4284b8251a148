# Functions of the scripts that measure our server and the kernel's own server in turn, both in this guest, on soft RoCE (rdma_rxe).
# KERNEL_NAME is the kernel's server; KERNEL and OURS are the two addresses for our client. Speeds prove nothing about hardware: clients and
# servers share this guest's processors.
. /vmlab/checks/inside_lib.sh
ADDR=10.0.2.15
bench() { timeout 200 /tmp/wirepool bench "$@"; }
# verified TARGET [OPTION...]: stamped blocks, checked during the run and after it
verified() {
  bench verify "$1" --overwrite --region "$(amount 4M 16M)" --runtime "$(amount 2s 60s)" "${@:2}" > /tmp/said
  cat /tmp/said
  grep -q "everything is as it must be" /tmp/said
}
# busy: time that the processors of this guest worked, in hundredths of a second
busy() { awk '/^cpu / { print $2 + $3 + $4 + $7 + $8 }' /proc/stat; }
# measured NAME TARGET OPTION...: one row of our client, with processor time of both ends together from the kernel's counters; the rate in $rate
measured() {
  local name=$1 target=$2 before=$(busy) pid=
  [ "$target" != "$OURS" ] || pid="--server-pid $server"
  bench run "$target" --rounds 1 --runtime "$(amount 2s 10s)" --overwrite --json $pid "${@:3}" > /tmp/run.json || return 1
  rate=$(jq .wirepool.rows[0].iops.median /tmp/run.json)
  jq -r --arg name "$name" --argjson busy $(($(busy) - before)) '.jobs[0] as $j | .wirepool.rows[0] as $r | ($j.read.total_ios + $j.write.total_ios + 1) as $n |
    "ROW \($name), \($r.workload): \($r.iops.median | floor) IOPS, p50 \(([$j.read, $j.write] | max_by(.total_ios)).clat_ns.percentile["50.000000"] / 1000 | floor) us, CPU us/IO of both ends with start \($busy * 10000 / $n | floor), client \($r.client_cpu_us_per_io | floor), server \($r.server_cpu_us_per_io // "in the kernel")"' \
    /tmp/run.json
}
# ratio THEIRS OURS: our rate as a multiple of theirs
ratio() { jq -rn --argjson theirs "$1" --argjson ours "$2" '"RATIO \($ours / $theirs * 100 | floor) %"'; }
# in_turn OPTION...: our client with both servers, one after the other
in_turn() {
  local theirs
  measured "$KERNEL_NAME" "$KERNEL" "$@" && theirs=$rate && measured wirepool "$OURS" "$@" && ratio "$theirs" "$rate"
}
# fio_measured NAME FILE-or-DEVICE OPTION...: one row of the kernel's client; the rate in $rate
fio_measured() {
  local name=$1 file=$2 before=$(busy)
  timeout 200 fio --name=row --filename="$file" --size=32M --bs=4k --direct=1 --ioengine=libaio --time_based --runtime="$(amount 2 10)" \
    --output-format=json --output=/tmp/run.json "${@:3}" || { cat /tmp/run.json; return 1; }
  sed -n '/^{/,$p' /tmp/run.json > /tmp/row.json
  rate=$(jq '.jobs[0] | .read.iops + .write.iops' /tmp/row.json)
  jq -r --arg name "the kernel's client with $name" --arg options "${*:3}" --argjson busy $(($(busy) - before)) '.jobs[0] as $j | ([$j.read, $j.write] | max_by(.total_ios)) as $d |
    "ROW \($name), \($options): \($d.iops | floor) IOPS, p50 \($d.clat_ns.percentile["50.000000"] / 1000 | floor) us, CPU us/IO of both ends with start \($busy * 10000 / ($d.total_ios + 1) | floor)"' /tmp/row.json
}
# fio_in_turn THEIRS OURS OPTION...: the kernel's client with both servers, one after the other, in these files or devices
fio_in_turn() {
  local theirs
  fio_measured "$KERNEL_NAME" "$1" "${@:3}" && theirs=$rate && fio_measured wirepool "$2" "${@:3}" && ratio "$theirs" "$rate"
}
# peer_end: the server ends
peer_end() {
  step "the end"
  check "the server ends" server_ended
  check "no error in the kernel's log" no_errors "rxe.*(error|invalid)|local protection"
  [ $FAILS = 0 ] || cat /tmp/server.log
  finish
}
