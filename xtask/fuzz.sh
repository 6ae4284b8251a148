#!/bin/bash
# Runs each fuzz target for a while: fuzz.sh SECONDS [TARGET...]
# Two at a time. A crash prints the input's file and how to run it again, and fails. What is found interesting
# is kept in target/fuzz/corpus and used the next time; fuzz/seeds/TARGET, where it exists, starts it off.
# No sanitizer: parsers are safe code, so a defect is a panic. RUSTC_BOOTSTRAP lets the pinned stable compiler
# take the coverage flags, so that no nightly is needed.
set -euo pipefail
cd "$(dirname "$(realpath "$0")")/.."
seconds=${1:?seconds for each target}
shift
export RUSTC_BOOTSTRAP=1
mapfile -t targets < <(if [ $# -gt 0 ]; then printf '%s\n' "$@"; else cargo fuzz list; fi)
[ ${#targets[@]} -gt 0 ] || { echo "fuzz: no targets" >&2; exit 1; }
out=$(realpath -m "${CARGO_TARGET_DIR:-target}")/fuzz
unset CARGO_TARGET_DIR
echo "fuzz: building ${#targets[@]} targets"
cargo fuzz build --sanitizer none --target-dir "$out/build"

one() {
  local target=$1 log=$out/$1.log corpus=("$out/corpus/$1")
  mkdir -p "${corpus[0]}" "$out/artifacts/$1"
  [ ! -d "fuzz/seeds/$1" ] || corpus+=("fuzz/seeds/$1")
  if cargo fuzz run --sanitizer none --target-dir "$out/build" "$1" "${corpus[@]}" -- -max_total_time="$seconds" \
      -timeout=20 -rss_limit_mb=1024 -print_final_stats=1 -artifact_prefix="$out/artifacts/$1/" >"$log" 2>&1; then
    echo "PASS fuzz $target: $(awk '/stat::number_of_executed_units/ {print $2}' "$log") runs, $(grep -o 'cov: [0-9]*' "$log" | tail -1)"
  else
    tail -40 "$log"
    echo "FAIL fuzz $target (log: $log)"
    return 1
  fi
}
export -f one
export out seconds
printf '%s\n' "${targets[@]}" | xargs -P 2 -I{} bash -c 'one {}' && echo "fuzz: ${#targets[@]} targets passed"
