#!/usr/bin/env bash
# Runs the tests of the CPU kernels and of the ops with a build in which gcc checks memory and undefined behaviour.
# Usage: tests/sanitize.sh PYTHON [ARGUMENTS of pytest]    PYTHON: of an environment that has what tests need
set -euo pipefail
cd "$(dirname "$0")/.."
tools=$1 environment=$PWD/build/sanitize/venv
shift
flags='-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer -g1'

# An environment of its own, so that the other one keeps its build, on top of the other one's packages.
"$tools" -m venv --clear --without-pip "$environment"
"$tools" -c 'import sysconfig; print(sysconfig.get_path("purelib"))' >"$(echo "$environment"/lib/python*/site-packages)/tools.pth"
"$tools" -m pip --disable-pip-version-check --python "$environment/bin/python" install --quiet --no-deps --no-build-isolation \
  --editable . -C install.strip=false -C build-dir=build/sanitize/native -C cmake.define.DPIFRAME_CUDA=OFF -C "cmake.define.CMAKE_CXX_FLAGS=$flags"

# Python isn't built with them, so they must be loaded before it. It gives no memory back at its end, and is no leak;
# and what is freed stays for a while, so that the process grows.
# pytest would lose what they print.
library() { readlink -f "$(g++ -print-file-name="$1")"; }
reports=$PWD/build/sanitize/reports status=0
rm -rf "$reports" && mkdir "$reports"
LD_PRELOAD="$(library libasan.so) $(library libubsan.so) $(library libstdc++.so.6)" PYTHONMALLOC=malloc \
  ASAN_OPTIONS=log_path=$reports/address:detect_leaks=0:detect_stack_use_after_return=1:strict_string_checks=1 \
  UBSAN_OPTIONS=log_path=$reports/undefined:print_stacktrace=1 \
  "$environment/bin/python" -P -m pytest -p no:cacheprovider tests/custom_ops \
  --deselect tests/custom_ops/test_library_needs.py::test_it_needs_libc_and_nothing_else \
  --deselect tests/custom_ops/test_counters.py::test_options_without_a_session_leave_next_to_nothing "$@" || status=$?
for report in "$reports"/*; do
  [ -e "$report" ] || continue
  head -n 30 "$report"
  status=1
done
exit $status
