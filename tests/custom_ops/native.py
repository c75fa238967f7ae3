"""Native sources as a library for tests, by themselves: what needs neither ONNX Runtime nor a GPU."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
SOURCES = HERE.parents[1] / "custom_ops"

needs_sources = [
    pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++"),
    pytest.mark.skipif(not (SOURCES / "kernels").is_dir(), reason="needs the sources"),
]


def compile_library(folder: Path, test_file: str, sources: Sequence[str], headers: Sequence[Path] = ()) -> ctypes.CDLL:
    """`test_file` beside this one with `sources` below custom_ops/, compiled into `folder`. headers: folders that come
    before the sources' own."""
    library = folder / f"{Path(test_file).stem}.so"
    files = [HERE / test_file, *(SOURCES / source for source in sources)]
    folders = [f"-I{path}" for path in (*headers, SOURCES)]
    command = ["g++", "-std=c++17", "-O1", "-shared", "-fPIC", *folders, *map(str, files), "-o", str(library)]
    subprocess.run(command, check=True)
    return ctypes.CDLL(str(library))
