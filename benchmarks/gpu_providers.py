"""What runs a whole model on a GPU: PyTorch in its modes, ONNX Runtime, FBGEMM's lookups, and ours.

A provider is set up by a function of a GpuModel and gives a call of no arguments. All have the same weights and the
same ids, which lie on the device, and leave their answers there. None uses TF32 unless its precision says so.
"""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import torch
from torch import Tensor

from benchmarks.configurations import Configuration
from benchmarks.harness import python_command, session_options
from benchmarks.model_rows import OURS
from dpiframe.export import export_model
from dpiframe.graph_passes.canonicalize import Canonicalize
from dpiframe.graph_passes.cleanup import Cleanup
from dpiframe.graph_passes.elementwise.fuse import FuseElementwise
from dpiframe.graph_passes.gemm.fuse import FuseGemm
from dpiframe.graph_passes.lookups.fuse import FuseLookups
from dpiframe.graph_passes.model_io import load, save
from dpiframe.graph_passes.pass_base import Pass
from dpiframe.graph_passes.pipeline import PASSES, optimize_model
from dpiframe.graph_passes.streams.assign import AssignStreams
from dpiframe.models.deepfm import pairwise_products

Call = Callable[[], Tensor]
FEW_ROWS = 8
TRIAL_SECONDS = 60
CAPTURED = "captured"


class GpuModel:
    """A configuration's module, file and ids. exact: PyTorch's answers in float64, [batch, 1]."""

    def __init__(self, configuration: Configuration, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "model.onnx"
        self.module = configuration.module("cuda")
        export_whole(configuration, self.module, self.file)
        self.ids = configuration.ids().cuda()
        with torch.no_grad():
            self.exact = copy.deepcopy(self.module).double()(self.ids).cpu().numpy()
        torch.cuda.empty_cache()

    def optimized(self, precision: str, passes: tuple[type[Pass], ...] = PASSES) -> Path:
        path = self.folder / f"{precision}.{'.'.join(one.name for one in passes)}.onnx"
        if not path.exists():
            save(optimize_model(load(self.file), provider="cuda", precision=precision, passes=passes).model, path)
        return path


def export_whole(configuration: Configuration, module: torch.nn.Module, file: Path) -> None:
    """Exports the module with its tables cut short, then names the whole ones: they are most of the bytes, and written
    once, to `model.data` beside the file."""
    cut = configuration.module(most_rows=FEW_ROWS)
    weights = module.state_dict()
    cut.load_state_dict({name: weights[name][: len(few)].cpu() for name, few in cut.state_dict().items()})
    schema = configuration.schema(FEW_ROWS)
    example = [torch.from_numpy(schema.random_batch(FEW_ROWS)[0])]
    export_model(cut, example, file, exporter="torchscript", input_names=schema.input_names)
    onnx_model = onnx.load(file)
    left = {name: value for name, value in weights.items() if ".tables." in name}
    with file.with_name("model.data").open("wb") as data:
        for tensor in onnx_model.graph.initializer:
            name = next((name for name in left if tensor.name.endswith(name)), None)
            if name is None:
                continue
            table = left.pop(name)
            offset = data.tell()
            table.cpu().numpy().tofile(data)
            tensor.dims[:] = table.shape
            onnx.external_data_helper.set_external_data(tensor, "model.data", offset, data.tell() - offset)
            tensor.ClearField("raw_data")
    if left:
        raise RuntimeError(f"the exported file lacks the tables {', '.join(left)}")
    save(onnx_model, file)


def eager(model: GpuModel) -> Call:
    def call() -> Tensor:
        with torch.no_grad():
            return model.module(model.ids)

    return call


def compiled(model: GpuModel, mode: str) -> Call:
    module = torch.compile(model.module, mode=mode)

    def call() -> Tensor:
        with torch.no_grad():
            return module(model.ids)

    return call


def fbgemm(model: GpuModel) -> Call:
    """PyTorch with all lookups by FBGEMM's inference embedding, which TorchRec runs on: one kernel, ids unchecked.

    Its ids come the way it takes them, 32 bits and field by field, as a caller who knows of it would have them; and the
    layers read its output as it is. Weights of dim 1 are padded to the four floats that it reads at once.
    """
    from fbgemm_gpu.split_embedding_configs import SparseType
    from fbgemm_gpu.split_table_batched_embeddings_ops_common import BoundsCheckMode, EmbeddingLocation, PoolingMode
    from fbgemm_gpu.split_table_batched_embeddings_ops_inference import IntNBitTableBatchedEmbeddingBagsCodegen

    module = model.module
    linear = getattr(module, "linear", getattr(module, "wide", None))
    tables = [table.weight for table in module.embedding.tables.values()]
    width = sum(table.shape[1] for table in tables)
    if linear is not None:
        tables += [torch.nn.functional.pad(table.weight, (0, 3)) for table in linear.weights.tables.values()]
    lookup = IntNBitTableBatchedEmbeddingBagsCodegen(
        [("", *table.shape, SparseType.FP32, EmbeddingLocation.DEVICE) for table in tables],
        device="cuda",
        pooling_mode=PoolingMode.SUM,
        output_dtype=SparseType.FP32,
        bounds_check_mode=BoundsCheckMode.NONE,
    )
    lookup.initialize_weights()
    for (weights, _), table in zip(lookup.split_embedding_weights(), tables, strict=True):
        # A row of the module may be padded at its end.
        row_bytes = table.shape[1] * 4
        rows = weights.view(torch.uint8).view(len(table), -1)
        rows[:, :row_bytes].copy_(table.detach().contiguous().view(torch.uint8))
    batch, fields = model.ids.shape
    indices = model.ids.t().repeat(len(tables) // fields, 1).flatten().int()
    offsets = torch.arange(len(indices) + 1, dtype=torch.int32, device="cuda")

    def logits() -> Tensor:
        rows = lookup(indices=indices, offsets=offsets)
        joined = rows[:, :width]
        if linear is None:
            crossed = joined
            for layer in module.cross:
                crossed = layer(joined, crossed)
            return module.head(torch.cat([crossed, module.deep(joined)], dim=1))
        first_order = rows[:, width:].sum(1, keepdim=True) + linear.bias
        if hasattr(module, "wide"):
            return first_order + module.deep(joined)
        return first_order + pairwise_products(joined.view(batch, fields, -1)) + module.deep(joined)

    def call() -> Tensor:
        with torch.no_grad():
            return torch.sigmoid(logits())

    return call


def captured(set_up: Callable[[GpuModel], Call], model: GpuModel, *, tf32: bool = False) -> Call:
    """The same work as a CUDA graph, which keeps nothing alive: what it reads is the work's."""
    work = set_up(model)
    torch.backends.cuda.matmul.allow_tf32 = tf32
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = work()
    torch.backends.cuda.matmul.allow_tf32 = False

    def call(_keep: Call = work) -> Tensor:
        graph.replay()
        return result

    return call


def stock(model: GpuModel) -> Call:
    return _session(model, model.file, graph=False)


def stock_graph(model: GpuModel) -> Call:
    """What refuses a capture leaves its stream capturing, and nothing else of its process ever finishes: so the first
    attempt is another process's.

    Raises:
        RuntimeError: ONNX Runtime's refusal.
    """
    command = python_command(__name__, str(model.file), *map(str, model.ids.shape))
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TRIAL_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"the capture hangs: no answer in {TRIAL_SECONDS} s") from None
    words = done.stdout.strip().splitlines() or done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
    if words[-1] != CAPTURED:
        raise RuntimeError(words[-1])
    return _session(model, model.file, graph=True)


def ours(model: GpuModel, precision: str, passes: tuple[type[Pass], ...] = PASSES, *, graph: bool) -> Call:
    return _session(model, model.optimized(precision, passes), graph=graph)


def _session(model: GpuModel, path: Path, *, graph: bool) -> Call:
    return session_call(path, model.ids, graph=graph)


def session_call(path: Path, ids: Tensor, *, graph: bool) -> Call:
    """A session whose one input is `ids`, [batch, fields], and whose output is [batch, 1], both on the device."""
    cuda = ("CUDAExecutionProvider", {"use_tf32": "0", "enable_cuda_graph": str(int(graph))})
    session = ort.InferenceSession(path, session_options(threads=1), providers=[cuda])
    output = torch.empty((len(ids), 1), device="cuda")
    binding = session.io_binding()
    (given,) = session.get_inputs()
    (taken,) = session.get_outputs()
    binding.bind_input(given.name, "cuda", 0, np.int64, list(ids.shape), ids.data_ptr())
    binding.bind_output(taken.name, "cuda", 0, np.float32, list(output.shape), output.data_ptr())

    def call(_keep: Tensor = ids) -> Tensor:
        session.run_with_iobinding(binding)
        return output

    return call


Providers = dict[tuple[str, str], Callable[[GpuModel], Call]]
"""By name and precision."""

EAGER: Providers = {("PyTorch eager", "fp32"): eager}
STOCK: Providers = {("ONNX Runtime", "fp32"): stock}
TORCH_GRAPH: Providers = {("PyTorch CUDA graph", "fp32"): partial(captured, eager)}
OUR_SESSION: Providers = {(OURS, "fp32"): partial(ours, precision="fp32", graph=False)}
OUR_GRAPH: Providers = {(f"{OURS}, CUDA graph", "fp32"): partial(ours, precision="fp32", graph=True)}
PEERS: Providers = {
    **EAGER,
    **TORCH_GRAPH,
    ("PyTorch CUDA graph", "tf32"): partial(captured, eager, tf32=True),
    ("FBGEMM lookups eager", "fp32"): fbgemm,
    ("FBGEMM lookups CUDA graph", "fp32"): partial(captured, fbgemm),
    **STOCK,
    ("ONNX Runtime, CUDA graph", "fp32"): stock_graph,
}
COMPILED: Providers = {
    ("torch.compile, CUDA graph", "fp32"): partial(captured, partial(compiled, mode="default")),
}
"""What reduce-overhead does, without the checks that it makes in each call: they can take longer than the graph."""
REDUCE_OVERHEAD: Providers = {("torch.compile reduce-overhead", "fp32"): partial(compiled, mode="reduce-overhead")}
MAX_AUTOTUNE: Providers = {("torch.compile max-autotune", "fp32"): partial(compiled, mode="max-autotune")}
MAX_AUTOTUNE_GRAPH: Providers = {
    ("torch.compile max-autotune, CUDA graph", "fp32"): partial(
        captured, partial(compiled, mode="max-autotune-no-cudagraphs")
    ),
}
ALL_OURS: Providers = {
    (f"{OURS}{', CUDA graph' * graph}", precision): partial(ours, precision=precision, graph=graph)
    for precision in ("fp32", "tf32", "fp16")
    for graph in (False, True)
}
COMPONENTS: dict[str, tuple[type[Pass], ...]] = {
    "lookups": (Canonicalize, FuseLookups, Cleanup),
    "+ elementwise": (Canonicalize, FuseLookups, FuseElementwise, Cleanup),
    "+ GEMM": (Canonicalize, FuseLookups, FuseGemm, FuseElementwise, Cleanup),
    "+ streams": (Canonicalize, FuseLookups, FuseGemm, FuseElementwise, AssignStreams, Cleanup),
}
"""Component by component, as in the paper's Fig. 8."""
ABLATION: Providers = {
    **EAGER,
    **STOCK,
    **{
        (f"{OURS}: {what}{', CUDA graph' * graph}", "fp32"): partial(ours, precision="fp32", passes=passes, graph=graph)
        for what, passes in COMPONENTS.items()
        for graph in (False, True)
    },
}


def main() -> None:
    """Prints CAPTURED or what ONNX Runtime says of a file and a batch and fields, and leaves without a clean-up that
    could wait for the stream."""
    path, shape = Path(sys.argv[1]), (int(sys.argv[2]), int(sys.argv[3]))
    try:
        call = session_call(path, torch.zeros(shape, dtype=torch.int64, device="cuda"), graph=True)
        for _ in range(3):
            call()
        print(CAPTURED, flush=True)
    except Exception as error:
        print(" ".join(str(error).split()), flush=True)
    os._exit(0)
