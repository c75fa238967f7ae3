"""The least time that a model can take on this card: its bytes at the measured speed of a copy, its products at the
measured speed of a large one."""

from __future__ import annotations

import functools
import json
import subprocess
from typing import Any

from benchmarks.configurations import Configuration
from benchmarks.harness import python_command
from benchmarks.model_rows import FLOOR

COPIED_BYTES = 2 << 30
SIZE = 8192


def floors(configuration: Configuration) -> list[dict[str, Any]]:
    """Two results: moving all bytes once, and computing all products."""
    copied, products = speeds()
    moved, flop = work_of(configuration)
    return [
        {"provider": f"{FLOOR}: bytes", "precision": "", "median_us": round(moved / copied * 1e6, 3)},
        {"provider": f"{FLOOR}: products", "precision": "fp32", "median_us": round(flop / products * 1e6, 3)},
    ]


def work_of(configuration: Configuration) -> tuple[int, int]:
    """Bytes of the ids, the looked-up rows, the other weights and the answers; FLOP of the products."""
    from torch import nn

    module = configuration.module("meta")
    tables = [part for part in module.modules() if isinstance(part, nn.Embedding)]
    in_tables = {id(table.weight) for table in tables}
    weights = sum(one.numel() for one in module.parameters() if id(one) not in in_tables)
    row = sum(table.embedding_dim for table in tables)
    batch, fields = configuration.batch, configuration.schema().id_columns
    products = sum(part.weight.numel() for part in module.modules() if isinstance(part, nn.Linear))
    return batch * (8 * fields + 4 * row + 4) + 4 * weights, 2 * batch * products


@functools.cache
def speeds() -> tuple[float, float]:
    """Bytes and FLOP a second, measured in a process of its own."""
    done = subprocess.run(python_command(__name__), capture_output=True, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    return found["bytes_per_s"], max(found["fp32_flop_per_s"], found["tf32_flop_per_s"] / 3)


def _measure() -> dict[str, float]:
    """Products in float32's accuracy: PyTorch's own, or three in TF32, which is what a corrected one takes."""
    import torch

    from benchmarks.gpu_timing import copy_us, graph_us

    with torch.cuda.stream(torch.cuda.Stream()):
        found = {"bytes_per_s": COPIED_BYTES / copy_us(COPIED_BYTES, 2) * 1e6}
        left, right = (torch.randn(SIZE, SIZE, device="cuda") for _ in range(2))
        for name, tf32 in (("fp32", False), ("tf32", True)):
            torch.backends.cuda.matmul.allow_tf32 = tf32
            found[f"{name}_flop_per_s"] = 2 * SIZE**3 / graph_us([lambda: left @ right] * 4) * 1e6
    return found


def main() -> None:
    """Prints the two speeds as JSON."""
    print(json.dumps(_measure()))
