"""No two values of an exported graph under one name, whatever its inputs and outputs are called."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx_ir


def make_names_unique(model: onnx_ir.Model) -> None:
    """Gives another name to what is called as an input or output is, and is neither: `cat` becomes `cat_1`.

    The dynamo exporter names values after operators (`cat`, `embedding`) and weights after parameters, and the inputs
    and outputs last, as asked, without a look at the names that are taken.
    """
    # Comes with onnxscript, which only this exporter needs.
    from onnx_ir.passes.common import NameFixPass

    NameFixPass()(model)
