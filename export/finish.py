"""What a freshly exported file still needs: all inputs, one data file at most, an IR version that older runtimes read,
and a check."""

from __future__ import annotations

from pathlib import Path

import onnx
from onnx import helper

from .arguments import Arguments
from .compare import array_of
from .errors import ExportError, one_line
from .exporters import BATCH

# The newest that ONNX Runtime 1.20 loads.
OLDEST_RUNTIME_IR = 10
# The last opset of IR version 10; later ones bring types and fields that it lacks.
_LAST_OPSET_OF_IR_10 = 22
_STACK_TRACE = "pkg.torch.onnx.stack_trace"


def finish(path: Path, arguments: Arguments, *, external_data: bool) -> onnx.ModelProto:
    """Rewrites the file at `path` in place and checks it in full.

    - An input that the model makes no use of is there all the same: tracing drops it.
    - The IR version becomes 10 at most, where nothing in the model needs a newer one.
    - Stack traces of the machine that exported it are dropped from the nodes' metadata.
    - With external data, all weights of 1 KB or more lie in `<name>.data` beside it, and nothing else does.

    Args:
        path: what the exporter has written.
        arguments: the example, whose names the file's inputs have.
        external_data: whether weights lie beside the file.

    Returns:
        The model as it stands in the file, without external data.

    Raises:
        ExportError: an input's axis 0 has become a number, an unused input is of a type that NumPy lacks, or
            onnx.checker rejects the model.
    """
    data = path.with_name(f"{path.name}.data")
    strays = [file for file in path.parent.iterdir() if file not in (path, data)]
    model = onnx.load(path, load_external_data=bool(strays))
    _keep_inputs(model.graph, arguments)
    for value in model.graph.input:
        rows = value.type.tensor_type.shape.dim[0]
        if rows.HasField("dim_value"):
            raise ExportError(
                f"the exporter fixed the batch of input {value.name!r} at {rows.dim_value}: "
                "where the model's forward turns a shape into a number, write x.shape[0] or -1"
            )
    if model.ir_version > OLDEST_RUNTIME_IR and not _needs_newer_ir(model):
        model.ir_version = OLDEST_RUNTIME_IR
    for node in model.graph.node:
        for index in reversed(range(len(node.metadata_props))):
            if node.metadata_props[index].key == _STACK_TRACE:
                del node.metadata_props[index]
    if external_data and not data.exists():
        if not strays:
            onnx.load_external_data_for_model(model, str(path.parent))
        onnx.save_model(model, path, save_as_external_data=True, location=data.name, size_threshold=1024)
    else:
        path.write_bytes(model.SerializeToString())
    for file in strays:
        file.unlink()
    try:
        onnx.checker.check_model(path, full_check=True)
    except Exception as error:  # The checker raises its own, shape inference's and protobuf's errors.
        raise ExportError(f"onnx.checker rejects the exported model: {one_line(str(error))}") from error
    return onnx.load(path, load_external_data=False)


def _keep_inputs(graph: onnx.GraphProto, arguments: Arguments) -> None:
    there = {value.name for value in graph.input}
    for index, (name, leaf) in enumerate(zip(arguments.names, arguments.leaves, strict=True)):
        if name not in there:
            type = helper.np_dtype_to_tensor_dtype(array_of(leaf, f"input {name!r}").dtype)
            graph.input.insert(index, helper.make_tensor_value_info(name, type, [BATCH, *leaf.shape[1:]]))


def _needs_newer_ir(model: onnx.ModelProto) -> bool:
    if any(item.domain in ("", "ai.onnx") and item.version > _LAST_OPSET_OF_IR_10 for item in model.opset_import):
        return True
    newest = onnx.TensorProto.INT4
    return any(tensor.data_type > newest for tensor in model.graph.initializer)
