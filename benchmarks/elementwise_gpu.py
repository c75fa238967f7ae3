"""Fused elementwise nodes on a GPU beside torch.compile, PyTorch's and ONNX Runtime's own kernels, all in one run.

    python benchmarks/elementwise_gpu.py [--only CASE ...] [--batches N ...] [--results FOLDER] [--plot]

Device time in microseconds: the median replay of a CUDA graph that holds the same work many times over, divided by
that number. Inputs stay in the L2 cache, where a model's previous kernel leaves them. Every peer's answers are checked
first. What isn't installed or doesn't run is left out, and said. Writes elementwise_gpu.csv and elementwise_gpu.png;
--plot draws the latter again.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch
from elementwise_cases import CASES, Case
from gpu_timing import Work, graph_us

REPEATS = 20
BATCHES = (64, 2048, 16384)
Inputs = list[torch.Tensor]


def ours(case: Case, inputs: Inputs, expected: torch.Tensor) -> Work:
    from dpiframe.custom_ops._cuda_kernels import CudaElementwise

    kernel = CudaElementwise(case.program)
    if not kernel.is_compiled:
        raise RuntimeError("the program was not compiled")
    output = torch.empty_like(expected)
    addresses = [value.data_ptr() for value in inputs]

    def work() -> torch.Tensor:
        stream = torch.cuda.current_stream().cuda_stream
        kernel.launch([len(inputs[0])], addresses, [output.data_ptr()], stream)
        return output

    return work


def eager(case: Case, inputs: Inputs, expected: torch.Tensor) -> Work:
    return lambda: case.torch_function(*inputs)


def compiled(case: Case, inputs: Inputs, expected: torch.Tensor) -> Work:
    torch.compiler.reset()
    function = torch.compile(case.torch_function, dynamic=False)
    return lambda: function(*inputs)


def onnxruntime_nodes(case: Case, inputs: Inputs, expected: torch.Tensor) -> Work:
    """The standard nodes, by ONNX Runtime's CUDA kernels, on PyTorch's stream and so in its graph."""
    import numpy as np
    import onnxruntime as ort

    stream = torch.cuda.current_stream().cuda_stream
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    model = case.onnx_model(len(inputs[0]))
    provider = ("CUDAExecutionProvider", {"user_compute_stream": str(stream), "use_tf32": "0"})
    session = ort.InferenceSession(model.SerializeToString(), options, providers=[provider])
    output = torch.empty_like(expected)
    binding = session.io_binding()
    for i, value in enumerate(inputs):
        dtype = np.bool_ if value.dtype == torch.bool else np.float32
        binding.bind_input(f"x{i}", "cuda", 0, dtype, list(value.shape), value.data_ptr())
    binding.bind_output("y", "cuda", 0, np.float32, list(output.shape), output.data_ptr())
    run_options = ort.RunOptions()
    run_options.add_run_config_entry("disable_synchronize_execution_providers", "1")

    def work() -> torch.Tensor:
        session.run_with_iobinding(binding, run_options)
        return output

    return work


PEERS: dict[str, Callable[[Case, Inputs, torch.Tensor], Work]] = {
    "dpiframe": ours,
    "torch.compile": compiled,
    "pytorch": eager,
    "onnxruntime": onnxruntime_nodes,
}


def measure(case: Case, batch: int, peers: Sequence[str]) -> dict[str, float]:
    torch.manual_seed(0)
    inputs = case.inputs(batch)
    expected = case.torch_function(
        *(value.double() if value.is_floating_point() else value for value in inputs)
    ).float()
    times = {}
    for peer in peers:
        try:
            work = PEERS[peer](case, inputs, expected)
            for _ in range(3):
                result = work()
            torch.cuda.synchronize()
            torch.testing.assert_close(result, expected, rtol=2e-5, atol=2e-5)
            times[peer] = graph_us([work] * REPEATS)
        except Exception as error:  # one peer's trouble should not cost the others' numbers
            print(f"{peer}: {type(error).__name__}: {str(error)[:300]}", file=sys.stderr)
            torch.cuda.synchronize()
    return times


def versions() -> str:
    found = [f"torch {torch.__version__}", f"cuda {torch.version.cuda}"]
    for name in ("triton", "onnxruntime"):
        try:
            found.append(f"{name} {__import__(name).__version__}")
        except ImportError:
            continue
    return "; ".join(found)


def plot(rows: Sequence[Mapping[str, object]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot, ticker

    batches = sorted({int(str(row["batch"])) for row in rows})
    names = list(dict.fromkeys(str(row["case"]) for row in rows))
    peers = list(dict.fromkeys(str(row["peer"]) for row in rows))
    size = (4 + 5 * len(batches), 5)
    figure, axes = pyplot.subplots(1, len(batches), figsize=size, layout="constrained", squeeze=False)
    for axis, batch in zip(axes[0], batches, strict=True):
        for place, peer in enumerate(peers):
            own = {str(row["case"]): float(str(row["us"])) for row in rows if _is(row, batch, peer)}
            places = [
                i + (place - len(peers) / 2 + 0.5) * 0.8 / len(peers) for i, name in enumerate(names) if name in own
            ]
            axis.bar(places, [own[name] for name in names if name in own], 0.8 / len(peers), label=peer)
        axis.set(ylabel="device time, µs", title=f"batch {batch}", yscale="log")
        axis.yaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
        axis.yaxis.set_major_formatter(ticker.FormatStrFormatter("%g"))
        axis.yaxis.set_minor_locator(ticker.NullLocator())
        axis.set_ylim(bottom=1)
        axis.set_xticks(range(len(names)), names, rotation=40, ha="right")
        axis.grid(alpha=0.3, axis="y")
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="outside right upper")
    figure.suptitle(
        f"Fused elementwise nodes, {rows[0]['card']}, {rows[0]['date']}\n{rows[0]['versions']}", fontsize=10
    )
    figure.savefig(path, dpi=110)


def _is(row: Mapping[str, object], batch: int, peer: str) -> bool:
    return int(str(row["batch"])) == batch and row["peer"] == peer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=[case.name for case in CASES], default=[])
    parser.add_argument("--peers", nargs="*", choices=list(PEERS), default=list(PEERS))
    parser.add_argument("--batches", nargs="*", type=int, default=BATCHES)
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--plot", action="store_true", help="only draw what elementwise_gpu.csv holds")
    arguments = parser.parse_args()
    table = arguments.results / "elementwise_gpu.csv"
    if arguments.plot:
        with table.open(newline="") as file:
            plot(list(csv.DictReader(file)), table.with_suffix(".png"))
        return
    rows: list[dict[str, object]] = []
    about = {
        "card": torch.cuda.get_device_name(),
        "versions": versions(),
        "date": datetime.date.today().isoformat(),
    }
    # ONNX Runtime's default stream can't be captured; all share one of their own.
    with torch.cuda.stream(torch.cuda.Stream()), torch.inference_mode():
        for case in CASES:
            if arguments.only and case.name not in arguments.only:
                continue
            for batch in arguments.batches:
                times = measure(case, batch, arguments.peers)
                for peer, us in times.items():
                    rows.append({"case": case.name, "batch": batch, "peer": peer, "us": f"{us:.2f}", **about})
                text = ", ".join(f"{peer} {us:.2f}" for peer, us in times.items())
                print(f"{case.name} {batch}: {text}", flush=True)
    arguments.results.mkdir(parents=True, exist_ok=True)
    with table.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    plot(rows, table.with_suffix(".png"))


if __name__ == "__main__":
    main()
