"""Products with their epilogues as one node, on CUDA; nothing on a CPU."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpiframe.graph_passes.pipeline import PipelineResult
from tests.graph_passes.harness import Arrays, agree, fused_nodes, op_types, optimize, parse, programs, refusals, table

TOLERANCE = 1e-6


def fuse(model: onnx.ModelProto) -> PipelineResult:
    return optimize(model, provider="cuda", streams=1)


def values(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def cases(**shapes: tuple[int, ...]) -> list[Arrays]:
    """Inputs for batches of 0, 1 and 5 rows."""
    return [
        {name: values(batch, *shape, seed=i) for i, (name, shape) in enumerate(shapes.items())} for batch in (0, 1, 5)
    ]


def check(model: onnx.ModelProto, ops: list[str], *expected: str, **shapes: tuple[int, ...]) -> PipelineResult:
    result = fuse(model)
    assert op_types(result.model) == ops
    assert [program.splitlines()[4:] for program in programs(result)] == [text.splitlines() for text in expected]
    agree(model, result, *cases(**shapes), tolerance=TOLERANCE)
    return result


def test_a_layer() -> None:
    model = parse(
        "(float[b,6] x) => (float[b,4] y) { p = Gemm <transB = 1> (x, W, c) y = Relu(p) }",
        W=table(4, 6),
        c=table(1, 4)[0],
    )
    result = check(model, ["FusedGemm"], "step add vector 2\nstep relu", x=(6,))
    assert programs(result)[0].splitlines()[:4] == ["gemm 1", "precision fp32", "weight nk", "size 6 4"]
    (node,) = fused_nodes(result.model.graph)
    assert list(node.input) == ["x", "W", "c"]
    assert result.reports[2].changes == ["FusedGemm_y: 6 x 4 with Relu"]


def test_a_bare_product() -> None:
    model = parse("(float[b,6] x) => (float[b,4] y) { y = MatMul(x, W) }", W=table(6, 4))
    check(model, ["FusedGemm"], "", x=(6,))


def test_on_a_cpu_nothing_is_formed() -> None:
    model = parse("(float[b,6] x) => (float[b,4] y) { p = MatMul(x, W) y = Relu(p) }", W=table(6, 4))
    assert op_types(optimize(model).model) == ["MatMul", "Relu"]


@pytest.mark.parametrize("precision", ["fp32", "tf32", "fp16"])
def test_the_precision_is_written_down(precision: str) -> None:
    model = parse("(float[b,6] x) => (float[b,4] y) { y = MatMul(x, W) }", W=table(6, 4))
    result = optimize(model, provider="cuda", precision=precision)
    assert programs(result)[0].splitlines()[1] == f"precision {precision}"
    assert {p.key: p.value for p in result.model.metadata_props}["dpiframe.precision"] == precision


def test_a_tower_is_a_node_a_layer() -> None:
    model = parse(
        """(float[b,6] x) => (float[b,3] y) {
          p = Gemm <transB = 1> (x, W, c) q = Relu(p) r = Gemm <transB = 1> (q, V, d) s = Relu(r) y = Gemm(s, U) }""",
        W=table(4, 6),
        c=table(1, 4)[0],
        V=table(5, 4),
        d=table(1, 5)[0],
        U=table(5, 3),
    )
    result = check(
        model,
        ["FusedGemm", "FusedGemm", "FusedGemm_1"],
        "step add vector 2\nstep relu",
        "step add vector 2\nstep relu",
        "",
        x=(6,),
    )
    assert len(result.model.functions) == 2, "equal bodies share a function"


def test_a_cross_layer_with_the_bias_inside() -> None:
    model = parse(
        """(float[b,6] x, float[b,6] o) => (float[b,6] y) {
          p = Gemm <transB = 1> (x, W, c) m = Mul(o, p) y = Add(m, x) }""",
        W=table(6, 6),
        c=table(1, 6)[0],
    )
    result = check(model, ["FusedGemm"], "step add vector 2\nstep mul matrix 3\nstep add matrix 4", x=(6,), o=(6,))
    (node,) = fused_nodes(result.model.graph)
    assert list(node.input) == ["x", "W", "c", "o", "x"]


def test_a_cross_layer_with_the_bias_outside() -> None:
    model = parse(
        """(float[b,6] x, float[b,6] o) => (float[b,6] y) {
          p = MatMul(x, W) m = Mul(o, p) a = Add(m, c) y = Add(a, x) }""",
        W=table(6, 6),
        c=table(1, 6)[0],
    )
    check(model, ["FusedGemm"], "step mul matrix 2\nstep add vector 3\nstep add matrix 4", x=(6,), o=(6,))


def test_three_cross_layers_read_the_same_x0() -> None:
    layers = "".join(
        f"p{i} = Gemm <transB = 1> (x{i}, W{i}, c{i}) m{i} = Mul(x0, p{i}) x{i + 1} = Add(m{i}, x{i}) "
        for i in range(3)
    )
    weights = {f"W{i}": table(6, 6, seed=i) / 3 for i in range(3)} | {f"c{i}": table(1, 6, seed=i)[0] for i in range(3)}
    model = parse(f"(float[b,6] x0) => (float[b,6] x3) {{ {layers} }}", **weights)
    epilogue = "step add vector 2\nstep mul matrix 3\nstep add matrix 4"
    result = check(model, ["FusedGemm"] * 3, epilogue, epilogue, epilogue, x0=(6,))
    assert len(result.model.functions) == 1


def test_a_product_as_the_other_products_operand() -> None:
    model = parse(
        """(float[b,6] x) => (float[b,4] y) {
          p = MatMul(x, W) q = MatMul(x, V) g = Sigmoid(q) y = Mul(p, g) }""",
        W=table(6, 4),
        V=table(6, 4, seed=1),
    )
    result = fuse(model)
    assert sorted(op_types(result.model)) == ["FusedGemm", "FusedGemm_1"]
    agree(model, result, *cases(x=(6,)), tolerance=TOLERANCE)


def test_a_product_does_not_wait_for_a_longer_way() -> None:
    """The sum belongs to the deeper tower, wherever it stands in the file."""
    weights = {name: table(6, 6, seed=i) for i, name in enumerate("UVW")}
    shallow, deep = "p = MatMul(x, U)", "q = MatMul(x, V) r = Tanh(q) s = MatMul(r, W)"
    for nodes in (f"{shallow} {deep}", f"{deep} {shallow}"):
        model = parse(f"(float[b,6] x) => (float[b,6] y) {{ {nodes} y = Add(p, s) }}", **weights)
        result = fuse(model)
        (last,) = [node for node in fused_nodes(result.model.graph) if "y" in node.output]
        assert last.input[1] == "W"
        agree(model, result, *cases(x=(6,)), tolerance=TOLERANCE)


@pytest.mark.parametrize(
    ("axes", "view"),
    [
        ("3,2", "Flatten <axis = 1> (x)"),
        ("3,2", "Reshape(x, flat)"),
        ("1,6", "Squeeze(x, one)"),
        ("3,1,2", "Reshape(x, flat)"),
    ],
)
def test_a_flattened_left_operand(axes: str, view: str) -> None:
    """The join [b, fields, dim] of the lookups goes into the first layer as it is."""
    model = parse(
        f"(float[b,{axes}] x) => (float[b,4] y) {{ f = {view} p = Gemm <transB = 1> (f, W, c) y = Relu(p) }}",
        W=table(4, 6),
        c=table(1, 4)[0],
        flat=np.array([-1, 6]),
        one=np.array([1]),
    )
    shape = tuple(map(int, axes.split(",")))
    result = check(model, ["FusedGemm"], f"left {len(shape)}\nstep add vector 2\nstep relu", x=shape)
    (node,) = fused_nodes(result.model.graph)
    assert node.input[0] == "x"


def test_a_flattened_left_operand_of_more_rows() -> None:
    model = parse(
        "(float[b,5,3,2] x) => (float[b,5,4] y) { f = Reshape(x, flat) y = MatMul(f, W) }",
        W=table(6, 4),
        flat=np.array([0, 5, 6]),
    )
    check(model, ["FusedGemm"], "left 2", x=(5, 3, 2))


@pytest.mark.parametrize(("axes", "target"), [("b,3,2", [-1, 2]), ("b,2", [-1, 6])])
def test_a_view_that_mixes_rows_stays(axes: str, target: list[int]) -> None:
    width = target[1]
    model = parse(
        f"(float[{axes}] x) => (float[c,4] y) {{ f = Reshape(x, flat) y = MatMul(f, W) }}",
        W=table(width, 4),
        flat=np.array(target),
    )
    result = fuse(model)
    assert op_types(result.model) == ["Reshape", "FusedGemm"]
    shape = [6 if size == "b" else int(size) for size in axes.split(",")]
    agree(model, result, {"x": values(*shape)}, tolerance=TOLERANCE)


def test_normalized_layers() -> None:
    draw = np.random.default_rng(0)
    statistics = {name: draw.uniform(0.5, 2, 4).astype(np.float32) for name in "shmv"}
    model = parse(
        """(float[b,6] x) => (float[b,4] y) {
          p = Gemm <transB = 1> (x, W, c) n = BatchNormalization(p, s, h, m, v) y = Relu(n) }""",
        W=table(4, 6),
        c=table(1, 4)[0],
        **statistics,
    )
    check(model, ["FusedGemm"], "step add vector 2\nstep mul vector 3\nstep add vector 4\nstep relu", x=(6,))


def test_leading_axes_and_both_layouts() -> None:
    model = parse(
        "(float[b,t,6] x, float[b,t,1] g) => (float[b,t,4] y) { p = MatMul(x, W) q = Add(p, c) y = Mul(q, g) }",
        W=table(6, 4),
        c=table(1, 4)[0],
    )
    check(model, ["FusedGemm"], "step add vector 2\nstep mul column 3", x=(3, 6), g=(3, 1))


def test_activations_with_numbers_and_slopes() -> None:
    model = parse(
        """(float[b,6] x) => (float[b,4] y) {
          p = MatMul(x, W) q = LeakyRelu <alpha = 0.25> (p) r = PRelu(q, s) t = Tanh(r) u = Sigmoid(t) v = Gelu(u)
          w = Sigmoid(v) y = Mul(v, w) }""",
        W=table(6, 4),
        s=table(1, 4)[0],
    )
    check(
        model,
        ["FusedGemm"],
        "step leakyrelu 2.5e-01\nstep prelu vector 2\nstep tanh\nstep sigmoid\nstep gelu\nstep silu",
        x=(6,),
    )


def test_a_longer_chain_than_a_kernel_takes_is_cut() -> None:
    chain = "".join(f"r{i + 1} = Add(r{i}, c) " for i in range(20))
    model = parse(
        f"(float[b,6] x) => (float[b,4] y) {{ r0 = MatMul(x, W) {chain} y = Neg(r20) }}",
        W=table(6, 4),
        c=table(1, 4)[0],
    )
    result = fuse(model)
    assert len(programs(result)[0].splitlines()) == 4 + 16
    agree(model, result, *cases(x=(6,)), tolerance=TOLERANCE)


def test_a_product_inside_a_branch() -> None:
    text = """(float[b,6] x, bool flag) => (float[b,4] y) {
      y = If (flag) <then_branch = t () => (float[b,4] u) { p = MatMul(x, W) u = Relu(p) },
                     else_branch = e () => (float[b,4] v) { v = MatMul(x, W) }>
    }"""
    model = parse(text, W=table(6, 4))
    result = fuse(model)
    assert sorted(node.op_type for node in fused_nodes(result.model.graph)) == ["FusedGemm", "FusedGemm_1"]
    for flag in (True, False):
        agree(model, result, *[{**case, "flag": np.array(flag)} for case in cases(x=(6,))], tolerance=TOLERANCE)


def test_an_overridable_weight_comes_in_as_it_is() -> None:
    model = parse("(float[b,6] x, float[6,4] W) => (float[b,4] y) { y = MatMul(x, W) }", W=table(6, 4))
    result = fuse(model)
    agree(model, result, *[{**case, "W": values(6, 4, seed=9)} for case in cases(x=(6,))], tolerance=TOLERANCE)


def test_reasons() -> None:
    model = parse(
        """(float[b,6] x, float[b,5] o, float16[b,6] h) => (float[b,4] y, float[b,4] z, float16[b,4] w) {
          y = Gemm <alpha = 0.5> (x, W) z = Gemm <transA = 1> (t, W) t = Transpose(x) w = MatMul(h, V) }""",
        W=table(6, 4),
        V=table(6, 4, np.float16),
    )
    found = refusals(fuse(parse_sorted(model)))
    assert found["y"] == "it scales the product or what it adds (alpha, beta)"
    assert found["z"] == "its left operand is transposed"
    assert "not float32" in found["w"]


def parse_sorted(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same nodes, producers first."""
    nodes = sorted(model.graph.node, key=lambda node: node.op_type != "Transpose")
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return model


def test_an_old_opset_is_named() -> None:
    model = parse("(float[b,6] x) => (float[b,4] y) { y = MatMul(x, W) }", opset=12, W=table(6, 4))
    result = fuse(model)
    assert op_types(result.model) == ["MatMul"]
    assert refusals(result) == {"y": "opset 12 is older than 13: convert the model first"}


STEPS = {
    "relu": "Relu({})",
    "sigmoid": "Sigmoid({})",
    "tanh": "Tanh({})",
    "leaky": "LeakyRelu <alpha = 0.3> ({})",
    "bias": "Add({}, c)",
    "bias first": "Add(c, {})",
    "scale": "Mul({}, s)",
    "less": "Sub({}, c)",
    "residual": "Add({}, o)",
    "cross": "Mul(o, {})",
    "gate": "Mul({}, g)",
    "slope": "PRelu({}, c)",
    "from the other side": "Sub(o, {})",
    "divided": "Div({}, e)",
}


@settings(max_examples=120, deadline=None)
@given(
    steps=st.lists(st.sampled_from(sorted(STEPS)), max_size=8),
    transposed=st.booleans(),
    k=st.integers(2, 9),
    n=st.integers(2, 9),
    seed=st.integers(0, 99),
)
def test_any_chain_after_any_product(steps: list[str], transposed: bool, k: int, n: int, seed: int) -> None:
    nodes = f"r0 = Gemm <transB = {int(transposed)}> (x, W, c) "
    for i, step in enumerate(steps):
        nodes += f"r{i + 1} = {STEPS[step].format(f'r{i}')} "
    weights = {"W": table(*((n, k) if transposed else (k, n)), seed=seed), "c": values(n, seed=seed)}
    weights |= {"s": values(1, seed=seed + 1), "e": 1 + values(n, seed=seed) ** 2}
    model = parse(
        f"(float[b,{k}] x, float[b,{n}] o, float[b,1] g) => (float[b,{n}] y) {{ {nodes} y = Neg(r{len(steps)}) }}",
        **weights,
    )
    result = fuse(model)
    assert "Gemm" not in op_types(result.model)
    agree(model, result, *cases(x=(k,), o=(n,), g=(1,)), tolerance=4e-6, reference=False)


def test_what_a_branch_does_to_a_product_stays_there() -> None:
    """It reads what only the branch has."""
    model = parse(
        """(float[b,6] x, bool c) => (float[b,4] y) {
          p = MatMul(x, W)
          y = If (c) <then_branch = then () => (float[b,4] t) { s = Relu(p) q = Sin(x) r = MatMul(q, V) t = Add(s, r) },
                      else_branch = other () => (float[b,4] e) { z = Sin(x) e = MatMul(z, V) }> }""",
        W=table(6, 4),
        V=table(6, 4),
    )
    result = fuse(model)
    assert op_types(result.model) == ["FusedGemm", "If"]
    for chosen in (True, False):
        given = [case | {"c": np.array(chosen)} for case in cases(x=(6,))]
        agree(model, result, *given, tolerance=TOLERANCE)
