#!/usr/bin/env bash
# Builds the library for this machine's GPU, runs the GPU tests, then all of them under compute-sanitizer, and prints a
# short summary. Needs nvcc, CMake, ninja and a Python with onnxruntime-gpu, pybind11 and pytest (8.2 or
# newer); installs nothing.
# Usage: tests/gpu/run.sh [build|tests|memcheck|racecheck ...]     (by default all four)
# PYTHON: the interpreter. ONNXRUNTIME_INCLUDE_DIR: the folder of onnxruntime_c_api.h; fetched where it isn't set.
set -uo pipefail
cd "$(dirname "$0")/../.."
python=${PYTHON:-python3}
build=$PWD/build/gpu site=$PWD/build/gpu/site logs=${OUT:-$PWD/build/gpu/logs}
steps=${*:-build tests memcheck racecheck}
mkdir -p "$build" "$logs"
failed=0

report() {  # NAME STATUS LOG PATTERN: a line of the summary
  [ "$2" -eq 0 ] || failed=1
  printf '%-10s %s  %s\n' "$1" "$([ "$2" -eq 0 ] && echo ok || echo FAILED)" "$(grep -E "$4" "$3" | tail -n 1)"
}

build() {
  local architecture
  architecture=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -n 1 | tr -d .)
  cmake -S . -B "$build" -G Ninja -DPython_EXECUTABLE="$(command -v "$python")" -DDPIFRAME_CUDA=ON \
    -DDPIFRAME_CUDA_ARCHITECTURES="$architecture" -Dpybind11_DIR="$("$python" -m pybind11 --cmakedir)" \
    ${ONNXRUNTIME_INCLUDE_DIR:+-DONNXRUNTIME_INCLUDE_DIR="$ONNXRUNTIME_INCLUDE_DIR"} &&
    cmake --build "$build" || return
  # The package as an installation lays it out: folders of the repository under one name.
  rm -rf "$site" && mkdir -p "$site/dpiframe/custom_ops" &&
    ln -s "$PWD"/dpiframe/* "$PWD/export" "$PWD/graph_passes" "$PWD/models" "$site/dpiframe/" &&
    ln -s "$PWD"/custom_ops/*.py "$build"/custom_ops/*.so "$site/dpiframe/custom_ops/" &&
    ln -s "$PWD/tests" "$PWD/benchmarks" "$site/" &&
    mkdir "$site/dpiframe-0.dist-info" &&
    { echo 'Metadata-Version: 2.1'; sed -n 's/^name = "\(.*\)"/Name: \1/p; s/^version = "\(.*\)"/Version: \1/p' pyproject.toml; } \
      >"$site/dpiframe-0.dist-info/METADATA"
}

tests() {  # ARGUMENTS: of pytest
  PYTHONPATH=$site:${PYTHONPATH:-} "${runner[@]}" "$python" -P -m pytest -o pythonpath="$site" -p no:cacheprovider -q "$@"
}

checked() {  # TOOL PART: the tests that a file lists
  local log=$logs/$1-${2##*/}.log status
  runner=(timeout -k 10 "$part_seconds" compute-sanitizer --tool "$1" --error-exitcode 99 --print-limit 20)
  [ "$1" = memcheck ] || runner+=(--kernel-name kns=dpiframe)  # others' shared memory isn't of interest here
  for _ in 1 2; do
    # Threads may wait for each other without end under a checker; the log's last line names the test.
    DPIFRAME_SANITIZER=$1 tests -vv --durations=4 "@$2" >"$log" 2>&1
    status=$?
    # Once more where the checker itself came to no end, or says that it failed.
    [ $status -eq 124 ] || [ $status -eq 137 ] || grep -q 'Internal Sanitizer Error' "$log" || break
  done
  return $status
}

sanitizer() {  # TOOL: a checker makes a process wait for itself most of the time, so several parts of the tests run at once
  local at_once=$(($(nproc) * 3 / 4)) parts=$build/parts ids
  rm -rf "$parts" "$logs/$1"-*.log && mkdir "$parts"
  ids=$(DPIFRAME_SANITIZER=$1 tests tests/gpu --collect-only --disable-warnings | grep ::)
  [ -n "$ids" ] || { echo 'no tests were found' >"$logs/$1.log"; return 1; }
  awk -v parts="$parts" -v n=$((($(wc -l <<<"$ids") + 31) / 32)) '{print > (parts "/" NR % n)}' <<<"$ids"
  find "$parts" -type f | sort -V | xargs -P "$at_once" -I {} bash -c 'checked "$0" "$1" || echo "part ${1##*/} (status $?)"' "$1" {} >"$logs/$1.log"
  local failures=0
  [ -s "$logs/$1.log" ] || [ ! -e "$parts/0" ] && failures=1
  grep -hoE '[0-9]+ (passed|skipped|failed)' "$logs/$1"-*.log |
    awk '{n[$2] += $1} END {printf "%d passed, %d skipped, %d failed\n", n["passed"], n["skipped"], n["failed"]}' >>"$logs/$1.log"
  return "$failures"
}

runner=() part_seconds=300
export python site logs part_seconds PYTHONPATH
export -f checked tests
for step in $steps; do
  case $step in
    build)
      build >"$logs/build.log" 2>&1
      status=$?
      report build $status "$logs/build.log" 'dpiframe: CPU|error|Error'
      [ $status -eq 0 ] || { tail -n 30 "$logs/build.log"; exit 1; }
      ;;
    tests)
      tests tests/gpu --durations=8 >"$logs/tests.log" 2>&1
      report tests $? "$logs/tests.log" ' (passed|failed|skipped|error)'
      ;;
    memcheck | racecheck)
      sanitizer "$step"
      report "$step" $? "$logs/$step.log" .
      ;;
    *)
      echo "unknown step: $step" >&2
      exit 2
      ;;
  esac
done
exit $failed
