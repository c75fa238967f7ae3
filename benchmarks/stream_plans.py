"""The same model with its branches launched in different ways: what streams_gpu.py and timeline_gpu.py compare."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import torch

from benchmarks.configurations import schema_of
from benchmarks.harness import session_options
from dpiframe import models
from dpiframe.export import export_model
from dpiframe.graph_passes.pipeline import PASSES, optimize_model
from dpiframe.graph_passes.streams.assign import AssignStreams

MODELS = ("dcn", "dcnv2", "wide_deep", "deepfm", "mmoe")
HIDDEN = (256, 256, 256)
TABLE_BYTES = 4 << 20
"""From this size on a table lies in a file that all plans share."""
EXPLICIT = "cross"
"""In the names of the nodes of explicit modules."""
APART, ONE, DEPTH, BREADTH, AUTO = "nodes apart", "one stream", "depth-first", "breadth-first", "auto"
EXPLICIT_FIRST, IMPLICIT_FIRST = "explicit first", "implicit first"


class Subject:
    """A model with its weights, Criteo's 39 fields x dim 16, as a module on the GPU and as a file."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.folder = name, folder
        self.schema = schema_of("criteo", 16)
        torch.manual_seed(0)
        hyper = {} if name == "mmoe" else {"hidden": HIDDEN}
        module = models.create(name, self.schema, **hyper)
        self.file = folder / f"{name}.onnx"
        example = [torch.from_numpy(self.schema.random_batch(8)[0])]
        export_model(module, example, self.file, exporter="torchscript", input_names=self.schema.input_names)
        external: dict[str, Any] = {"save_as_external_data": True, "location": f"{name}.data"}
        onnx.save(onnx.load(self.file), self.file, **external, size_threshold=TABLE_BYTES)
        self.module = module.cuda().eval()

    def ids(self, batch: int) -> torch.Tensor:
        return torch.from_numpy(self.schema.random_batch(batch, seed=1)[0]).cuda()

    def plans(self) -> dict[str, Path]:
        """A file for each way that differs from the others for this model."""
        model = onnx.load(self.file, load_external_data=False)
        apart = tuple(kind for kind in PASSES if kind is not AssignStreams)
        found = {
            APART: optimize_model(model, provider="cuda", passes=apart).model,
            ONE: optimize_model(model, provider="cuda", streams=1).model,
            DEPTH: optimize_model(model, provider="cuda", streams=2, launch_order="depth").model,
            BREADTH: optimize_model(model, provider="cuda", streams=2).model,
            f"{BREADTH}, 4 streams": optimize_model(model, provider="cuda", streams=4).model,
            AUTO: optimize_model(model, provider="cuda").model,
        }
        if any(EXPLICIT in block[1] for block in _blocks(found[BREADTH])):
            found[EXPLICIT_FIRST] = reordered(found[BREADTH], explicit=True)
            found[IMPLICIT_FIRST] = reordered(found[BREADTH], explicit=False)
        files: dict[str, Path] = {}
        seen: list[bytes] = []
        for what, result in found.items():
            text = result.SerializeToString(deterministic=True)
            # `auto` is a name for one of the others
            if text in seen and what != AUTO:
                continue
            seen.append(text)
            files[what] = self.folder / f"{self.name}.{what.replace(' ', '_')}.onnx"
            files[what].write_bytes(text)
        return files


def _region(model: onnx.ModelProto) -> onnx.NodeProto | None:
    return next((node for node in model.graph.node if node.op_type.startswith("ParallelRegion")), None)


def _blocks(model: onnx.ModelProto) -> list[list[str]]:
    """The lines of each node of a region's program."""
    region = _region(model)
    blocks: list[list[str]] = []
    for line in region.attribute[0].s.decode().splitlines() if region is not None else ():
        if line.startswith("node "):
            blocks.append([])
        if blocks and not line.startswith("output "):
            blocks[-1].append(line)
    return blocks


def reordered(model: onnx.ModelProto, *, explicit: bool) -> onnx.ModelProto:
    """A two-stream region whose rounds begin with the explicit module's stream, or with the other one."""
    blocks = _blocks(model)
    explicit_stream = next(stream_of(block) for block in blocks if EXPLICIT in block[1])
    first = explicit_stream if explicit else 1 - explicit_stream
    queues = {stream: [block for block in blocks if stream_of(block) == stream] for stream in (first, 1 - first)}
    made: set[str] = {str(value) for value in range(int(_head(model)[1].split()[1]))}
    order: list[list[str]] = []
    while any(queues.values()):
        ready = [queue for queue in queues.values() if queue and made.issuperset(_operands(queue[0]))]
        for queue in ready:
            made.update(queue[0][0].split(" : ")[2].split())
            order.append(queue.pop(0))
    result = onnx.ModelProto()
    result.CopyFrom(model)
    region = _region(result)
    assert region is not None
    outputs = [line for line in region.attribute[0].s.decode().splitlines() if line.startswith("output ")]
    lines = [*_head(model), *(line for block in order for line in block), *outputs]
    region.attribute[0].s = ("\n".join(lines) + "\n").encode()
    return result


def _head(model: onnx.ModelProto) -> list[str]:
    region = _region(model)
    assert region is not None
    return region.attribute[0].s.decode().splitlines()[:3]


def stream_of(block: list[str]) -> int:
    return int(block[0].split()[2])


def _operands(block: list[str]) -> list[str]:
    return block[0].split(" : ")[1].split()


@contextmanager
def environment(values: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def session_of(path: Path, *, own_graphs: bool = True, ort_graphs: bool = False) -> ort.InferenceSession:
    cuda = ("CUDAExecutionProvider", {"use_tf32": "0", "enable_cuda_graph": str(int(ort_graphs))})
    with environment({"DPIFRAME_REGION_GRAPHS": str(int(own_graphs))}):
        return ort.InferenceSession(path, session_options(), providers=[cuda])


class Call:
    """One batch through a session, inputs and outputs on the device. A call returns when the answers are there;
    `launch` returns when all work is launched."""

    def __init__(self, session: ort.InferenceSession, ids: torch.Tensor, ort_graphs: bool) -> None:
        self.session = session
        self.binding = session.io_binding()
        (given,) = session.get_inputs()
        (taken,) = session.get_outputs()
        columns = int(taken.shape[1])
        self.output = torch.full((len(ids), columns), torch.nan, device="cuda")
        self.binding.bind_input(given.name, "cuda", 0, np.int64, list(ids.shape), ids.data_ptr())
        self.binding.bind_output(taken.name, "cuda", 0, np.float32, list(self.output.shape), self.output.data_ptr())
        # ONNX Runtime's Python package looks for this entry in each run; where it is missing, an exception takes 40 µs.
        entries = {"gpu_graph_id": str(len(ids)) if ort_graphs else "-1"}
        self._whole = _run_options(entries)
        self._launch = _run_options(entries | {"disable_synchronize_execution_providers": "1"})

    def __call__(self) -> torch.Tensor:
        self.session.run_with_iobinding(self.binding, self._whole)
        return self.output

    def launch(self) -> None:
        self.session.run_with_iobinding(self.binding, self._launch)


def _run_options(entries: Mapping[str, str]) -> Any:
    options = ort.RunOptions()
    for key, value in entries.items():
        options.add_run_config_entry(key, value)
    return options
