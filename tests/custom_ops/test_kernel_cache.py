"""Hazards of a folder of compiled kernels: damage, many writers, too many bytes, a folder that can't be used."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

kernels: Any = pytest.importorskip("dpiframe.custom_ops._cuda_kernels", reason="needs a build with CUDA")

MANY = 1 << 30


def test_what_was_stored_is_found_again(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    cache = kernels.KernelCache(str(folder), MANY)
    assert cache.find("key") is None
    cache.store("key", b"code\0\xff")
    cache.store("other key", b"")
    assert cache.find("key") == b"code\0\xff"
    assert cache.find("other key") is None  # code is never empty
    assert kernels.KernelCache(str(folder), MANY).find("key") == b"code\0\xff"
    cache.store("key", b"newer")
    assert cache.find("key") == b"newer"


@pytest.mark.parametrize("where", ["start", "key", "code", "end", "all"])
def test_a_damaged_entry_is_none(tmp_path: Path, where: str) -> None:
    cache = kernels.KernelCache(str(tmp_path), MANY)
    cache.store("a key of some length", b"code" * 100)
    (path,) = tmp_path.iterdir()
    content = bytearray(path.read_bytes())
    if where == "all":
        content.clear()
    elif where == "end":
        del content[-1]
    else:
        content[{"start": 3, "key": 35, "code": -10}[where]] ^= 1
    path.write_bytes(content)
    assert cache.find("a key of some length") is None
    cache.store("a key of some length", b"code")
    assert cache.find("a key of some length") == b"code"


def test_an_entry_of_another_key_is_none(tmp_path: Path) -> None:
    """As two keys of one hash would be."""
    cache = kernels.KernelCache(str(tmp_path), MANY)
    cache.store("first", b"1")
    (first,) = tmp_path.iterdir()
    cache.store("second", b"2")
    (second,) = set(tmp_path.iterdir()) - {first}
    first.replace(second)
    assert cache.find("second") is None


def test_readers_and_writers_at_the_same_time(tmp_path: Path) -> None:
    codes = {str(number): bytes([number]) * 50_000 for number in range(8)}

    def work(seed: int) -> None:
        cache = kernels.KernelCache(str(tmp_path), MANY)
        for number in range(60):
            key = str((seed + number) % len(codes))
            cache.store(key, codes[key])
            assert cache.find(key) in (codes[key], None)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    cache = kernels.KernelCache(str(tmp_path), MANY)
    assert all(cache.find(key) == code for key, code in codes.items())
    assert len(list(tmp_path.iterdir())) == len(codes)  # nothing unfinished is left


def test_what_was_used_least_lately_goes_first(tmp_path: Path) -> None:
    cache = kernels.KernelCache(str(tmp_path), 3500)
    for number in range(3):
        cache.store(str(number), bytes([1]) * 1000)
        (newest,) = [path for path in tmp_path.iterdir() if path.stat().st_mtime > time.time() - 30]
        old = time.time() - 1000 + number
        os.utime(newest, (old, old))
    assert cache.find("0") is not None  # used now
    cache.store("3", bytes([1]) * 1000)
    assert [cache.find(str(number)) is not None for number in range(4)] == [True, False, True, True]


def test_unfinished_files_of_dead_processes_go(tmp_path: Path) -> None:
    cache = kernels.KernelCache(str(tmp_path), MANY)
    dead, alive = tmp_path / "x.unfinished", tmp_path / "y.unfinished"
    for path in (dead, alive):
        path.write_bytes(b"part")
    os.utime(dead, (time.time() - 7200,) * 2)
    cache.store("key", b"code")
    assert not dead.exists()
    assert alive.exists()


def test_a_folder_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for folder in ("", str(tmp_path / "file"), str(tmp_path / "file" / "below")):
        cache = kernels.KernelCache(folder, MANY)
        cache.store("key", b"code")
        assert cache.find("key") is None
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
