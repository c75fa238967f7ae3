"""Hazard: a library that loads on the machine that built it and nowhere else."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from dpiframe import custom_ops

ALLOWED = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "ld-linux-x86-64.so.2"}

pytestmark = pytest.mark.skipif(shutil.which("readelf") is None, reason="readelf (binutils) is not installed")


def readelf(*arguments: str) -> str:
    command = ["readelf", "--wide", *arguments, str(custom_ops.library_path())]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_it_needs_libc_and_nothing_else() -> None:
    needed = set(re.findall(r"\(NEEDED\).*\[(.+)\]", readelf("--dynamic")))
    assert "libc.so.6" in needed
    assert needed <= ALLOWED


def test_it_stays_loaded_and_looks_nowhere() -> None:
    dynamic = readelf("--dynamic")
    assert "NODELETE" in dynamic
    assert "RPATH" not in dynamic
    assert "RUNPATH" not in dynamic


def test_it_exports_its_functions_alone() -> None:
    symbols = [line.split() for line in readelf("--dyn-syms").splitlines()]
    exported = {
        words[7].split("@")[0]
        for words in symbols
        if len(words) >= 8 and words[4] in ("GLOBAL", "WEAK", "UNIQUE") and words[6] != "UND"
    }
    assert exported == {
        "RegisterCustomOps",
        "dpiframe_bad_ids_json",
        "dpiframe_bad_ids_reset",
        "dpiframe_version",
    }


def test_its_version_is_the_package_s() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    assert custom_ops.version() == project["project"]["version"]
