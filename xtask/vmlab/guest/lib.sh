# Helpers for scripts that run inside the machine:  . /vmlab/lib.sh
FAILS=0
step() { printf '== %s\n' "$*"; }
pass() { printf 'PASS %s\n' "$*"; }
skip() { printf 'SKIP %s\n' "$*"; }
fail() {
  printf 'FAIL %s\n' "$*"
  FAILS=$((FAILS + 1))
}
finish() {
  [ "$FAILS" = 0 ] && exit 0
  echo "--- the guest kernel's last words"
  dmesg | tail -40
  echo "failures: $FAILS"
  exit 1
}
# check NAME COMMAND...: run, say PASS or FAIL with the seconds it took
check() {
  local name=$1 start=$(date +%s.%N) result=PASS
  shift
  "$@" || { result=FAIL; FAILS=$((FAILS + 1)); }
  echo "$result $name ($(date +%s.%N | awk -v a="$start" '{printf "%.1f", $1-a}') s)"
  [ $result = PASS ]
}
# no_errors [PATTERN]: no line of the kernel's log has PATTERN (I/O errors without one), and the kernel logged no call trace. Prints the
# lines before a call trace, which name its cause. The kernel does not repeat a read ahead whose path is lost, and no program waits for it: such
# an error has REQ_RAHEAD (80000h) in its flags, and a line of the path, NVMe status 3/71h, before it.
no_errors() {
  local ahead='op 0x0:\(READ\) flags 0x[0-9a-f]*[89a-f][0-9a-f]{4} |nvme[0-9]+c[0-9]+n[0-9]+: I/O Cmd\(0x2\).*\(sct 0x3 / sc 0x71\)'
  # Soft RoCE of Linux 6.1 may free a queue pair whose tasklet still runs, when a link comes back: a warning of the guest about itself.
  dmesg | awk '
    /-\[ cut here \]-/ { held = $0 "\n"; next }
    held == "" { print; next }
    { held = held $0 "\n" }
    /-\[ end trace / { if (held !~ /tasklet SCHED state not set: func 0x0/) printf "%s", held; held = "" }
    END { printf "%s", held }' > /tmp/kernel.log
  grep -i -B 12 -A 20 "call trace" /tmp/kernel.log
  ! grep -iE "${1:-I/O error|rejecting I/O}|call trace" /tmp/kernel.log | grep -vE "$ahead"
}
# equal WHAT GOT WANTED: for use under check
equal() { [ "$2" = "$3" ] || { echo "$1: got '$2', wanted '$3'"; return 1; }; }
# wait_for SECONDS COMMAND...: until it succeeds
wait_for() {
  local end=$(($(date +%s) + $1))
  shift
  while ! "$@" >/dev/null 2>&1; do
    [ "$(date +%s)" -lt $end ] || return 1
    sleep 0.2
  done
}
# What fio measured. Under emulation only ratios within one run mean anything.
fio_line() {
  jq -r '.jobs[0] as $j | (["read","write"][] as $d | $j[$d] | select(.io_bytes>0) | "  \($d): \(.iops|floor) IOPS, \(.bw_bytes/1048576*10|floor/10) MiB/s, mean \(.clat_ns.mean/1000|floor) us, p99 \(.clat_ns.percentile["99.000000"]/1000|floor) us"), "  errors: \($j.error)"'
}
# amount SAMPLE WHOLE: how much a check does. The suite takes the sample, WHOLE=1 (`make soak`) the whole.
amount() { if whole; then echo "$2"; else echo "$1"; fi; }
whole() { [ "${WHOLE:-}" = 1 ]; }
# Patterns of files of the guest for a tree: the sample has 150 files, the whole 600.
TREE_OF=/usr/lib/x86_64-linux-gnu/perl-base
TREE_OF=$(amount "$TREE_OF/[!u]* $TREE_OF/unicore/lib/N*" $TREE_OF)
# fio_verify FILE-or-DEVICE MIB [fio arguments]: write, read back, compare checksums; a quarter of MIB in the sample
fio_verify() {
  local file=$1 size=$(amount $(($2 / 4)) "$2")M
  shift 2
  timeout 300 fio --name=verify --filename="$file" --size="$size" --rw=randwrite --bsrange=4k-64k --bs_unaligned=0 \
    --direct=1 --ioengine=libaio --iodepth=8 --verify=crc32c --do_verify=1 --verify_fatal=1 \
    --output-format=json --output=/tmp/verify.json "$@" || { cat /tmp/verify.json; return 1; }
  sed -n '/^{/,$p' /tmp/verify.json | fio_line
}

# The kernel's own NVMe target: nvmet_up ADDRESS PORT NQN DEVICE [TRANSPORT]
nvmet_up() {
  local transport=${5:-tcp}
  modprobe -a nvmet nvmet-$transport || return 1
  local root=/sys/kernel/config/nvmet
  local subsystem=$root/subsystems/$3 port=$root/ports/1
  mkdir "$subsystem" && echo 1 > "$subsystem/attr_allow_any_host" && mkdir "$subsystem/namespaces/1" &&
    echo "$4" > "$subsystem/namespaces/1/device_path" && echo 1 > "$subsystem/namespaces/1/enable" &&
    mkdir $port && echo $transport > $port/addr_trtype && echo ipv4 > $port/addr_adrfam && echo "$1" > $port/addr_traddr &&
    echo "$2" > $port/addr_trsvcid && ln -s "$subsystem" "$port/subsystems/$3"
}
# ramdisk [MIB [COUNT]]: /dev/ram0...
ramdisk() {
  modprobe brd rd_nr="${2:-1}" rd_size=$((${1:-256} * 1024)) 2>/dev/null
  [ -b /dev/ram0 ]
}
# nvme_ctrls NQN: names of the controllers connected to it
nvme_ctrls() {
  local c
  for c in /sys/class/nvme/nvme*; do
    [ "$(cat "$c/subsysnqn" 2>/dev/null)" = "$1" ] && echo "${c##*/}"
  done
  return 0
}
# nvme_dev NQN [NSID]: the namespace's block device
nvme_dev() {
  local b
  for b in /sys/block/nvme*n*; do
    case ${b##*/} in nvme*c*n*) continue;; esac
    [ "$(cat "$b/nsid" 2>/dev/null)" = "${2:-1}" ] || continue
    [ "$(cat "$b/device/subsysnqn" 2>/dev/null)" = "$1" ] && [ -b "/dev/${b##*/}" ] && { echo "/dev/${b##*/}"; return 0; }
  done
  return 1
}
nvme_gone() { ! nvme_dev "$@"; }
