"""Hazard: a layout operator on symbols puts an element elsewhere than the operator itself does."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpiframe.graph_passes.graphs import Node
from dpiframe.graph_passes.lookups import layout
from dpiframe.graph_passes.lookups.interpret import Interpreter
from dpiframe.graph_passes.lookups.symbols import Value
from dpiframe.graph_passes.workbench import Workbench
from tests.graph_passes.harness import parse, session


def symbolic(model: onnx.ModelProto, output: str = "y") -> tuple[Interpreter, Value | None]:
    """What the interpreter makes of a model's last tensor: columns of the float input x."""
    bench = Workbench(model)
    bench.infer_shapes()
    interpreter = Interpreter(bench.graph, bench, set()).run()
    tensor = next(t for node in bench.graph.nodes for t in node.outputs if t.name == output)
    return interpreter, interpreter.values.get(id(tensor))


def check(model: onnx.ModelProto, *batches: int, columns: tuple[int, ...] = (2, 3), known: bool = True) -> None:
    """Every element is the column that the runtime puts there."""
    interpreter, value = symbolic(model)
    if not known:
        assert value is None
        return
    assert value is not None
    for batch in batches or (1, 3):
        x = np.arange(batch * int(np.prod(columns)), dtype=np.float32).reshape(batch, *columns)
        got = session(model).run(["y"], {"x": x})[0]
        flat = x.reshape(batch, -1)
        sizes = [batch if axis in value.axes else d for axis, d in enumerate(value.codes.shape)]
        assert list(got.shape) == sizes
        rows = np.moveaxis(got, value.axes[0], 0).reshape(batch, -1)
        codes = np.moveaxis(value.codes, value.axes[0], 0).ravel()
        want = [interpreter.atoms.of_code(c).index for c in codes]  # type: ignore[union-attr]
        np.testing.assert_array_equal(rows, flat[:, want])


def model(steps: str, columns: str = "2,3", opset: int = 20, **constants: Any) -> onnx.ModelProto:
    rank = "float[n,m,k,l,o]"
    made = parse(
        f"(float[b,{columns}] x) => ({rank} y) {{ {steps} }}",
        opset=opset,
        **{n: np.array(v) for n, v in constants.items()},
    )
    made.graph.output[0].type.tensor_type.ClearField("shape")
    return made


FOLLOWED = {
    "reshape to a matrix": model("y = Reshape(x, s)", s=[-1, 6]),
    "reshape keeping the batch": model("y = Reshape(x, s)", s=[0, 3, -1]),
    "reshape to more axes": model("y = Reshape(x, s)", s=[-1, 1, 3, 2, 1]),
    "flatten": model("y = Flatten(x)"),
    "flatten from the end": model("y = Flatten<axis=-2>(x)"),
    "flatten past an axis of one": model("u = Unsqueeze(x, a) y = Flatten<axis=2>(u)", a=[1]),
    "squeeze": model("u = Unsqueeze(x, a) y = Squeeze(u, a)", a=[2]),
    "squeeze from the end": model("u = Unsqueeze(x, a) y = Squeeze(u, e)", a=[3], e=[-1]),
    "unsqueeze in front": model("y = Unsqueeze(x, a)", a=[0]),
    "unsqueeze twice": model("y = Unsqueeze(x, a)", a=[1, -1]),
    "transpose of columns": model("y = Transpose<perm=[0,2,1]>(x)"),
    "transpose of the batch": model("y = Transpose<perm=[2,0,1]>(x)"),
    "transpose by default": model("y = Transpose(x)"),
    "concat": model("y = Concat<axis=1>(x, x)"),
    "concat on the last axis": model("y = Concat<axis=-1>(x, x, x)"),
    "split by sizes": model("z, y = Split<axis=2>(x, s)", s=[1, 2]),
    "split evenly": model("z, y = Split<axis=1, num_outputs=2>(x)"),
    "split unevenly": model("z, y = Split<axis=-1, num_outputs=2>(x)"),
    "slice": model("y = Slice(x, s, e, a)", s=[1], e=[3], a=[2]),
    "slice to the end": model("y = Slice(x, s, e, a)", s=[1], e=[2**63 - 1], a=[-1]),
    "slice from the end": model("y = Slice(x, s, e, a)", s=[-2], e=[-1], a=[2]),
    "slice with a step": model("y = Slice(x, s, e, a, p)", s=[0], e=[9], a=[2], p=[2]),
    "slice backwards": model("y = Slice(x, s, e, a, p)", s=[-1], e=[-(2**63)], a=[2], p=[-1]),
    "slice backwards to the front": model("y = Slice(x, s, e, a, p)", s=[2], e=[-4], a=[2], p=[-1]),
    "slice two axes": model("y = Slice(x, s, e, a)", s=[1, 0], e=[2, 2], a=[1, 2]),
    "pick one": model("y = Gather<axis=2>(x, i)", i=1),
    "pick one from the end": model("y = Gather<axis=-1>(x, i)", i=-1),
    "pick several": model("y = Gather<axis=1>(x, i)", i=[1, 0, 1]),
    "pick a matrix": model("y = Gather<axis=2>(x, i)", i=[[0, 2], [1, 1]]),
    "pick in front of the batch": model("t = Transpose<perm=[1,0,2]>(x) y = Gather<axis=0>(t, i)", i=[1, 0]),
    "pick one in front of the batch": model("t = Transpose<perm=[1,0,2]>(x) y = Gather<axis=0>(t, i)", i=1),
    "pick pairs": model("t = Transpose<perm=[1,2,0]>(x) y = GatherND(t, i)", i=[[0, 1], [1, -1]]),
    "expand": model("u = Unsqueeze(x, a) y = Expand(u, s)", a=[1], s=[1, 4, 1, 1]),
    "expand to fewer axes": model("u = Unsqueeze(x, a) y = Expand(u, s)", a=[2], s=[2, 3]),
    "expand to more axes": model("y = Expand(x, s)", s=[2, 1, 1, 1]),
    "tile": model("y = Tile(x, s)", s=[1, 2, 1]),
}
NOT_FOLLOWED = {
    "reshape across the batch": model("y = Reshape(x, s)", s=[-1, 3]),
    "flatten of everything": model("y = Flatten<axis=0>(x)"),
    "flatten of batch and columns": model("y = Flatten<axis=2>(x)"),
    "squeeze of whatever is one": model("u = Unsqueeze(x, a) y = Squeeze(u)", a=[1]),
    "concat of batches": model("y = Concat<axis=0>(x, x)"),
    "split of the batch": model("z, y = Split<axis=0, num_outputs=2>(x)"),
    "slice of the batch": model("y = Slice(x, s, e, a)", s=[0], e=[1], a=[0]),
    "slice of all axes": model("y = Slice(x, s, e)", s=[0], e=[1]),
    "slice of nothing": model("y = Slice(x, s, e, a)", s=[1], e=[1], a=[2]),
    "pick a row": model("y = Gather<axis=0>(x, i)", i=0),
    "pick rows in pairs": model("y = GatherND(x, i)", i=[[0, 1]]),
    "pick per row": model("y = GatherND<batch_dims=1>(x, i)", i=[[0], [1]]),
    "pick out of range": model("y = Gather<axis=2>(x, i)", i=[3]),
    "pick pairs out of range": model("t = Transpose<perm=[1,2,0]>(x) y = GatherND(t, i)", i=[[0, 3]]),
    "expand of the batch": model("u = Unsqueeze(x, a) y = Expand(u, s)", a=[0], s=[1, 5, 1, 1]),
    "expand to nothing": model("u = Unsqueeze(x, a) y = Expand(u, s)", a=[1], s=[1, 0, 1, 1]),
    "tile of the batch": model("y = Tile(x, s)", s=[2, 1, 1]),
    "tile beyond all reason": model("y = Tile(x, s)", s=[1, 10**5, 1]),
}  # fmt: skip


@pytest.mark.parametrize("name", FOLLOWED)
def test_operators_that_are_followed(name: str) -> None:
    check(FOLLOWED[name])


@pytest.mark.parametrize("name", NOT_FOLLOWED)
def test_operators_that_are_not(name: str) -> None:
    check(NOT_FOLLOWED[name], known=False)


@pytest.mark.parametrize("opset", [11, 12])
def test_axes_as_attributes(opset: int) -> None:
    check(model("u = Unsqueeze<axes=[1]>(x) y = Squeeze<axes=[1]>(u)", opset=opset))
    check(model("z, y = Split<axis=2, split=[1,2]>(x)", opset=opset))
    check(model("z, y = Split<axis=1>(x)", opset=opset))


def test_every_operator_of_the_tables_is_tried() -> None:
    tried = {n.op_type for m in FOLLOWED.values() for n in m.graph.node}
    assert set(layout.VIEWS) | set(layout.PICKS) <= tried


@pytest.mark.parametrize(
    "missing",
    [
        "Split<axis=1>(x, s)",
        "Squeeze(x, s)",
        "Unsqueeze(x, s)",
        "Slice(x, s, s, s)",
        "Gather<axis=1>(x, s)",
        "Tile(x, s)",
    ],
)
def test_operands_known_only_at_run_time(missing: str) -> None:
    outputs = "y, z" if missing.startswith("Split") else "y"
    made = parse(f"(float[b,2,3] x, int64[2] s) => (float[n] y) {{ {outputs} = {missing} }}")
    made.graph.output[0].type.tensor_type.ClearField("shape")
    assert symbolic(made)[1] is None


def test_reshape_finds_the_batch_in_a_static_shape() -> None:
    value = Value(np.arange(6).reshape(1, 6), (0,), (4,))
    assert layout.reshape_to(value, [4, 2, 3]) is not None
    assert layout.reshape_to(value, [2, 2, 6]) is None
    assert layout.reshape_to(value, [6, 4]) is None
    assert layout.reshape_to(value, [24]) is None
    assert layout.reshape_to(value, [1, 4, 6]) is not None
    square = Value(np.arange(4).reshape(1, 4), (0,), (4,))
    moved = layout.reshape_to(square, [4, 4])
    assert moved is not None
    assert moved.axes == (0,)


def test_reshape_of_two_row_axes() -> None:
    value = Value(np.arange(6).reshape(1, 1, 6), (0, 1), ("b", "l"))
    for shape, axes in ((["b", "l", 2, 3], (0, 1)), (["b", 1, "l", 6], (0, 2)), ([1, "b", "l", 6], (1, 2))):
        moved = layout.reshape_to(value, shape)
        assert moved is not None
        assert moved.axes == axes
    for shape in (["l", "b", 6], ["b", 6, "l"], ["b", 2, "l", 3], ["n", 6], ["b", "l"], ["b", "l", 5]):
        assert layout.reshape_to(value, shape) is None


def test_a_constant_can_be_reshaped_like_anything_else() -> None:
    value = Value(np.arange(6).reshape(2, 3), (), ())
    moved = layout.reshape_to(value, [3, 2])
    assert moved is not None
    assert moved.codes.tolist() == [[0, 1], [2, 3], [4, 5]]


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.data())
def test_chains_of_layout_operators(data: st.DataObject) -> None:
    steps, name, shape, constants = [], "x", [2, 3], {}
    for number in range(data.draw(st.integers(1, 5))):
        out = f"t{number}"
        rank = len(shape) + 1
        kind = data.draw(st.sampled_from(["unsqueeze", "transpose", "slice", "pick", "reshape", "concat"]))
        operand = f"k{number}"
        if kind == "unsqueeze":
            axis = data.draw(st.integers(1, rank))
            constants[operand] = [axis]
            steps.append(f"{out} = Unsqueeze({name}, {operand})")
            shape = [*shape[: axis - 1], 1, *shape[axis - 1 :]]
        elif kind == "transpose" and rank > 2:
            order = data.draw(st.permutations(range(1, rank)))
            steps.append(f"{out} = Transpose<perm={[0, *order]}>({name})")
            shape = [shape[i - 1] for i in order]
        elif kind == "slice":
            axis = data.draw(st.integers(1, rank - 1))
            start = data.draw(st.integers(0, shape[axis - 1] - 1))
            constants |= {operand: [start], f"{operand}e": [shape[axis - 1]], f"{operand}a": [axis]}
            steps.append(f"{out} = Slice({name}, {operand}, {operand}e, {operand}a)")
            shape = [d - start if i == axis - 1 else d for i, d in enumerate(shape)]
        elif kind == "pick":
            axis = data.draw(st.integers(1, rank - 1))
            listed = data.draw(st.lists(st.integers(-shape[axis - 1], shape[axis - 1] - 1), min_size=1, max_size=3))
            constants[operand] = listed
            steps.append(f"{out} = Gather<axis={axis}>({name}, {operand})")
            shape = [len(listed) if i == axis - 1 else d for i, d in enumerate(shape)]
        elif kind == "reshape":
            total = int(np.prod(shape))
            cut = data.draw(st.sampled_from([d for d in range(1, total + 1) if total % d == 0]))
            constants[operand] = [-1, cut, total // cut]
            steps.append(f"{out} = Reshape({name}, {operand})")
            shape = [cut, total // cut]
        elif kind == "concat":
            axis = data.draw(st.integers(1, rank - 1))
            steps.append(f"{out} = Concat<axis={axis}>({name}, {name})")
            shape = [2 * d if i == axis - 1 else d for i, d in enumerate(shape)]
        else:
            continue
        name = out
    if name == "x":
        return
    check(model(" ".join(steps) + f" y = Concat<axis=1>({name})", **constants))


def test_nodes_take_their_attributes_from_graph_surgeon_nodes() -> None:
    value = Value(np.arange(6).reshape(1, 2, 3), (0,), ("b",))
    moved = layout.transpose(Node("Transpose", attrs={"perm": [0, 2, 1]}), value)
    assert moved is not None
    assert moved.codes.tolist() == [[[0, 3], [1, 4], [2, 5]]]
