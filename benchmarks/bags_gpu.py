"""Bags of any length on a GPU beside PyTorch's embedding_bag and, where it is installed, FBGEMM: all in one run.

    python benchmarks/bags_gpu.py [--results FOLDER]

Device time in microseconds by graph replays, ids and offsets in device memory. Lists are rotated so that inputs and
outputs don't stay in the L2 cache. Every peer's answers are checked first. Writes bags_gpu.csv.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

sys.path.append(str(Path(__file__).resolve().parents[1]))

from benchmarks.gpu_timing import Work, graph_us
from benchmarks.harness import about_gpu, write_table

ROTATED_BYTES = 240 << 20


@dataclass(frozen=True)
class Case:
    rows: int
    dim: int
    length: int  # mean; each bag has between 0 and twice as many ids
    mode: str = "sum"
    weighted: bool = False
    table_rows: int = 1_000_000


class Data:
    def __init__(self, case: Case) -> None:
        torch.manual_seed(0)
        self.case = case
        self.table = torch.randn(case.table_rows, case.dim, device="cuda")
        total = case.rows * case.length
        moved = total * (8 + 4 * case.weighted) + case.rows * (8 + case.dim * 4)
        self.moved_bytes = moved + total * case.dim * 4
        sets = max(2, min(32, ROTATED_BYTES // moved))
        self.lists = [self._draw() for _ in range(sets)]
        self.outputs = [torch.empty(case.rows, case.dim, device="cuda") for _ in self.lists]

    def _draw(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
        case = self.case
        lengths = torch.randint(0, 2 * case.length + 1, (case.rows,), device="cuda")
        offsets = lengths.cumsum(0) - lengths
        total = int(lengths.sum())
        ids = torch.randint(0, case.table_rows, (total,), device="cuda")
        return ids, offsets, torch.rand(total, device="cuda") if case.weighted else None


def ours(data: Data) -> list[Work]:
    from dpiframe.custom_ops._cuda_kernels import CudaLookup

    case, table = data.case, data.table
    weight = "col 2 *" if case.weighted else "one"
    lists = "source * list\n" * (1 + case.weighted)
    program = (
        f"lookup 1\nrows 1\nbad error\nsource 1 row\n{lists}table {case.table_rows} {case.dim}\noutput {case.dim}\n"
        f"bag 0 0 {case.dim} {case.mode} 0 0 1:* 0 {weight} 0:0 none\n"
    )
    types = ["int64", "int64"] + ["float32"] * case.weighted
    lookup = CudaLookup(program, types, "float32", [table.data_ptr()])

    def work(ids: torch.Tensor, offsets: torch.Tensor, weights: torch.Tensor | None, output: torch.Tensor) -> object:
        sources = [offsets, ids, *([weights] if weights is not None else [])]
        lookup.launch(
            case.rows,
            [source.data_ptr() for source in sources],
            [1, *(source.numel() for source in sources[1:])],
            [table.data_ptr()],
            [output.data_ptr()],
            torch.cuda.current_stream().cuda_stream,
        )
        return output

    return [partial(work, *lists, output) for lists, output in zip(data.lists, data.outputs, strict=True)]


def torch_bag(data: Data) -> list[Work]:
    bag = partial(torch.nn.functional.embedding_bag, mode=data.case.mode)
    return [partial(bag, ids, data.table, offsets, per_sample_weights=weights) for ids, offsets, weights in data.lists]


def fbgemm(data: Data) -> list[Work]:
    """Its inference embedding: FP32 rows, 32-bit ids, unchecked."""
    from fbgemm_gpu.split_embedding_configs import SparseType
    from fbgemm_gpu.split_table_batched_embeddings_ops_common import BoundsCheckMode, EmbeddingLocation, PoolingMode
    from fbgemm_gpu.split_table_batched_embeddings_ops_inference import IntNBitTableBatchedEmbeddingBagsCodegen

    case = data.case
    if case.mode == "max":
        raise ImportError("FBGEMM has no maximum")
    module = IntNBitTableBatchedEmbeddingBagsCodegen(
        [("", case.table_rows, case.dim, SparseType.FP32, EmbeddingLocation.DEVICE)],
        device="cuda",
        pooling_mode=PoolingMode.SUM if case.mode == "sum" else PoolingMode.MEAN,
        output_dtype=SparseType.FP32,
        bounds_check_mode=BoundsCheckMode.NONE,
    )
    module.initialize_weights()
    (rows, _) = module.split_embedding_weights()[0]
    # a row may be padded at its end
    rows.view(torch.uint8).view(case.table_rows, -1)[:, : case.dim * 4].copy_(data.table.view(torch.uint8))

    def work(ids: torch.Tensor, bounds: torch.Tensor, weights: torch.Tensor | None) -> object:
        with torch.no_grad():
            return module(indices=ids, offsets=bounds, per_sample_weights=weights)

    works = []
    for ids, offsets, weights in data.lists:
        bounds = torch.cat([offsets, offsets.new_tensor([ids.numel()])])
        works.append(partial(work, ids.int(), bounds.int(), weights))
    return works


PEERS: dict[str, Callable[[Data], list[Work]]] = {"dpiframe": ours, "torch": torch_bag, "fbgemm": fbgemm}
CASES = [
    *(Case(rows, dim, length) for rows in (64, 4096, 65536) for dim in (16, 64, 128) for length in (2, 20)),
    Case(64, 64, 2000),
    Case(1, 64, 100_000),
    Case(4096, 64, 20, "mean"),
    Case(4096, 64, 20, "max"),
    Case(4096, 64, 20, weighted=True),
]


def rows_of(case: Case) -> Iterator[dict[str, object]]:
    data = Data(case)
    expected = None
    for name, make in PEERS.items():
        try:
            works = make(data)
        except ImportError:
            continue
        answer = works[0]()
        if expected is None:
            ids, offsets, weights = data.lists[0]
            whole = torch.nn.functional.embedding_bag(
                ids, data.table.double(), offsets, mode=case.mode,
                per_sample_weights=None if weights is None else weights.double(),
            )  # fmt: skip
            expected = whole.float()
        # the longer a list, the more float32 sums in its order round
        torch.testing.assert_close(answer, expected, rtol=1e-4, atol=max(1e-3, 1e-7 * case.length))
        took = graph_us(works)
        yield {**vars(case), "peer": name, "us": round(took, 2), "gb_per_s": round(data.moved_bytes / took / 1e3)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    folder = parser.parse_args().results
    results = []
    note = about_gpu()
    # graphs can't be captured on the default stream
    with torch.cuda.stream(torch.cuda.Stream()):
        for case in CASES:
            for row in rows_of(case):
                results.append({**row, **note})
                print(*(f"{key}={value}" for key, value in row.items()), flush=True)
    write_table(folder / "bags_gpu.csv", results)


if __name__ == "__main__":
    main()
