#!/bin/bash
# Runs each fuzz target, two at a time: fuzz.sh SECONDS [TARGET...]
# A target runs in rounds of ROUND seconds until QUIET rounds in a row (a fifth of SECONDS, at least two) reach no new code, for SECONDS at
# most, so that the targets whose coverage still grows get most of the time. A crash prints the input's file and the command that repeats it,
# and fails. Inputs that reached new code stay in target/fuzz/corpus for the next run; fuzz/seeds/TARGET is added if it exists.
# No sanitizer: parsers are safe code, so a defect is a panic. RUSTC_BOOTSTRAP lets the pinned stable compiler
# take the coverage flags, so that no nightly is needed.
set -euo pipefail
cd "$(dirname "$(realpath "$0")")/.."
seconds=${1:?seconds for each target}
shift
mapfile -t targets < <(if [ $# -gt 0 ]; then printf '%s\n' "$@"; else basename -s .rs fuzz/src/targets/*.rs; fi)
[ ${#targets[@]} -gt 0 ] || { echo "fuzz: no targets" >&2; exit 1; }
out=$(realpath -m "${CARGO_TARGET_DIR:-target}")/fuzz
unset CARGO_TARGET_DIR

# The flags that cargo-fuzz passes for a build without a sanitizer, and checks of arithmetic and assertions.
sancov="-Cpasses=sancov-module --cfg fuzzing -Cdebug-assertions -Coverflow-checks"
for argument in -sanitizer-coverage-level=4 -sanitizer-coverage-inline-8bit-counters -sanitizer-coverage-pc-table \
  -sanitizer-coverage-trace-compares -sanitizer-coverage-stack-depth -simplifycfg-branch-fold-threshold=0; do
  sancov="$sancov -Cllvm-args=$argument"
done
# With --target, build scripts and macros are compiled without the flags.
triple=$(rustc -vV | sed -n 's/^host: //p')
bin=$out/build/$triple/release/targets
echo "fuzz: building the targets"
RUSTC_BOOTSTRAP=1 RUSTFLAGS=$sancov cargo build --quiet --locked --release --manifest-path fuzz/Cargo.toml \
  --target "$triple" --target-dir "$out/build"

ROUND=2
QUIET=$((seconds / 5 > 2 ? seconds / 5 : 2))

# fuzz_round TARGET SECONDS LOG: one run of a target. The next run continues with its corpus.
fuzz_round() {
  local target=$1 corpus=("$out/corpus/$1")
  mkdir -p "${corpus[0]}" "$out/artifacts/$target"
  [ ! -d "fuzz/seeds/$target" ] || corpus+=("fuzz/seeds/$target")
  WIREPOOL_FUZZ_TARGET=$target "$bin" "${corpus[@]}" -max_total_time="$2" -timeout=20 -rss_limit_mb=1024 -print_final_stats=1 \
    -artifact_prefix="$out/artifacts/$target/" >"$3" 2>&1
}

one() {
  local target=$1 log=$out/$1.log spent=0 quiet=0 best=0 runs=0 round covered
  while [ "$spent" -lt "$seconds" ] && [ "$quiet" -lt "$QUIET" ]; do
    round=$((seconds - spent < ROUND ? seconds - spent : ROUND))
    if ! fuzz_round "$target" "$round" "$log"; then
      tail -40 "$log"
      echo "FAIL fuzz $target (log: $log; again: WIREPOOL_FUZZ_TARGET=$target $bin INPUT)"
      return 1
    fi
    runs=$((runs + $(awk '/stat::number_of_executed_units/ {print $2}' "$log")))
    covered=$(grep -o 'cov: [0-9]*' "$log" | tail -1 | tr -dc 0-9)
    if [ "$covered" -gt "$best" ]; then best=$covered quiet=0; else quiet=$((quiet + 1)); fi
    spent=$((spent + round))
  done
  echo "PASS fuzz $target: $runs runs in $spent s, cov: $best"
}
export -f fuzz_round
export -f one
export bin out seconds ROUND QUIET
printf '%s\n' "${targets[@]}" | xargs -P 2 -I{} bash -c 'one {}' && echo "fuzz: ${#targets[@]} targets passed"
