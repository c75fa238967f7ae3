"""Hazard: a model that no runtime takes ends the optimizer with a traceback, or comes out repaired by accident."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest

from dpiframe.graph_passes.id_ranges import id_ranges
from dpiframe.graph_passes.pipeline import optimize_model
from tests.graph_passes.harness import op_types, parse, table

NODES = {
    "Gather without inputs": "e = Gather()",
    "Gather of one input": "e = Gather(A)",
    "Reshape of one input": "e = Gather(A, a) q = Reshape(e)",
    "Reshape to a scalar": "e = Gather(A, a) q = Reshape(e, scalar)",
    "Cast to nothing": "e = Gather(A, a) q = Cast(e)",
    "Add of one input": "e = Gather(A, a) q = Add(e)",
    "Add of three inputs": "e = Gather(A, a) q = Add(e, e, e)",
    "MatMul of one input": "e = Gather(A, a) q = MatMul(e)",
    "Concat on no axis": "e = Gather(A, a) q = Concat(e, e)",
    "Concat of nothing": "e = Gather(A, a) q = Concat<axis=1>()",
    "Concat of two ranks": "e = Gather(A, a) u = Unsqueeze(e, one) q = Concat<axis=1>(e, u)",
    "Concat of two sizes": "e = Gather(A, a) u = Unsqueeze(e, one) v = Concat<axis=1>(u, u) q = Concat<axis=2>(u, v)",
    "Unsqueeze twice on one axis": "e = Gather(A, a) q = Unsqueeze(e, ones)",
    "Squeeze of an axis that isn't there": "e = Gather(A, a) u = Unsqueeze(e, one) q = Squeeze(u, nine)",
    "Transpose of axes that aren't there": "e = Gather(A, a) q = Transpose<perm=[0, 5]>(e)",
    "Split on an axis that isn't there": "e = Gather(A, a) q, r = Split<axis=3>(e)",
    "Split into other sizes": "e = Gather(A, a) q, r = Split<axis=1>(e, ones)",
    "Slice in steps of nothing": "e = Gather(A, a) q = Slice(e, zero, one, one, zero)",
    "Expand to a matrix": "e = Gather(A, a) q = Expand(e, matrix)",
    "Tile too short": "e = Gather(A, a) q = Tile(e, one)",
    "GatherND at a scalar": "e = Gather(A, a) q = GatherND(e, scalar)",
    "ReduceSum of nothing": "e = Gather(A, a) q = ReduceSum()",
    "ReduceSum over an axis that isn't there": "e = Gather(A, a) q = ReduceSum(e, nine)",
    "Dropout of nothing": "e = Gather(A, a) q = Dropout()",
    "Constant of nothing": "e = Gather(A, a) k = Constant() q = Add(e, k)",
    "Shape of nothing": "e = Gather(A, a) s = Shape() q = Reshape(e, s)",
    "Identity of nothing": "e = Gather(A, a) q = Identity()",
    "Transposes of axes that aren't there": "e = Gather(A, a) p = Transpose<perm=[0, 5]>(e) q = Transpose<perm=[5, 0]>(p)",
    "Loop without a condition": "e = Gather(A, a) q = Loop(scalar)<body = b (int64 i, bool c) => (bool d, float[b,4] o) { d = Identity(c) o = Neg(e) }>",
    "If without branches": "e = Gather(A, a) q = If(flag)",
    "If of a constant without branches": "e = Gather(A, a) q = If(true)",
    "If without a condition": "e = Gather(A, a) q = If()",
    "inputs that nobody gives": "e = Gather(A, nowhere) q = Add(e, nobody)",
    "an operator without a name": "e = Gather(A, a) q = vendor.X(e)",
}
CONSTANTS = {
    "A": table(10, 4), "scalar": np.array(4), "one": np.array([1]), "ones": np.array([1, 1]), "zero": np.array([0]), "nine": np.array([9]),
    "matrix": np.array([[1, 1]]), "true": np.array(True),
}  # fmt: skip


def named(words: str) -> set[str]:
    return set("".join(c if c.isalnum() or c == "_" else " " for c in words).split())


@pytest.mark.parametrize("name", NODES)
def test_nodes_that_lack_something_are_boundaries(name: str) -> None:
    nodes = NODES[name]
    last = "q" if " q" in nodes else "e"
    text = f"(int64[b] a, bool flag) => (float[b,4] y) {{ {nodes} y = Relu({last}) }}"
    used = {n: v for n, v in CONSTANTS.items() if n in named(text)}
    model = parse(text, imports=', "vendor": 1', **used)
    if "without a name" in name:
        model.graph.node[1].op_type = ""
    wrong = model.graph.node[-2].op_type
    for policy in ("error", "clamp"):
        result = optimize_model(model, bad_ids=policy)
        # what is wrong is still there for the runtime to complain about
        assert op_types(result.model)[-2:] == [wrong, "Relu"]
    id_ranges(model)


def change(model: onnx.ModelProto, how: str) -> None:
    graph = model.graph
    changes: dict[str, Callable[[], object]] = {
        "operator set 100": lambda: setattr(model.opset_import[0], "version", 100),
        "IR version 99": lambda: setattr(model, "ir_version", 99),
        "no operator set": lambda: model.opset_import.pop(),
        "two nodes that give one tensor": lambda: graph.node[1].output.__setitem__(0, "e"),
        "an initializer twice": lambda: graph.initializer.append(graph.initializer[0]),
        "an input twice": lambda: graph.input.append(graph.input[0]),
        "an output that nobody gives": lambda: setattr(graph.output[0], "name", "nope"),
        "a table without a type": lambda: setattr(graph.initializer[0], "data_type", 0),
        "a table larger than its data": lambda: graph.initializer[0].dims.__setitem__(0, 1000),
        "an input without a type": lambda: graph.input[0].ClearField("type"),
        "an input without a shape": lambda: graph.input[0].type.tensor_type.ClearField("shape"),
        "an input without an element type": lambda: setattr(graph.input[0].type.tensor_type, "elem_type", 0),
        "an empty node": lambda: graph.node.add(),
        "no nodes": lambda: graph.ClearField("node"),
    }
    changes[how]()


HOW = [
    "operator set 100", "IR version 99", "no operator set", "two nodes that give one tensor", "an initializer twice", "an input twice",
    "an output that nobody gives", "a table without a type", "a table larger than its data", "an input without a type",
    "an input without a shape", "an input without an element type", "an empty node", "no nodes",
]  # fmt: skip


@pytest.mark.parametrize("how", HOW)
def test_models_that_lack_something(how: str) -> None:
    text = "(int64[b] a, int64[b] c) => (float[b,8] y) { e = Gather(A, a) f = Gather(C, c) y = Concat<axis=1>(e, f) }"
    model = parse(text, A=table(10, 4), C=table(20, 4))
    change(model, how)
    before = model.SerializeToString(deterministic=True)
    result = optimize_model(model)
    assert model.SerializeToString(deterministic=True) == before
    assert list(result.model.graph.output) == list(model.graph.output)
    id_ranges(model)
