"""Prints the path of nvcc: on PATH, or in the wheel nvidia-cuda-nvcc. Prints nothing where there is none."""

from __future__ import annotations

import os
import shutil
import site
import sys
from pathlib import Path


def find_nvcc() -> str:
    found = os.environ.get("CUDACXX") or shutil.which("nvcc")
    if found:
        return found
    for folder in (*site.getsitepackages(), site.getusersitepackages(), *sys.path):
        for nvcc in sorted(Path(folder or ".").glob("nvidia/*/bin/nvcc"), reverse=True):
            return str(nvcc)
    return ""


if __name__ == "__main__":
    print(find_nvcc())
