"""FusedGemm on a GPU beside cuBLAS in float32 and TF32, through PyTorch, all in one run.

    python benchmarks/gemm_gpu.py [--only products|layers|kernels] [--results FOLDER] [--plot]

Device time in microseconds, replays of captured graphs. `products`: every size with bias and ReLU, and with a cross
layer's epilogue, x0 * (x W + b) + x; the library's epilogues are kernels of their own, as they are in PyTorch and ONNX
Runtime, and `cublas ... alone` is the product without. Errors are against float64: the largest, by the sum of the
terms' absolute values, of the product alone. `layers`: three layers 624-256-256-256 one after the other. `kernels`:
the product alone by each of our kernels. Inputs and outputs are rotated so that they don't stay in the L2 cache,
except in `layers`. Writes gemm_gpu.csv and gemm_gpu.png; --plot draws the latter again.
"""

from __future__ import annotations

import argparse
import csv
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import torch

sys.path.append(str(Path(__file__).resolve().parents[1]))

from benchmarks.gpu_timing import Work, graph_us
from benchmarks.harness import RESULTS, about_gpu

BATCHES = (1, 64, 256, 2048, 16384)
WEIGHTS = ((256, 624), (256, 256), (624, 624), (1024, 1248), (1024, 1024), (1248, 1248), (1, 256))
PRECISIONS = ("fp32", "tf32", "fp16")
ROTATED_BYTES = 200 << 20
EPILOGUES = {"relu": ["add vector 2", "relu"], "cross": ["add vector 2", "mul matrix 3", "add matrix 4"]}


def program(n: int, k: int, precision: str, steps: Sequence[str]) -> str:
    lines = ["gemm 1", f"precision {precision}", "weight nk", f"size {k} {n}", *(f"step {step}" for step in steps)]
    return "\n".join(lines) + "\n"


class Data:
    """A weight, and sets of inputs and outputs to rotate."""

    def __init__(self, m: int, n: int, k: int, sets: int = 0) -> None:
        torch.manual_seed(m + n + k)
        self.m, self.n, self.k = m, n, k
        self.weight = torch.randn(n, k, device="cuda") / math.sqrt(k)
        self.bias = torch.randn(n, device="cuda")
        sets = sets or max(2, min(16, ROTATED_BYTES // (4 * m * (k + 3 * n))))
        self.a = [torch.randn(m, k, device="cuda") for _ in range(sets)]
        self.x0 = [torch.randn(m, n, device="cuda") for _ in range(sets)]
        self.x = [torch.randn(m, n, device="cuda") for _ in range(sets)]
        self.y = [torch.empty(m, n, device="cuda") for _ in range(sets)]


def ours(data: Data, precision: str, steps: Sequence[str], kernel: int = -1) -> list[Work]:
    from dpiframe.custom_ops._cuda_kernels import CudaGemm

    gemm = CudaGemm(program(data.n, data.k, precision, steps), data.weight.data_ptr())
    operands = 1 + max((int(step.split(" ")[2]) for step in steps if step.count(" ") == 2), default=1) - 2

    def work(i: int) -> torch.Tensor:
        addresses = [data.bias.data_ptr(), data.x0[i].data_ptr(), data.x[i].data_ptr()][:operands]
        stream = torch.cuda.current_stream().cuda_stream
        gemm.launch(data.m, data.a[i].data_ptr(), 0, addresses, data.y[i].data_ptr(), stream, kernel)
        return data.y[i]

    return [lambda i=i: work(i) for i in range(len(data.a))]


def library(data: Data, epilogue: str) -> list[Work]:
    def product(i: int) -> torch.Tensor:
        return torch.mm(data.a[i], data.weight.t(), out=data.y[i])

    def relu(i: int) -> torch.Tensor:
        return torch.addmm(data.bias, data.a[i], data.weight.t(), out=data.y[i]).relu_()

    def cross(i: int) -> torch.Tensor:
        y = torch.addmm(data.bias, data.a[i], data.weight.t(), out=data.y[i])
        return torch.addcmul(data.x[i], data.x0[i], y, out=y)

    run: Callable[[int], torch.Tensor] = {"": product, "relu": relu, "cross": cross}[epilogue]
    return [lambda i=i: run(i) for i in range(len(data.a))]


def repeated(works: list[Work]) -> list[Work]:
    """At least 16, so that a replay is long beside its start."""
    return works * -(-16 // len(works))


def error_of(works: list[Work], data: Data) -> float:
    y = works[0]()
    a, w = data.a[0].double(), data.weight.double()
    magnitude = a.abs() @ w.abs().t()
    return float(((y.double() - a @ w.t()).abs() / magnitude).max())


def peers(data: Data) -> Iterator[tuple[str, str, list[Work], list[Work]]]:
    """Name, epilogue, works, and works of the product alone."""
    for tf32 in (False, True):
        torch.backends.cuda.matmul.allow_tf32 = tf32
        name = "cublas tf32" if tf32 else "cublas fp32"
        for epilogue in ("", *EPILOGUES):
            yield name, epilogue, library(data, epilogue), library(data, "")
    for precision in PRECISIONS:
        for epilogue in ("", *EPILOGUES):
            works = ours(data, precision, EPILOGUES.get(epilogue, ()))
            yield f"ours {precision}", epilogue, works, ours(data, precision, ())


def products() -> Iterator[dict[str, object]]:
    for n, k in WEIGHTS:
        for m in BATCHES:
            data = Data(m, n, k)
            times = []
            for peer, epilogue, works, alone in peers(data):
                us = graph_us(repeated(works))
                error = error_of(alone, data) if not epilogue else math.nan
                row = {"study": "products", "m": m, "n": n, "k": k, "epilogue": epilogue or "alone", "peer": peer}
                yield row | {"us": f"{us:.2f}", "error": "" if epilogue else f"{error:.2e}"}
                times.append(f"{peer} {epilogue} {us:.1f}")
            print(f"{m} x {n} x {k}: {', '.join(times)}", flush=True)


def layers() -> Iterator[dict[str, object]]:
    widths = (624, 256, 256, 256)
    for m in (256, 2048, 16384):
        stack = [Data(m, n, k, sets=1) for k, n in pairwise(widths)]
        for before, after in pairwise(stack):
            after.a = before.y
        for tf32 in (False, True):
            torch.backends.cuda.matmul.allow_tf32 = tf32
            works = [library(data, "relu")[0] for data in stack]
            us = graph_us([lambda works=works: [work() for work in works]] * 20)
            peer = "cublas tf32" if tf32 else "cublas fp32"
            yield {"study": "layers", "m": m, "epilogue": "relu", "peer": peer, "us": f"{us:.2f}"}
            print(f"layers {m}: {peer} {us:.1f}", flush=True)
        for precision in PRECISIONS:
            works = [ours(data, precision, EPILOGUES["relu"])[0] for data in stack]
            us = graph_us([lambda works=works: [work() for work in works]] * 20)
            yield {"study": "layers", "m": m, "epilogue": "relu", "peer": f"ours {precision}", "us": f"{us:.2f}"}
            print(f"layers {m}: ours {precision} {us:.1f}", flush=True)


def kernels() -> Iterator[dict[str, object]]:
    from dpiframe.custom_ops._cuda_kernels import CudaGemm

    for n, k in WEIGHTS:
        for m in BATCHES:
            data = Data(m, n, k)
            for precision in PRECISIONS[:2]:
                gemm = CudaGemm(program(n, k, precision, ()), data.weight.data_ptr())
                found = {}
                for kernel, name in enumerate(gemm.kernel_names):
                    blocks_of_64 = -(-m // 64) * -(-n // 64)
                    if ("blocks" in name and blocks_of_64 > 500) or (name == "skinny" and m * n > 1 << 16):
                        continue
                    found[name] = graph_us(repeated(ours(data, precision, (), kernel)), replays=7)
                    row = {"study": "kernels", "m": m, "n": n, "k": k, "epilogue": "alone"}
                    yield row | {"peer": f"{precision} {name}", "us": f"{found[name]:.2f}"}
                chosen = gemm.kernel_names[gemm.kernel_for(m)]
                times = ", ".join(
                    f"{name} {us:.1f}" for name, us in sorted(found.items(), key=lambda item: item[1])[:5]
                )
                print(f"{m} x {n} x {k} {precision}: takes {chosen} ({found[chosen]:.1f}); {times}", flush=True)


STUDIES = {"products": products, "layers": layers, "kernels": kernels}
COLUMNS = ["study", "m", "n", "k", "epilogue", "peer", "us", "error", "card", "versions", "date"]


def plot(rows: Sequence[Mapping[str, str]], path: Path) -> None:
    """Our float32's time as a multiple of cuBLAS's in float32 and in TF32, a cell a size."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    own = [row for row in rows if row["study"] == "products" and row["epilogue"] in EPILOGUES]
    times = {(row["m"], row["n"], row["k"], row["epilogue"], row["peer"]): float(row["us"]) for row in own}
    figure, axes = pyplot.subplots(2, 2, figsize=(12, 9), layout="constrained")
    titles = {"relu": "bias and ReLU", "cross": "cross layer's epilogue"}
    for line, (epilogue, title) in zip(axes, titles.items(), strict=True):
        for axis, peer in zip(line, ("fp32", "tf32"), strict=True):
            sizes = [[(str(m), str(n), str(k), epilogue) for m in BATCHES] for n, k in WEIGHTS]
            ours = [[times[*size, "ours fp32"] for size in row] for row in sizes]
            theirs = [[times[*size, f"cublas {peer}"] for size in row] for row in sizes]
            ratios = [[math.log2(a / b) for a, b in zip(*pair, strict=True)] for pair in zip(ours, theirs, strict=True)]
            axis.imshow(ratios, cmap="RdYlGn_r", vmin=-2.5, vmax=2.5, aspect="auto")
            for y, row in enumerate(ratios):
                for x, ratio in enumerate(row):
                    text = f"{2**ratio:.2f}\n{ours[y][x]:.1f} µs"
                    axis.text(x, y, text, ha="center", va="center", fontsize=9)
            axis.set_xticks(range(len(BATCHES)), [f"M {m}" for m in BATCHES])
            axis.set_yticks(range(len(WEIGHTS)), [f"{n} x {k}" for n, k in WEIGHTS])
            axis.set_title(f"{title}: our fp32 / cuBLAS {peer}")
    figure.suptitle(f"Device time as a multiple of cuBLAS's (below 1: faster), N x K by M, {rows[0]['card']}")
    figure.savefig(path, dpi=100)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=tuple(STUDIES), default="")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--plot", action="store_true", help="only draw what gemm_gpu.csv holds")
    arguments = parser.parse_args()
    table = arguments.results / "gemm_gpu.csv"
    if not arguments.plot:
        common = about_gpu()
        arguments.results.mkdir(parents=True, exist_ok=True)
        with torch.cuda.stream(torch.cuda.Stream()), table.open("w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS)
            writer.writeheader()
            for study in [arguments.only] if arguments.only else STUDIES:
                for row in STUDIES[study]():
                    writer.writerow(row | common)
                    file.flush()
    with table.open(newline="") as file:
        rows = list(csv.DictReader(file))
    if any(row["study"] == "products" for row in rows):
        plot(rows, table.with_suffix(".png"))


if __name__ == "__main__":
    sys.exit(main())
