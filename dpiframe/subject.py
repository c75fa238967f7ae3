"""The model that is to be optimized or compared with, and what is needed to run it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import onnx

from dpiframe.errors import UsageError
from dpiframe.graph_passes import metadata
from dpiframe.graph_passes.model_io import load, tensors
from dpiframe.input_specs import input_specs
from dpiframe.inputs import Case
from dpiframe.model_checks import require_known_operators
from dpiframe.user_inputs import load_user_inputs

_HALF = (onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16)


@dataclass(frozen=True)
class Subject:
    """A model's file and protobuf, the libraries of its own operators, and inputs that the user gave."""

    path: Path
    model: onnx.ModelProto
    custom_ops: Sequence[Path] = ()
    user: Case | None = None

    @classmethod
    def read(
        cls, path: str | Path, *, inputs: str | Path | None = None, custom_op_library: str | Path | None = None
    ) -> Subject:
        """Load a model.

        Raises ModelError for a file that is no usable model, or has operators that neither ONNX Runtime nor a given
        library defines, and UsageError for a library or inputs that can't be used.
        """
        if inputs is not None and not isinstance(inputs, str | os.PathLike):
            raise UsageError(
                f"inputs is a {type(inputs).__name__}: give the path of an .npz file (numpy.savez writes one)"
            )
        path = Path(path)
        model = load(path)
        if custom_op_library is None:
            require_known_operators(path, model)
        libraries = [] if custom_op_library is None else [_existing(Path(custom_op_library))]
        user = None if inputs is None else load_user_inputs(Path(inputs), input_specs(path, model))
        return cls(path, model, libraries, user)

    @property
    def precision(self) -> str:
        """That of products on CUDA, as `optimize` wrote it down."""
        return self.properties.get("dpiframe.precision", "fp32")

    @property
    def properties(self) -> dict[str, str]:
        """The model's metadata."""
        return metadata.properties(self.model)

    @property
    def computes_in_half(self) -> bool:
        """Whether it stores, takes or gives float16 or bfloat16."""
        values = (*self.model.graph.input, *self.model.graph.output)
        return any(tensor.data_type in _HALF for tensor in tensors(self.model)) or any(
            value.type.tensor_type.elem_type in _HALF for value in values
        )


def _existing(library: Path) -> Path:
    if not library.is_file():
        raise UsageError(f"--custom-op-library {library}: no such file")
    return library.resolve()
