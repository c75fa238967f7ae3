"""Hazard: `import dpiframe` is slow, or needs what only some users have installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import dpiframe


def python(code: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_importing_loads_nothing_heavy() -> None:
    heavy = ["numpy", "onnx", "onnx_graphsurgeon", "onnxruntime", "rich", "torch", "typer"]
    done = python(f"import sys, dpiframe; print([m for m in {heavy} if m in sys.modules])")
    assert done.stdout == "[]\n", done.stderr


def test_optimizing_never_loads_torch(model_file: Path) -> None:
    code = "import sys, dpiframe; dpiframe.optimize(sys.argv[1]); print('torch' in sys.modules)"
    assert python(code, model_file).stdout == "False\n"


@pytest.mark.parametrize("name", dpiframe.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert name in dir(dpiframe)
    assert getattr(dpiframe, name) is not None


def test_a_wrong_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'optimise'"):
        dpiframe.optimise  # noqa: B018


WITHOUT = "import sys; sys.modules['onnxruntime'] = None; "


@pytest.mark.parametrize(
    "call",
    [
        "dpiframe.optimize(sys.argv[1])",
        "dpiframe.verify(sys.argv[1], sys.argv[1])",
        "dpiframe.session_options()",
        "dpiframe.InferenceSession(sys.argv[1])",
    ],
)
def test_without_onnxruntime_the_error_says_what_to_install(model_file: Path, call: str) -> None:
    done = python(f"{WITHOUT} import dpiframe\n{call}", model_file)
    expected = "onnxruntime is not installed: pip install 'dpiframe[cpu]', or 'dpiframe[gpu]' for NVIDIA GPUs"
    assert done.stderr.splitlines()[-1] == f"dpiframe.errors.MissingDependencyError: {expected}"


@pytest.mark.parametrize("arguments", [["train", "dcn"], ["export", "model.pt"]])
def test_without_torch_the_commands_say_what_to_install(arguments: list[str]) -> None:
    code = "import sys; sys.modules['torch'] = None; from dpiframe.cli import main; main()"
    done = python(code, *arguments)
    assert done.returncode == 1
    assert done.stderr == "error: PyTorch is not installed: pip install 'dpiframe[export]'\n"


def test_the_command_says_so_in_one_line(model_file: Path) -> None:
    code = f"{WITHOUT} from dpiframe.cli import optimize_main; optimize_main()"
    done = python(code, model_file)
    assert done.returncode == 1
    assert done.stderr.startswith("error: onnxruntime is not installed: pip install 'dpiframe[cpu]'")
    assert done.stderr.count("\n") == 1
