# A pool on disks whose writes the kernel logs. Afterwards the host replays the log with power cuts (xtask/src/vm/cuts.rs).
. /vmlab/checks/inside_lib.sh
mark() { dmsetup message cuts 0 mark "$1"; }
# logged MEMBERS: one log below all members, so that all writes and flushes have one order. The members are dm-1, dm-2...
logged() {
  modprobe dm-log-writes
  dmsetup create cuts --table "0 $(blockdev --getsz /dev/vdb) log-writes /dev/vdb /dev/vdc" && slices /dev/dm-0 "$1"
}
# logged_run: writes with marks, and snapshots and checkpoints meanwhile
logged_run() {
  check "mark the beginning" mark begin
  timeout 300 /tmp/wirepool-cuts write "$dev" --log cuts --known $share/known --writes 400 &
  writer=$!
  check "snapshots and checkpoints during the run" snapshots
  check "the writers end" wait $writer
}
snapshots() {
  local n=0
  while kill -0 $writer 2>/dev/null && [ $n -lt 8 ]; do
    n=$((n + 1))
    cli snapshot create tank/vm1@s$n >/dev/null && mark @s$n && checkpoint || return 1
    sleep 0.5
  done
  echo "$n snapshots"
  [ $n -ge 2 ]
}
without_errors() { pool_is '.health=="online" and ([.vdevs[].members[] | .read_errors+.write_errors+.checksum_errors] | add==0)'; }
# end_of_log MEMBERS
end_of_log() {
  local members=() n
  for ((n = 1; n <= $1; n++)); do members+=(/dev/dm-$n); done
  step "the end of the log"
  check "the pool is online without errors" without_errors
  end_here "${members[@]}"
  for ((n = 0; n < $1; n++)); do dmsetup remove s$n; done
  check "the log is closed" dmsetup remove cuts
  [ $FAILS = 0 ] || cat /tmp/server.log
  finish
}
