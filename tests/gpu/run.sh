#!/usr/bin/env bash
# Builds the library for this machine's GPU, runs the GPU tests, then parts of them under compute-sanitizer, and prints
# a short summary. Needs nvcc, CMake, ninja and a Python with onnxruntime-gpu, pybind11 and pytest; installs nothing.
# Usage: tests/gpu/run.sh [build|tests|sanitizer ...]     (by default all three)
# PYTHON: the interpreter. ONNXRUNTIME_INCLUDE_DIR: the folder of onnxruntime_c_api.h; fetched where it isn't set.
set -uo pipefail
cd "$(dirname "$0")/../.."
python=${PYTHON:-python3}
build=$PWD/build/gpu site=$PWD/build/gpu/site logs=${OUT:-$PWD/build/gpu/logs}
steps=${*:-build tests sanitizer}
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

sanitizer() {  # TOOL SELECTION
  local runner=(compute-sanitizer --tool "$1" --error-exitcode 99 --print-limit 20)
  DPIFRAME_SANITIZER=1 tests tests/gpu -x -k "$2"
}

runner=()
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
    sanitizer)
      # The lookups' kernels use no shared memory: a small part shows that racecheck finds nothing to say of them.
      selection='agree or chunks or beside or padding or segments or wide or 257 or (fields and 39) or replays'
      # Compilations take most of the elementwise tests' time, so they are few under a checker.
      elementwise='printed_kernels or interpreter or (two_row_axes and rows0) or shared_memory_holds'
      sanitizer memcheck "$selection or $elementwise or (gemm_kernels and (sixteen or no_rows or prelu))" \
        >"$logs/memcheck.log" 2>&1
      report memcheck $? "$logs/memcheck.log" 'ERROR SUMMARY| (passed|failed)'
      sanitizer racecheck "chunks or beside or segments or $elementwise or (gemm_kernels and sixteen)" \
        >"$logs/racecheck.log" 2>&1
      report racecheck $? "$logs/racecheck.log" 'RACECHECK SUMMARY| (passed|failed)'
      ;;
    *)
      echo "unknown step: $step" >&2
      exit 2
      ;;
  esac
done
exit $failed
