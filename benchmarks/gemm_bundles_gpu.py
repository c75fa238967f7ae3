"""Products of the same rows on a GPU, as many nodes and as one; and a convolution of single places as a product.

    python benchmarks/gemm_bundles_gpu.py [--results FOLDER]

Device time in microseconds of all the products, with bias and ReLU, in float32: replays of captured graphs on the same
buffers. The convolution is a compressed interaction's, [batch, 676, 16] to [batch, 64, 16], by cuDNN through PyTorch
and by our kernel on rows of 676 values. Writes gemm_bundles_gpu.csv.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

sys.path.append(str(Path(__file__).resolve().parents[1]))

from benchmarks.gemm_gpu import EPILOGUES, Data, ours, program
from benchmarks.gpu_timing import Work, graph_us
from benchmarks.harness import RESULTS, about_gpu

BATCHES = (64, 256, 2048, 16384)
COPIES = 4  # of the work in a graph


@dataclass(frozen=True)
class Bundle:
    """Products of k values of a row, from each beginning on, with n columns each."""

    name: str
    row: int
    k: int
    n: int
    begins: Sequence[int]


BUNDLES = (
    Bundle("8 experts, first layer", 624, 624, 256, [0] * 8),
    Bundle("8 experts, second layer", 8 * 256, 256, 128, range(0, 8 * 256, 256)),
    Bundle("120 pairs of 16 fields", 16 * 16, 16, 16, [16 * i for i in range(16) for _ in range(i + 1, 16)]),
)


class Run:
    """A bundle's data for m rows."""

    def __init__(self, bundle: Bundle, m: int) -> None:
        from dpiframe.custom_ops._cuda_kernels import CudaGemm

        torch.manual_seed(m)
        n, k, count = bundle.n, bundle.k, len(bundle.begins)
        self.m = m
        self.weight = torch.randn(count * n, k, device="cuda") / k**0.5
        self.bias = torch.randn(count * n, device="cuda")
        self.a = torch.randn(m, bundle.row, device="cuda")
        self.y = torch.empty(m, count * n, device="cuda")
        self.weights, self.biases = self.weight.split(n), self.bias.split(n)
        self.parts = [self.a[:, begin : begin + k].contiguous() for begin in bundle.begins]
        self.results = [torch.empty(m, n, device="cuda") for _ in bundle.begins]
        lines = program(count * n, k, "fp32", EPILOGUES["relu"]).splitlines(keepends=True)
        if len(set(bundle.begins)) > 1:
            lines.insert(4, f"runs {bundle.row} {' '.join(map(str, bundle.begins))}\n")
        self.whole = CudaGemm("".join(lines), self.weight.data_ptr())
        text = program(n, k, "fp32", EPILOGUES["relu"])
        self.gemms = [CudaGemm(text, weight.data_ptr()) for weight in self.weights]

    def one_node(self) -> None:
        stream = torch.cuda.current_stream().cuda_stream
        self.whole.launch(self.m, self.a.data_ptr(), 0, [self.bias.data_ptr()], self.y.data_ptr(), stream, -1)

    def many_nodes(self) -> None:
        stream = torch.cuda.current_stream().cuda_stream
        for gemm, part, bias, y in zip(self.gemms, self.parts, self.biases, self.results, strict=True):
            gemm.launch(self.m, part.data_ptr(), 0, [bias.data_ptr()], y.data_ptr(), stream, -1)

    def library(self) -> None:
        for weight, part, bias, y in zip(self.weights, self.parts, self.biases, self.results, strict=True):
            torch.addmm(bias, part, weight.t(), out=y).relu_()


def bundles() -> Iterator[dict[str, object]]:
    for bundle in BUNDLES:
        for m in BATCHES:
            run = Run(bundle, m)
            for peer, work in (("ours, one node", run.one_node), ("ours, many nodes", run.many_nodes)):
                yield {"case": bundle.name, "m": m, "peer": peer, "us": graph_us([work] * COPIES)}
            torch.testing.assert_close(run.y, torch.cat(run.results, 1))
            for tf32 in (False, True):
                torch.backends.cuda.matmul.allow_tf32 = tf32
                peer = f"cublas {'tf32' if tf32 else 'fp32'}, many products"
                yield {"case": bundle.name, "m": m, "peer": peer, "us": graph_us([run.library] * COPIES)}


def convolution() -> Iterator[dict[str, object]]:
    n, k, dim = 64, 676, 16
    for batch in BATCHES[1:3]:
        data = Data(batch * dim, n, k, sets=1)
        x = torch.randn(batch, k, dim, device="cuda")
        case = {"case": "convolution of single places", "m": batch}

        def run(x: torch.Tensor = x, data: Data = data) -> torch.Tensor:
            return torch.nn.functional.conv1d(x, data.weight[:, :, None], data.bias).relu_()

        for tf32 in (False, True):
            torch.backends.cudnn.allow_tf32 = tf32
            works: list[Work] = [run] * COPIES
            yield case | {"peer": f"cudnn {'tf32' if tf32 else 'fp32'}", "us": graph_us(works)}
        for precision in ("fp32", "tf32"):
            yield case | {
                "peer": f"ours {precision}",
                "us": graph_us(ours(data, precision, EPILOGUES["relu"]) * COPIES),
            }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    arguments.results.mkdir(parents=True, exist_ok=True)
    common = about_gpu()
    table = arguments.results / "gemm_bundles_gpu.csv"
    with torch.cuda.stream(torch.cuda.Stream()), table.open("w", newline="") as file:
        writer = csv.DictWriter(file, ["case", "m", "peer", "us", *common])
        writer.writeheader()
        for study in (bundles, convolution):
            for row in study():
                row["us"] = f"{row['us']:.2f}"
                writer.writerow(row | common)
                print(f"{row['case']}, {row['m']}: {row['peer']} {row['us']}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
