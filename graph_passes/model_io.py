"""Reading and writing ONNX files without touching their tables (external data is neither loaded nor rewritten)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError
from onnx.external_data_helper import ExternalDataInfo


class ModelError(ValueError):
    """A model file that can't be used; the message is one line that names the file and says what is wrong."""


def load(path: Path | str) -> onnx.ModelProto:
    """Read an ONNX file, leaving external data where it is.

    Raises ModelError when the file is not an ONNX model, is cut short, or names external data that is missing, too
    short or outside the model's folder.
    """
    path = Path(path)
    try:
        model = onnx.load(path, load_external_data=False)
    except FileNotFoundError:
        raise ModelError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise ModelError(f"{path}: is a folder; name the .onnx file in it") from None
    except OSError as error:
        raise ModelError(f"{path}: can't be read: {error.strerror}") from None
    except DecodeError:
        raise ModelError(f"{path}: not an ONNX model, or cut short; export it again or copy it whole") from None
    if not model.HasField("graph") or model.ir_version <= 0 or not model.opset_import:
        raise ModelError(f"{path}: not an ONNX model (it holds no graph or no opset)")
    _check_external_data(model, path)
    return model


def save(model: onnx.ModelProto, path: Path | str) -> None:
    """Write the protobuf as it is: external references stay references. Raises ModelError above protobuf's 2 GB."""
    try:
        data = model.SerializeToString(deterministic=True)
    except (ValueError, DecodeError, RuntimeError):
        raise ModelError(
            f"{path}: the model exceeds protobuf's 2 GB; save its weights as external data first"
        ) from None
    Path(path).write_bytes(data)


def tensors(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Every stored tensor: initializers and tensor attributes, also those in subgraphs and functions."""
    yield from _graph_tensors(model.graph)
    for function in model.functions:
        yield from _node_tensors(function.node)
        yield from _attribute_tensors(function.attribute_proto)


def external_files(model: onnx.ModelProto) -> list[str]:
    """The external data files' locations, relative to the model's folder, in order of first use."""
    return list(dict.fromkeys(ExternalDataInfo(t).location for t in tensors(model) if is_external(t)))


def is_external(tensor: onnx.TensorProto) -> bool:
    return tensor.data_location == onnx.TensorProto.EXTERNAL


def _graph_tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    yield from graph.initializer
    yield from _sparse_tensors(graph.sparse_initializer)
    yield from _node_tensors(graph.node)


def _node_tensors(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.TensorProto]:
    for node in nodes:
        yield from _attribute_tensors(node.attribute)


def _attribute_tensors(attributes: Iterable[onnx.AttributeProto]) -> Iterator[onnx.TensorProto]:
    for attribute in attributes:
        if attribute.HasField("t"):
            yield attribute.t
        yield from attribute.tensors
        if attribute.HasField("sparse_tensor"):
            yield from _sparse_tensors([attribute.sparse_tensor])
        yield from _sparse_tensors(attribute.sparse_tensors)
        if attribute.HasField("g"):
            yield from _graph_tensors(attribute.g)
        for graph in attribute.graphs:
            yield from _graph_tensors(graph)


def _sparse_tensors(sparse: Iterable[onnx.SparseTensorProto]) -> Iterator[onnx.TensorProto]:
    for tensor in sparse:
        yield tensor.values
        yield tensor.indices


def _check_external_data(model: onnx.ModelProto, path: Path) -> None:
    folder = path.parent.resolve()
    for tensor in tensors(model):
        if not is_external(tensor):
            continue
        try:
            info = ExternalDataInfo(tensor)
        except ValueError as error:
            raise ModelError(f"{path}: external data of tensor '{tensor.name}': {error}") from None
        file = folder / info.location
        if Path(info.location).is_absolute() or not file.resolve().is_relative_to(folder):
            raise ModelError(
                f"{path}: tensor '{tensor.name}' keeps its data in '{info.location}', outside the model's folder; "
                "save the model with its data beside it"
            )
        if not file.is_file():
            raise ModelError(
                f"{path}: external data '{info.location}' of tensor '{tensor.name}' is missing; "
                "put it beside the model, or export the model again"
            )
        end = (info.offset or 0) + (info.length or _byte_size(tensor))
        if file.stat().st_size < end:
            raise ModelError(
                f"{path}: external data '{info.location}' is cut short: tensor '{tensor.name}' ends at byte {end}, "
                f"the file at {file.stat().st_size}; copy it whole, or export the model again"
            )


def _byte_size(tensor: onnx.TensorProto) -> int:
    """Bytes of a tensor's values; for types of less than a byte, those that hold two values each."""
    try:
        item = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize
    except (KeyError, TypeError):
        return 0
    packed = onnx.TensorProto.DataType.Name(tensor.data_type).endswith(("INT4", "E2M1"))
    return -(-math.prod(tensor.dims) * item // (2 if packed else 1))
