"""The fused lookup on a GPU beside a copy, PyTorch, ONNX Runtime and FBGEMM, all in one run.

    python benchmarks/lookup_gpu.py [--only goals|sensitivity|bags] [--results FOLDER] [--plot]

Device time in microseconds, ids in device memory to joined embeddings in device memory. Every peer works on the same
tables and ids, and its answers are checked first. Buffers are rotated so that inputs and outputs don't stay in the L2
cache, except where `buffers` says "one". What isn't installed is left out. Writes lookup_gpu.csv and lookup_gpu.png;
--plot draws the latter again.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

sys.path.append(str(Path(__file__).resolve().parents[1]))

from benchmarks.gpu_timing import Work, copy_us, eager_us, graph_us, kernel_us
from benchmarks.harness import RESULTS, about_gpu

TOTAL_ROWS = 2_100_000
ROTATED_BYTES = 240 << 20  # several times the L2 cache


@dataclass(frozen=True)
class Case:
    study: str
    batch: int
    fields: int
    dim: int
    ids: str = "uniform"  # or zipf
    bag: str = "1"  # ids of a field: a number, or "2-50"
    pooling: str = ""  # sum or mean
    buffers: str = "rotated"  # or one: rows, ids and output stay in the L2 cache

    @property
    def length(self) -> int:
        return int(self.bag.rpartition("-")[2])


class Data:
    """Tables, and sets of ids to rotate: [batch, fields, length], with id 0 behind the end of a bag."""

    def __init__(self, case: Case) -> None:
        self.case = case
        rows = max(TOTAL_ROWS // case.fields, 2)
        self.rows = rows
        torch.manual_seed(0)
        self.tables = [torch.randn(rows, case.dim, device="cuda") for _ in range(case.fields)]
        # Bytes that must move: every looked-up row, every id, every output element.
        lookups = case.batch * case.fields * case.length
        self.output_bytes = case.batch * case.fields * case.dim * 4
        self.moved_bytes = lookups * (case.dim * 4 + 8) + self.output_bytes
        self.sets = max(2, min(48, -(-ROTATED_BYTES // (self.output_bytes + lookups * 8))))
        self.ids = [self._draw(rows) for _ in range(self.sets)] if case.buffers != "one" else [self._draw(rows)] * 16

    def _draw(self, rows: int) -> torch.Tensor:
        case = self.case
        shape = (case.batch, case.fields, case.length)
        if case.ids == "zipf":
            # Rank r with a probability of about r^-1.05; ranks lie anywhere in a table.
            weights = torch.arange(1, rows, device="cuda", dtype=torch.float64) ** -1.05
            ranks = torch.searchsorted(weights.cumsum(0) / weights.sum(), torch.rand(shape, device="cuda").double())
            ids = ranks.clamp_(max=rows - 2) * 7919 % (rows - 1) + 1
        else:
            ids = torch.randint(1, rows, shape, device="cuda")
        if "-" in case.bag:
            low = int(case.bag.partition("-")[0])
            lengths = torch.randint(low, case.length + 1, (case.batch, case.fields, 1), device="cuda")
            ids *= torch.arange(case.length, device="cuda") < lengths
        return ids

    def expected(self, ids: torch.Tensor) -> torch.Tensor:
        rows = [table[ids[:, i]] * (ids[:, i] != 0)[..., None] for i, table in enumerate(self.tables)]
        pooled = [r.double().sum(1) for r in rows]
        if self.case.pooling == "mean":
            pooled = [p / (ids[:, i] != 0).sum(1, keepdim=True) for i, p in enumerate(pooled)]
        return torch.cat(pooled, 1).float()

    def outputs(self) -> list[torch.Tensor]:
        shape = (self.case.batch, self.case.fields * self.case.dim)
        if self.case.buffers == "one":
            return [torch.empty(shape, device="cuda")] * len(self.ids)
        return [torch.empty(shape, device="cuda") for _ in self.ids]


def lookup_program(case: Case, rows: int, separate: bool) -> str:
    dim, length = case.dim, case.length
    lines = ["lookup 1", "rows 1", "bad error"]
    lines += ["source 1 row"] * case.fields if separate else [f"source {case.fields * length} row"]
    lines += [f"table {rows} {dim}"] * case.fields + [f"output {case.fields * dim}"]
    for field in range(case.fields):
        if not case.pooling:
            column = f"{field}:0" if separate else f"0:{field}"
            lines.append(f"row 0 {field * dim} {dim} {field} {column} 0")
            continue
        lines.append(f"pool 0 {field * dim} {dim} {case.pooling} {length} 0")
        for position in range(field * length, (field + 1) * length):
            weight = f"ne 0:{position} 0" if "-" in case.bag else "one"
            lines.append(f"term {field} 0:{position} 0 {weight}")
    return "\n".join(lines) + "\n"


def ours(data: Data, separate: bool = False) -> list[Work]:
    """The kernel: ids as one matrix or, `separate`, as an input for each field."""
    from dpiframe.custom_ops._cuda_kernels import CudaLookup

    case = data.case
    tables = [table.data_ptr() for table in data.tables]
    sources = case.fields if separate else 1
    lookup = CudaLookup(lookup_program(case, data.rows, separate), ["int64"] * sources, "float32", tables)
    columns = [1] * sources if separate else [case.fields * case.length]
    inputs = [[ids[:, i, 0].contiguous() for i in range(case.fields)] if separate else [ids] for ids in data.ids]

    def work(ids: list[torch.Tensor], output: torch.Tensor) -> torch.Tensor:
        stream = torch.cuda.current_stream().cuda_stream
        lookup.launch(case.batch, [i.data_ptr() for i in ids], columns, tables, [output.data_ptr()], stream)
        return output

    return [lambda i=i, o=o: work(i, o) for i, o in zip(inputs, data.outputs(), strict=True)]


def ours_separate(data: Data) -> list[Work]:
    return ours(data, separate=True)


def torch_embeddings(data: Data) -> list[Work]:
    """One nn.Embedding (or EmbeddingBag) a field and a cat. Each field's ids are contiguous: its best case."""
    case = data.case
    modules: list[torch.nn.Module] = []
    for table in data.tables:
        if case.pooling:
            padding = 0 if "-" in case.bag else None
            bag = torch.nn.EmbeddingBag.from_pretrained(table, mode=case.pooling, padding_idx=padding)
            modules.append(bag)
        else:
            modules.append(torch.nn.Embedding.from_pretrained(table))
    columns = [[ids[:, i].contiguous() if case.pooling else ids[:, i, 0].contiguous() for i in range(case.fields)]
               for ids in data.ids]  # fmt: skip

    def work(parts: list[torch.Tensor]) -> torch.Tensor:
        with torch.inference_mode():
            return torch.cat([module(part) for module, part in zip(modules, parts, strict=True)], 1)

    return [lambda parts=parts: work(parts) for parts in columns]


def torch_one_table(data: Data) -> list[Work]:
    """All tables merged into one by hand, ids shifted beforehand: possible where all fields have one dim."""
    table = torch.cat(data.tables)
    shift = torch.arange(data.case.fields, device="cuda")[None] * data.rows
    shifted = [ids[:, :, 0] + shift for ids in data.ids]

    def work(ids: torch.Tensor) -> torch.Tensor:
        with torch.inference_mode():
            return torch.nn.functional.embedding(ids, table).flatten(1)

    return [lambda ids=ids: work(ids) for ids in shifted]


def fbgemm(data: Data, checked: bool = False) -> list[Work]:
    """FBGEMM's inference embedding, which TorchRec runs on: FP32 rows, 32-bit ids, which it may check."""
    from fbgemm_gpu.split_embedding_configs import SparseType
    from fbgemm_gpu.split_table_batched_embeddings_ops_common import BoundsCheckMode, EmbeddingLocation, PoolingMode
    from fbgemm_gpu.split_table_batched_embeddings_ops_inference import IntNBitTableBatchedEmbeddingBagsCodegen

    case = data.case
    module = IntNBitTableBatchedEmbeddingBagsCodegen(
        [("", data.rows, case.dim, SparseType.FP32, EmbeddingLocation.DEVICE)] * case.fields,
        device="cuda",
        pooling_mode=PoolingMode.MEAN if case.pooling == "mean" else PoolingMode.SUM,
        output_dtype=SparseType.FP32,
        bounds_check_mode=BoundsCheckMode.WARNING if checked else BoundsCheckMode.NONE,
    )
    module.initialize_weights()
    for (weights, _), table in zip(module.split_embedding_weights(), data.tables, strict=True):
        # A row of the module may be padded at its end.
        weights.view(torch.uint8).view(data.rows, -1)[:, : case.dim * 4].copy_(table.view(torch.uint8))
    inputs = []
    for ids in data.ids:
        by_table = ids.transpose(0, 1).reshape(case.fields * case.batch, case.length)
        valid = by_table != 0
        offsets = torch.nn.functional.pad(valid.sum(1).cumsum(0), (1, 0)).int()
        inputs.append((by_table[valid].int(), offsets))

    def work(indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        with torch.inference_mode():
            return module(indices=indices, offsets=offsets)

    return [lambda pair=pair: work(*pair) for pair in inputs]


def fbgemm_checked(data: Data) -> list[Work]:
    return fbgemm(data, checked=True)


def onnxruntime_front_end(data: Data) -> list[Work]:
    """What exporters write: a column pick and a Gather a field, and a Concat, by ONNX Runtime's own CUDA kernels."""
    import numpy as np
    import onnxruntime as ort
    from onnx import TensorProto, helper, numpy_helper

    case = data.case
    nodes, initializers = [], []
    for i, table in enumerate(data.tables):
        initializers += [
            numpy_helper.from_array(table.cpu().numpy(), f"t{i}"),
            numpy_helper.from_array(np.array(i), f"c{i}"),
        ]
        nodes += [
            helper.make_node("Gather", ["ids", f"c{i}"], [f"i{i}"], axis=1),
            helper.make_node("Gather", [f"t{i}", f"i{i}"], [f"e{i}"]),
        ]
    nodes.append(helper.make_node("Concat", [f"e{i}" for i in range(case.fields)], ["y"], axis=1))
    width = case.fields * case.dim
    inputs = [helper.make_tensor_value_info("ids", TensorProto.INT64, [case.batch, case.fields])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [case.batch, width])]
    graph = helper.make_graph(nodes, "front_end", inputs, outputs, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    stream = str(torch.cuda.current_stream().cuda_stream)
    provider = ("CUDAExecutionProvider", {"user_compute_stream": stream} if stream != "0" else {})
    session = ort.InferenceSession(model.SerializeToString(), providers=[provider])
    works = []
    for ids, output in zip(data.ids, data.outputs(), strict=True):
        binding = session.io_binding()
        flat = ids[:, :, 0].contiguous()
        binding.bind_input("ids", "cuda", 0, np.int64, list(flat.shape), flat.data_ptr())
        binding.bind_output("y", "cuda", 0, np.float32, list(output.shape), output.data_ptr())

        def work(binding: ort.IOBinding = binding, output: torch.Tensor = output, keep: object = flat) -> torch.Tensor:
            session.run_with_iobinding(binding)
            return output

        works.append(work)
    return works


Timer = Callable[[list[Work]], float]
# Peer: how its works are made, how they are timed, and whether it also pools.
PEERS: dict[str, tuple[Callable[[Data], list[Work]], Timer, bool]] = {
    "dpiframe": (ours, graph_us, True),
    "dpiframe, an input a field": (ours_separate, graph_us, False),
    "pytorch graph": (torch_embeddings, graph_us, True),
    "pytorch eager": (torch_embeddings, eager_us, True),
    "pytorch one table": (torch_one_table, graph_us, False),
    "fbgemm": (fbgemm, graph_us, True),
    "fbgemm, ids checked": (fbgemm_checked, graph_us, True),
    "onnxruntime kernels": (onnxruntime_front_end, kernel_us, False),
    "onnxruntime": (onnxruntime_front_end, eager_us, False),
}


def cases(only: str) -> Iterator[Case]:
    if only in ("", "goals"):
        for batch, dim in ((2048, 16), (2048, 32), (65536, 16), (65536, 32)):
            yield Case("goals", batch, 39, dim)
        for dim in (16, 32):
            yield Case("goals", 2048, 39, dim, buffers="one")
    if only in ("", "bags"):
        for pooling in ("sum", "mean"):
            for bag in ("2", "10", "50", "2-50"):
                for batch, fields, dim in ((2048, 10, 32), (2048, 10, 64), (16384, 10, 64)):
                    yield Case("bags", batch, fields, dim, bag=bag, pooling=pooling)
    if only in ("", "sensitivity"):
        for ids in ("uniform", "zipf"):
            for dim in (4, 8, 16, 32, 64, 128):
                yield Case("dims", 2048, 39, dim, ids)
            for batch in (64, 256, 1024, 4096, 16384, 65536):
                yield Case("batches", batch, 39, 16, ids)
            for fields in (8, 16, 32, 64, 128, 256, 512):
                yield Case("fields", 2048, fields, 16, ids)


def measure(case: Case) -> Iterator[tuple[str, float, int]]:
    """Peer, microseconds and moved bytes."""
    data = Data(case)
    expected = data.expected(data.ids[0])
    copies = 1 if case.buffers == "one" else max(2, min(48, ROTATED_BYTES // data.moved_bytes))
    yield "copy", copy_us(data.moved_bytes, copies), data.moved_bytes
    for peer, (make, timer, pools) in PEERS.items():
        if case.pooling and not pools:
            continue
        if peer.startswith("onnxruntime") and case.study != "goals":
            continue
        try:
            works = make(data)
            torch.testing.assert_close(works[0](), expected, rtol=1e-5, atol=1e-5)
            us = timer(works)
        except ImportError:
            continue
        except Exception as error:  # one peer's trouble should not cost the others' numbers
            print(f"{peer}: {type(error).__name__}: {str(error).splitlines()[0]}", file=sys.stderr)
            continue
        yield peer, us, data.moved_bytes


def plot(rows: Sequence[Mapping[str, object]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 3, figsize=(15, 4.5), layout="constrained")
    axis_of = {"dims": "dim", "batches": "batch", "fields": "fields"}
    for axis, (study, key) in zip(axes, axis_of.items(), strict=True):
        own = [row for row in rows if row["study"] == study and "," not in str(row["peer"])]
        for peer in dict.fromkeys(str(row["peer"]) for row in own):
            for ids, style in (("uniform", "-"), ("zipf", ":")):
                points = [row for row in own if row["peer"] == peer and row["ids"] == ids]
                label = peer if ids == "uniform" else None
                color = f"C{list(dict.fromkeys(str(row['peer']) for row in own)).index(peer)}"
                values = [[float(str(row[name])) for row in points] for name in (key, "us")]
                axis.loglog(*values, style, color=color, marker="o", ms=3, label=label, base=2)
        axis.set(xlabel=key, ylabel="device time, µs", title=study, yscale="log")
        axis.grid(alpha=0.3)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right upper")
    figure.suptitle(
        f"Fused lookup, {rows[0]['card']}; solid: uniform ids, dotted: Zipf; 2.1M rows, else 2048 x 39 x 16"
    )
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("goals", "sensitivity", "bags"), default="")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--plot", action="store_true", help="only draw what lookup_gpu.csv holds")
    arguments = parser.parse_args()
    table = arguments.results / "lookup_gpu.csv"
    if arguments.plot:
        with table.open(newline="") as file:
            plot(list(csv.DictReader(file)), table.with_suffix(".png"))
        return
    common = about_gpu()
    rows: list[dict[str, object]] = []
    arguments.results.mkdir(parents=True, exist_ok=True)
    with torch.cuda.stream(torch.cuda.Stream()), table.open("w", newline="") as file:
        writer = None
        for case in cases(arguments.only):
            times: dict[str, float] = {}
            for peer, us, moved in measure(case):
                times[peer] = us
                row = {**vars(case), "peer": peer, "us": f"{us:.2f}", "gb_per_s": f"{moved / us / 1000:.0f}", **common}
                if writer is None:
                    writer = csv.DictWriter(file, list(row))
                    writer.writeheader()
                writer.writerow(row)
                rows.append(row)
            file.flush()
            name = " ".join(str(value) for value in vars(case).values())
            print(f"{name}: " + ", ".join(f"{peer} {us:.2f}" for peer, us in times.items()), flush=True)
    if not arguments.only or arguments.only == "sensitivity":
        plot(rows, table.with_suffix(".png"))


if __name__ == "__main__":
    main()
