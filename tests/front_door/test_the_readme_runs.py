"""Hazard: the README's examples don't work as they stand."""

from __future__ import annotations

import os
import re
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

README = Path(__file__).resolve().parents[2] / "README.md"
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


def example(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", README.read_text(), re.DOTALL)
    assert found is not None
    return found.group(1)


def test_python(model: onnx.ModelProto, tmp_path: Path) -> None:
    code = example("python") + "print(session.get_inputs()[0].name)\n"
    result = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (result.stdout, result.returncode) == ("ids\n", 0), result.stderr


def test_cpp(model: onnx.ModelProto, tmp_path: Path) -> None:
    include = cpp_headers()
    runtime = next(Path(onnxruntime.__file__).parent.glob("capi/libonnxruntime.so.*"), None)
    if include is None or runtime is None:
        pytest.skip("needs ONNX Runtime's C++ headers and its shared library")
    dpiframe.optimize(tmp_path / "model.onnx", provider="cpu")
    (tmp_path / "libdpiframe_ops.so").symlink_to(library_path())
    lines = example("cpp").splitlines()
    includes = "\n".join(line for line in lines if line.startswith("#include"))
    body = "\n".join("  " + line.replace('"libdpiframe', '"./libdpiframe') for line in lines if "#include" not in line)
    source = tmp_path / "use.cc"
    source.write_text(PROGRAM.format(includes=includes, body=body))
    # The headers are of an older version than the library may be; they ask for the interface of their own version.
    build = ["g++", "-std=c++17", f"-I{include}", str(source), str(runtime), "-o", str(tmp_path / "use")]
    subprocess.run(build, check=True, capture_output=True, timeout=120)
    environment = os.environ | {"LD_LIBRARY_PATH": str(runtime.parent)}
    (tmp_path / "libonnxruntime.so.1").symlink_to(runtime)
    environment["LD_LIBRARY_PATH"] += f":{tmp_path}"
    run = subprocess.run(
        [str(tmp_path / "use")], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    expected = session.run(None, {"ids": np.array([[1, 2], [0, 3]])})[0]
    assert np.array_equal(np.array(run.stdout.split(), np.float32).reshape(2, 6), expected)


def cpp_headers() -> Path | None:
    """The folder of ONNX Runtime's C++ header: named, the system's, or the one that the build keeps."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dpiframe"
    named = os.environ.get("ONNXRUNTIME_INCLUDE_DIR")
    places = [Path(named)] if named else []
    places += [Path("/usr/include/onnxruntime"), *sorted(cache.glob("onnxruntime-headers-*"))]
    return next((place for place in places if (place / "onnxruntime_cxx_api.h").is_file()), None)
