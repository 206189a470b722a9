#!/usr/bin/env bash
# ./test --gpu: runs a build of preset cuda as it lies there; installs and builds nothing.
set -euo pipefail
PROGRAM="test --gpu"
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

SIZE=quick BUILD=build/cuda
while (($#)); do
  case $1 in
    quick | sanitize | soak) SIZE=$1 ;;
    --build)
      (($# > 1)) || die "--build: its folder is missing"
      BUILD=$2 && shift
      ;;
    -h | --help)
      cat <<HELP
./test --gpu [quick|sanitize|soak] [--build FOLDER]

Runs the GPU programs that lie in FOLDER (default build/cuda), or in its bin, on the GPUs of this
machine. Nothing is installed or built: cmake --preset cuda && cmake --build --preset cuda makes the
programs, on this machine or on another.
  quick     every suite, at most 4 minutes (the default)
  sanitize  the same suites over small shapes, under compute-sanitizer's memcheck, racecheck and
            synccheck
  soak      the long suites alone: launches by the 10^5, at most 50 minutes
Where there is no GPU, and where a test wants more GPUs than there are, tests are skipped, counted
and named.
HELP
      exit 0
      ;;
    *) die "unknown argument $1; type: ./test --gpu --help" ;;
  esac
  shift
done

case $SIZE in
  quick) LIMIT_SECONDS=240 ;;
  sanitize) LIMIT_SECONDS=1800 ;;
  soak) LIMIT_SECONDS=3000 ;;
esac
TOOLS=(none)
if [[ $SIZE == sanitize ]]; then TOOLS=(memcheck racecheck synccheck); fi

[[ -d $BUILD/bin ]] && FOLDER=$BUILD/bin || FOLDER=$BUILD
shopt -s nullglob
PROGRAMS=("$FOLDER"/gpu_test_*)
((${#PROGRAMS[@]})) ||
  die "no gpu_test_* in $FOLDER; type: cmake --preset cuda && cmake --build --preset cuda, or --build FOLDER"

PASSED=0 FAILED=0 SKIPPED=0 REPORT=()

# count NAME SECONDS PASSED FAILED SKIPPED: into the totals and the report.
count() {
  PASSED=$((PASSED + $3)) FAILED=$((FAILED + $4)) SKIPPED=$((SKIPPED + $5))
  REPORT+=("$(printf '%-28s %5d passed %4d failed %4d skipped %5d s' "$1" "$3" "$4" "$5" "$2")")
}

# run_program NAME LOG COMMAND...: one program; its own summary line gives the counts, and its status must agree.
run_program() {
  local name=$1 log=$2 start=$SECONDS status=0 left=$((LIMIT_SECONDS - SECONDS)) line
  if ((left <= 0)); then
    shout "$name did not run: the $LIMIT_SECONDS s of size $SIZE are over"
    count "$name" 0 0 1 0
    return
  fi
  timeout -k 10 "$left" "${@:3}" </dev/null >"$log" 2>&1 || status=$?
  grep -E '^\[ +(FAILED|SKIPPED) +\]|^(FAIL|ERROR): |^!!!|: Failure$|ERROR SUMMARY: [^0]|RACECHECK SUMMARY: [^0]' "$log" || true
  line=$(grep -oE '[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped' "$log" | tail -1 | sed 's/[a-z, ]\+/ /g; s/ $//') || line="0 0 0"
  # 77 says that there is no GPU. A program that ended early, by a signal or at its time, has failed whatever it had
  # counted; one that counted nothing has not run.
  local counts=($line)
  if ((status != 0 && status != 77 && counts[1] == 0)) || [[ $line == "0 0 0" && $SIZE != soak ]]; then
    shout "$name ended with status $status$( ((status == 124)) && echo ", out of time"); see $log"
    counts[1]=1
  fi
  count "$name" "$(seconds_since "$start")" "${counts[@]}"
}

find_sanitizer() {
  PATH=$PATH:/usr/local/cuda/bin:/usr/local/cuda/compute-sanitizer command -v compute-sanitizer || true
}

say "GPU programs of $FOLDER, size $SIZE, at most $LIMIT_SECONDS s"
if [[ -x $FOLDER/megaflux ]]; then
  "$FOLDER/megaflux" doctor --backend cuda </dev/null 2>&1 | sed -n '/^Backend cuda/,$p' || true
fi
SANITIZER=
if [[ $SIZE == sanitize ]]; then
  SANITIZER=$(find_sanitizer)
  if [[ -z $SANITIZER ]]; then
    shout "SKIPPED: compute-sanitizer is neither on the PATH nor in /usr/local/cuda"
    count sanitize 0 0 0 $((${#PROGRAMS[@]} * ${#TOOLS[@]}))
    PROGRAMS=()
  fi
fi
for tool in "${TOOLS[@]}"; do
  for program in "${PROGRAMS[@]}"; do
    name=$(basename "$program")
    command=("$program" "--size=$SIZE")
    if [[ -n $SANITIZER ]]; then
      name="$name $tool"
      # Calls that CUDA refuses are part of some tests, and every call's status is looked at.
      flags=()
      if [[ $tool == memcheck ]]; then flags=(--report-api-errors no); fi
      command=("$SANITIZER" --tool "$tool" --error-exitcode 1 --print-limit 20 "${flags[@]}" "${command[@]}")
    fi
    say "$name"
    run_program "$name" "$LOG_DIR/${name// /.}.$SIZE.log" "${command[@]}"
  done
done
# The program itself, as a user runs it; its tests are Python with its standard library.
if [[ $SIZE == quick && -x $FOLDER/megaflux ]]; then
  say "megaflux"
  MF_PROGRAM=$(realpath "$FOLDER/megaflux") run_program megaflux "$LOG_DIR/megaflux.quick.log" python3 -B tests/cli/gpu_program.py
fi

printf '\n%sSummary%s of size %s, %d s in all\n' "$BOLD" "$PLAIN" "$SIZE" "$SECONDS"
printf '  %s\n' "${REPORT[@]}"
if ((SKIPPED)); then shout "$SKIPPED test(s) did not run. What they lacked stands above."; fi
if ((FAILED)); then printf '%sFAILED%s: the output of each program lies in %s\n' "$RED" "$PLAIN" "$LOG_DIR"; fi
printf '%d passed, %d failed, %d skipped\n' "$PASSED" "$FAILED" "$SKIPPED"
((FAILED == 0))
