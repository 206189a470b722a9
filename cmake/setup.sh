# What ./quickstart and ./test share: packages, configuring, building, and how they speak. Sourced, never run.
# The caller sets PROGRAM, its name in messages.

cd "$(dirname "${BASH_SOURCE[0]}")/.."
LOG_DIR=build/log
JOBS=$(nproc 2>/dev/null || echo 2)

# "package:command": a command found on the PATH will do, whoever installed it.
BUILD_PROGRAMS=(g++:g++ cmake:cmake ninja-build:ninja pkgconf:pkg-config python3:python3)
# ocl-icd-opencl-dev: the CMake file of libdnnl-dev looks for OpenCL. node-d3 holds the chart library of the report.
BUILD_LIBRARIES=(libdnnl-dev ocl-icd-opencl-dev libcli11-dev libfmt-dev nlohmann-json3-dev libzip-dev
                 librapidcheck-dev libgtest-dev libbenchmark-dev zlib1g-dev node-d3)
# cbc proves optima, clang-format checks the layout of the sources, NumPy reads and writes our traces, Chromium opens
# the report as a reader does, clang's runtime has libFuzzer.
TEST_PROGRAMS=(coinor-cbc:cbc clang-format:clang-format chromium:chromium chromium-driver:chromedriver clang:clang++)
TEST_LIBRARIES=(python3-numpy python3-selenium libclang-rt-14-dev)

if [[ -t 1 && -z ${NO_COLOR:-} ]]; then
  BOLD=$'\e[1m' RED=$'\e[31m' YELLOW=$'\e[33m' GREEN=$'\e[32m' PLAIN=$'\e[0m'
else
  BOLD='' RED='' YELLOW='' GREEN='' PLAIN=''
fi

say() { printf '%s==>%s %s\n' "$BOLD" "$PLAIN" "$*"; }
shout() { printf '%s!!! %s%s\n' "$YELLOW" "$*" "$PLAIN"; }
die() {
  printf '%s%s: %s%s\n' "$RED" "$PROGRAM" "$*" "$PLAIN" >&2
  exit 1
}
mkdir -p "$LOG_DIR" 2>/dev/null && [[ -w $LOG_DIR ]] ||
  die "cannot write into $PWD/$LOG_DIR; clone the project as the user you are, or remove build"
seconds_since() { echo $((SECONDS - $1)); }

# find_nvcc: the path of CUDA's compiler, or nothing. No package here brings it.
find_nvcc() { PATH=$PATH:/usr/local/cuda/bin command -v "${CUDACXX:-nvcc}" || true; }

# missing_packages program:command... -- library...: prints what is not there, one package a line.
missing_packages() {
  local entry
  while (($#)) && [[ $1 != -- ]]; do
    entry=$1 && shift
    command -v "${entry#*:}" >/dev/null || echo "${entry%%:*}"
  done
  shift || true
  for entry in "$@"; do
    [[ $(dpkg-query -W -f '${db:Status-Abbrev}' "$entry" 2>/dev/null) == ii* ]] || echo "$entry"
  done
}

# install_packages package...: from the distribution, as root or through sudo.
install_packages() {
  local as_root=() by_hand="apt-get install --no-install-recommends $*"
  if ((EUID != 0)); then
    command -v sudo >/dev/null ||
      die "missing packages and no sudo; as root, type: $by_hand"
    as_root=(sudo)
    # Asks for a password only where somebody can type it.
    [[ -t 0 ]] || sudo -n true 2>/dev/null ||
      die "missing packages and sudo wants a password; type: sudo $by_hand"
    sudo -v 2>/dev/null || die "missing packages and sudo is not allowed; as root, type: $by_hand"
  fi
  say "Installing $# missing package(s) from the distribution: $*"
  local log=$LOG_DIR/packages.log
  local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -y)
  {
    "${apt[@]}" update && "${apt[@]}" install --no-install-recommends "$@"
  } </dev/null >"$log" 2>&1 ||
    die "packages could not be installed ($(grep -m1 '^E:' "$log" || echo "see $log")); type: $by_hand"
}

# ensure_packages build|test
ensure_packages() {
  local programs=("${BUILD_PROGRAMS[@]}") libraries=("${BUILD_LIBRARIES[@]}") missing
  if [[ $1 == test ]]; then
    programs+=("${TEST_PROGRAMS[@]}") libraries+=("${TEST_LIBRARIES[@]}")
  fi
  if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    mapfile -t missing < <(missing_packages "${programs[@]}")
    shout "No apt here: nothing is installed. Needed are (Debian names): ${programs[*]%%:*} ${libraries[*]}"
    ((${#missing[@]} == 0)) || die "missing programs: ${missing[*]}; install them and try again"
    return
  fi
  mapfile -t missing < <(missing_packages "${programs[@]}" -- "${libraries[@]}")
  if ((${#missing[@]})); then
    install_packages "${missing[@]}"
  else
    say "All packages are there"
  fi
}

# Sanitizers expect memory where kernels with many random bits do not put it: under FIXED_MAP they find it.
FIXED_MAP=(setarch "$(uname -m)" -R)
"${FIXED_MAP[@]}" true 2>/dev/null || FIXED_MAP=()

# show_progress DONE TOTAL WHAT: one line that moves on a terminal, a line at every fifth elsewhere.
PROGRESS_FIFTHS=0
show_progress() {
  if [[ -t 1 ]]; then
    printf '\r    %d of %d %s' "$1" "$2" "$3"
  elif (($1 * 5 / $2 != PROGRESS_FIFTHS)); then
    PROGRESS_FIFTHS=$(($1 * 5 / $2))
    printf '    %d of %d %s\n' "$1" "$2" "$3"
  fi
}
clear_progress() { if [[ -t 1 ]]; then printf '\r\e[K'; fi; }

# watch_build LOG: copies ninja's output into LOG and shows how far it is.
watch_build() {
  local line
  while IFS= read -r line; do
    printf '%s\n' "$line" >>"$1"
    if [[ $line =~ ^\[([0-9]+)/([0-9]+)\] ]]; then
      show_progress "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}" steps
    fi
  done
  clear_progress
}

# watch_tests LOG: copies ctest's output into LOG, shows how far it is, and passes on all but the passes.
watch_tests() {
  local line
  while IFS= read -r line; do
    printf '%s\n' "$line" >>"$1"
    if [[ $line =~ ^\ *([0-9]+)/([0-9]+)\ Test.*\ Passed\  ]]; then
      show_progress "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}" tests
    elif [[ ! $line =~ ^\ *Start\ +[0-9]+: ]]; then
      clear_progress
      printf '%s\n' "$line"
    fi
  done
  clear_progress
}

# build_error LOG: the line that says what is wrong; ninja's own FAILED line stands above it and is second best.
build_error() { grep -m1 -E '(error: |undefined reference)' "$1" || grep -m1 FAILED "$1" || echo "see the end of the log"; }

# build_preset NAME [TARGET...]: configures (again, if anything changed) and builds build/NAME, all of it or the targets.
build_preset() {
  local preset=$1 start=$SECONDS log=$LOG_DIR/$1.log launcher=() targets=()
  if (($# > 1)); then targets=(--target "${@:2}"); fi
  if command -v ccache >/dev/null; then
    launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DCMAKE_CUDA_COMPILER_LAUNCHER=ccache)
    # Checkouts share what they compiled: paths count from the root of each.
    export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
  fi
  say "Building preset $preset in build/$preset with $JOBS job(s)"
  cmake --preset "$preset" "${launcher[@]}" </dev/null >"$log" 2>&1 ||
    die "cmake could not configure: $(grep -m1 -A2 'CMake Error' "$log" | tr -s '\n ' ' ')(all of it: $log)"
  "${FIXED_MAP[@]}" cmake --build --preset "$preset" -j "$JOBS" "${targets[@]}" </dev/null 2>&1 | watch_build "$log" ||
    die "the build of preset $preset failed: $(build_error "$log") (all of it: $log)"
  say "Built preset $preset in $(seconds_since "$start") s"
}
