"""Hazard: the examples of the README and of the page on serving don't work as they stand."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper, parser

import dpiframe
from dpiframe.custom_ops import library_path

ROOT = Path(__file__).resolve().parents[2]
MODEL = """
<ir_version: 10, opset_import: ["": 20]>
model (int64[batch,2] ids) => (float[batch,6] joined) {
  first = Constant<value_int=0>()
  second = Constant<value_int=1>()
  a = Gather<axis=1>(ids, first)
  b = Gather<axis=1>(ids, second)
  left = Gather(users, a)
  right = Gather(items, b)
  joined = Concat<axis=1>(left, right)
}
"""
# What the README leaves to the reader: a row of ids in, its embedding out.
PROGRAM = """
#include <cstdint>
#include <cstdio>
{includes}
int main() {{
{body}
  int64_t ids[] = {{1, 2, 0, 3}};
  const int64_t shape[] = {{2, 2}};
  auto memory = Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault);
  auto input = Ort::Value::CreateTensor<int64_t>(memory, ids, 4, shape, 2);
  const char* inputs[] = {{"ids"}};
  const char* outputs[] = {{"joined"}};
  auto answers = session.Run(Ort::RunOptions{{}}, inputs, &input, 1, outputs, 1);
  for (int i = 0; i < 12; ++i) std::printf("%.9g\\n", answers[0].GetTensorData<float>()[i]);
}}
"""


@pytest.fixture
def model(tmp_path: Path) -> onnx.ModelProto:
    built = parser.parse_model(MODEL)
    rng = np.random.default_rng(0)
    for name, dim in (("users", 4), ("items", 2)):
        built.graph.initializer.append(numpy_helper.from_array(rng.standard_normal((5, dim)).astype(np.float32), name))
    onnx.save(built, tmp_path / "model.onnx")
    return built


def example(language: str, page: str = "README.md") -> str:
    found = re.search(rf"```{language}\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    assert found is not None
    return found.group(1)


def test_python(model: onnx.ModelProto, tmp_path: Path) -> None:
    code = example("python") + "print(session.get_inputs()[0].name)\n"
    result = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (result.stdout, result.returncode) == ("ids\n", 0), result.stderr


def run_cpp(tmp_path: Path, *examples: str, program: str) -> str:
    """What a program prints that is made of examples, their includes first, with the library beside it."""
    include = cpp_headers()
    runtime = next(Path(onnxruntime.__file__).parent.glob("capi/libonnxruntime.so.*"), None)
    if include is None or runtime is None:
        pytest.skip("needs ONNX Runtime's C++ headers and its shared library")
    shutil.copy(library_path(), tmp_path)
    lines = "\n".join(examples).replace("/srv/models/", f"{tmp_path}/").splitlines()
    includes = "\n".join(line for line in lines if line.startswith("#include"))
    body = "\n".join("  " + line for line in lines if "#include" not in line)
    source = tmp_path / "use.cc"
    source.write_text(program.format(includes=includes, body=body))
    # The headers are of an older version than the library may be; they ask for the interface of their own version.
    build = ["g++", "-std=c++17", f"-I{include}", str(source), str(runtime), "-ldl", "-o", str(tmp_path / "use")]
    subprocess.run(build, check=True, capture_output=True, timeout=120)
    (tmp_path / "libonnxruntime.so.1").symlink_to(runtime)
    environment = os.environ | {"LD_LIBRARY_PATH": f"{runtime.parent}:{tmp_path}"}
    run = subprocess.run(
        [str(tmp_path / "use")], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_cpp(model: onnx.ModelProto, tmp_path: Path) -> None:
    dpiframe.optimize(tmp_path / "model.onnx", provider="cpu")
    printed = run_cpp(tmp_path, example("cpp"), program=PROGRAM)
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    expected = session.run(None, {"ids": np.array([[1, 2], [0, 3]])})[0]
    assert np.array_equal(np.array(printed.split(), np.float32).reshape(2, 6), expected)


# Behind a run with an id outside its table: what is counted before a reset and behind it, and of a tag nobody gave.
COUNTS = """
  size = read(tag.c_str(), counts.data(), counts.size());
  std::printf("%zu\\n%s\\n%d\\n", size, counts.c_str(), reset(tag.c_str()));
  size = read(tag.c_str(), counts.data(), counts.size());
  std::printf("%zu\\n%s\\n", size, counts.c_str());
  std::printf("%zu\\n%d\\n", read("no tag", nullptr, 0), reset("no tag"));
}}
"""


def test_counts_in_cpp(model: onnx.ModelProto, tmp_path: Path) -> None:
    dpiframe.optimize(tmp_path / "model.onnx", provider="cpu", bad_ids="zero")
    program = PROGRAM.replace("{{1, 2, 0, 3}}", "{{1, 2, 0, 7}}").rstrip().removesuffix("}}") + COUNTS
    printed = run_cpp(tmp_path, example("cpp"), example("cpp", "docs/serving.md"), program=program).splitlines()
    size, counts, *rest = printed[12:]
    assert [(each["lookup"], each["count"]) for each in json.loads(counts)] == [("ids[1] -> items", 1)]
    assert int(size) == len(counts) + 1
    assert rest == ["1", "3", "[]", "0", "0"]


def cpp_headers() -> Path | None:
    """The folder of ONNX Runtime's C++ header: named, the system's, or the one that the build keeps."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dpiframe"
    named = os.environ.get("ONNXRUNTIME_INCLUDE_DIR")
    places = [Path(named)] if named else []
    places += [Path("/usr/include/onnxruntime"), *sorted(cache.glob("onnxruntime-headers-*"))]
    return next((place for place in places if (place / "onnxruntime_cxx_api.h").is_file()), None)
