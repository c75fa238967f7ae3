"""Products of the same rows as one: exactly which nodes come of it, and the same answers."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from dpiframe.graph_passes.gemm import bundle
from dpiframe.graph_passes.pipeline import PipelineResult, optimize_model
from tests.graph_passes.gemm.test_fuse import cases, fuse, values
from tests.graph_passes.harness import Arrays, agree, fused_nodes, op_types, parse, programs, refusals


def weights(**shapes: tuple[int, ...]) -> dict[str, np.ndarray]:
    return {name: values(*shape, seed=i) / 2 for i, (name, shape) in enumerate(shapes.items())}


def forms(result: PipelineResult) -> list[str]:
    """Each program's sizes, parts and steps in a line."""
    return ["; ".join(program.splitlines()[3:]) for program in programs(result)]


def same(model: onnx.ModelProto, ops: list[str], *wanted: str, inputs: list[Arrays]) -> None:
    result = fuse(model)
    assert op_types(result.model) == ops
    assert forms(result) == list(wanted)
    agree(model, result, *inputs, tolerance=2e-6)


def test_three_layers_of_the_same_rows() -> None:
    """Of any width and in either layout; their biases lie side by side, too."""
    model = parse(
        """(float[b,6] x) => (float[b,9] y) {
          p = Gemm <transB = 1> (x, U, c) q = MatMul(x, V) s = Gemm(x, W, e) t = Add(q, d)
          i = Relu(p) j = Relu(t) k = Relu(s) y = Concat <axis = 1> (i, k, j) }""",
        **weights(U=(4, 6), V=(6, 3), W=(6, 2), c=(4,), d=(3,), e=(2,)),
    )
    ops = ["FusedGemm", "Slice", "Slice", "Slice", "Concat"]
    same(model, ops, "size 6 9; step add vector 2; step relu", inputs=cases(x=(6,)))


def test_experts_of_two_layers() -> None:
    """The second layers read what the first ones gave side by side, each its part of it."""
    experts = "".join(
        f"p{i} = Gemm <transB = 1> (x, W{i}, c{i}) h{i} = Relu(p{i}) "
        f"q{i} = Gemm <transB = 1> (h{i}, V{i}, d{i}) e{i} = Relu(q{i}) "
        for i in range(3)
    )
    shapes = {f"W{i}": (4, 6) for i in range(3)} | {f"V{i}": (5, 4) for i in range(3)}
    shapes |= {f"c{i}": (4,) for i in range(3)} | {f"d{i}": (5,) for i in range(3)}
    model = parse(f"(float[b,6] x) => (float[b,5] y) {{ {experts} y = Sum(e0, e1, e2) }}", **weights(**shapes))
    ops = ["FusedGemm", "FusedGemm_1", "Slice", "Slice", "Slice", "Sum"]
    first = "size 6 12; step add vector 2; step relu"
    same(model, ops, first, "size 4 15; runs 12 0 4 8; step add vector 2; step relu", inputs=cases(x=(6,)))


def test_two_towers_that_end_in_different_widths() -> None:
    """The first layers as one; each second layer reads its part of the rows where it is."""
    model = parse(
        """(float[b,6] x) => (float[b,2] y) {
          p = Gemm <transB = 1> (x, U, c) i = Relu(p) q = Gemm <transB = 1> (x, V, d) j = Relu(q)
          s = MatMul(i, S) t = MatMul(j, T) y = Max(s, t) }""",
        **weights(U=(4, 6), V=(8, 6), c=(4,), d=(8,), S=(4, 2), T=(8, 2)),
    )
    result = fuse(model)
    assert op_types(result.model) == ["FusedGemm", "FusedGemm_1", "FusedGemm_2", "Max"]
    assert forms(result) == ["size 6 12; step add vector 2; step relu", "size 4 2; runs 12 0", "size 8 2; runs 12 4"]
    agree(model, result, *cases(x=(6,)), tolerance=2e-6)


def test_a_part_that_no_vector_suits_is_sliced() -> None:
    model = parse(
        """(float[b,10] x) => (float[b,2] y) { p = Slice(x, one, five, one) y = MatMul(p, W) }""",
        one=np.array([1]),
        five=np.array([5]),
        **weights(W=(4, 2)),
    )
    same(model, ["Slice", "FusedGemm"], "size 4 2", inputs=cases(x=(10,)))


def test_one_part_of_rows() -> None:
    model = parse(
        """(float[b,12] x) => (float[b,2] y) { p = Slice(x, four, eight, one) y = MatMul(p, W) }""",
        one=np.array([1]),
        four=np.array([4]),
        eight=np.array([8]),
        **weights(W=(4, 2)),
    )
    same(model, ["FusedGemm"], "size 4 2; runs 12 4", inputs=cases(x=(12,)))


def pairs(fields: int, one_weight: bool = False) -> onnx.ModelProto:
    """Bilinear interactions of all pairs of fields of 4 values, each pair with a weight of its own or all with one."""
    nodes, made, shapes = "", [], {}
    for i in range(fields):
        for j in range(i + 1, fields):
            weight = "W" if one_weight else f"W{i}{j}"
            shapes[weight] = (4, 4)
            nodes += f"p{i}{j} = MatMul(e{i}, {weight}) m{i}{j} = Mul(p{i}{j}, e{j}) "
            made.append(f"m{i}{j}")
    split = ", ".join(f"e{i}" for i in range(fields))
    return parse(
        f"""(float[b,{fields},4] x) => (float[b,{len(made)},4] y) {{
          z = Tanh(x) {split} = Split <axis = 1> (z, ones) {nodes} y = Concat <axis = 1> ({", ".join(made)}) }}""",
        ones=np.ones(fields, np.int64),
        **weights(**shapes),
    )


def test_bilinear_pairs_are_one_product() -> None:
    """Products of parts [b, 1, 4] of rows; what is done with other values afterwards is left to a chain."""
    ops = ["Tanh", "Split", "FusedGemm", "Unsqueeze", "Split", *["Mul"] * 6, "Concat"]
    wanted = "size 4 24; left 2; runs 16 0 0 0 4 4 8"
    same(pairs(4), ops, wanted, inputs=cases(x=(4, 4)))


def test_a_weight_that_all_pairs_share() -> None:
    """Equal products are computed once, so three of them are left."""
    ops = ["Tanh", "Split", "FusedGemm", "Unsqueeze", "Split", *["Mul"] * 6, "Concat"]
    same(pairs(4, one_weight=True), ops, "size 4 12; left 2; runs 16 0 4 8", inputs=cases(x=(4, 4)))


def test_more_products_than_a_node_has_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle, "MAX_RUNS", 4)
    result = fuse(pairs(5))
    assert [form.split("; ")[-1] for form in forms(result)][:2] == ["runs 20 0", "runs 20 4 4 4 8"]
    agree(pairs(5), result, *cases(x=(5, 4)), tolerance=2e-6)


def test_queries_keys_and_values() -> None:
    model = parse(
        """(float[b,3,6] x) => (float[b,3,4] y) {
          q = MatMul(x, U) k = MatMul(x, V) v = MatMul(x, W)
          t = Transpose <perm = [0, 2, 1]> (k) s = MatMul(q, t) w = Softmax(s) y = MatMul(w, v) }""",
        **weights(U=(6, 4), V=(6, 4), W=(6, 4)),
    )
    ops = ["FusedGemm", "Slice", "Slice", "Transpose", "MatMul", "Softmax", "Slice", "MatMul"]
    same(model, ops, "size 6 12", inputs=cases(x=(3, 6)))


def test_heads_that_leave_the_graph_are_divided_by_a_node() -> None:
    model = parse(
        "(float[b,6] x) => (float[b,2] p, float[b,3] q, float[b,2] r) { p = MatMul(x, U) q = MatMul(x, V) r = MatMul(x, W) }",
        **weights(U=(6, 2), V=(6, 3), W=(6, 2)),
    )
    same(model, ["FusedGemm", "Split"], "size 6 7", inputs=cases(x=(6,)))


def test_numbers_are_vectors_side_by_side() -> None:
    model = parse(
        """(float[b,6] x) => (float[b,3] y) {
          p = MatMul(x, U) q = MatMul(x, V) r = MatMul(x, W) i = Mul(p, two) j = Mul(q, c) k = Mul(r, three)
          y = Sum(i, j, k) }""",
        two=np.float32([2]),
        three=np.array(3, np.float32),
        **weights(U=(6, 3), V=(6, 3), W=(6, 3), c=(3,)),
    )
    ops = ["FusedGemm", "Slice", "Slice", "Slice", "Sum"]
    same(model, ops, "size 6 9; step mul vector 2", inputs=cases(x=(6,)))


def test_normalized_experts() -> None:
    draw = np.random.default_rng(0)
    statistics = {f"{name}{i}": draw.uniform(0.5, 2, 4).astype(np.float32) for name in "shmv" for i in range(2)}
    experts = "".join(
        f"p{i} = MatMul(x, W{i}) n{i} = BatchNormalization(p{i}, s{i}, h{i}, m{i}, v{i}) e{i} = Relu(n{i}) "
        for i in range(2)
    )
    model = parse(
        f"(float[b,6] x) => (float[b,4] y) {{ {experts} y = Max(e0, e1) }}",
        **weights(W0=(6, 4), W1=(6, 4)),
        **statistics,
    )
    wanted = "size 6 8; step mul vector 2; step add vector 3; step relu"
    same(model, ["FusedGemm", "Slice", "Slice", "Max"], wanted, inputs=cases(x=(6,)))


def test_the_bundled_weights_replace_the_others() -> None:
    model = parse(
        "(float[b,6] x) => (float[b,4] y) { p = MatMul(x, U) q = MatMul(x, V) y = Max(p, q) }",
        **weights(U=(6, 4), V=(6, 4)),
    )
    result = fuse(model)
    (node,) = fused_nodes(result.model.graph)
    stored = {tensor.name: list(tensor.dims) for tensor in result.model.graph.initializer}
    assert stored[node.input[1]] == [8, 6]
    assert not {"U", "V"} & set(stored)
    assert result.reports[2].changes == ["FusedGemm_p_side_by_side: 2 products of the same rows"]


ALONE = {
    "another left operand": "p = MatMul(x, U) q = MatMul(z, V) y = Max(p, q)",
    "other steps": "p = MatMul(x, U) i = Relu(p) q = MatMul(x, V) j = Tanh(q) y = Max(i, j)",
    "another number": """p = MatMul(x, U) i = LeakyRelu <alpha = 0.1> (p) q = MatMul(x, V)
                         j = LeakyRelu <alpha = 0.2> (q) y = Max(i, j)""",
    "two that leave the graph": "y = MatMul(x, U) w = MatMul(x, V)",
    "two that go on with other values": "p = MatMul(x, U) i = Mul(p, z) q = MatMul(x, V) j = Mul(q, z) y = Max(i, j)",
}


@pytest.mark.parametrize("nodes", ALONE.values(), ids=ALONE)
def test_what_stays_two_products(nodes: str) -> None:
    outputs = "float[b,6] y" + (", float[b,6] w" if " w =" in nodes else "")
    model = parse(f"(float[b,6] x, float[b,6] z) => ({outputs}) {{ {nodes} }}", **weights(U=(6, 6), V=(6, 6)))
    result = fuse(model)
    assert sum(node.op_type.startswith("FusedGemm") for node in result.model.graph.node) == 2
    agree(model, result, *cases(x=(6,), z=(6,)), tolerance=2e-6)


def test_weights_that_others_read_are_not_stored_twice() -> None:
    nodes = "p = MatMul(x, U) q = MatMul(x, V) r = MatMul(z, U) s = MatMul(z, V) y = Max(p, q, r, s)"
    model = parse(
        f"(float[b,200] x, float[b,200] z) => (float[b,200] y) {{ {nodes} }}",
        **{name: array / 20 for name, array in weights(U=(200, 200), V=(200, 200)).items()},
    )
    result = fuse(model)
    assert all("size 200 200" in form for form in forms(result))
    agree(model, result, *cases(x=(200,), z=(200,)), tolerance=4e-6)


def test_large_runs_have_columns_that_their_kernels_take() -> None:
    """Products of more than 32 values in runs need a multiple of 8 columns: others stay apart."""
    nodes = "p, q = Split <axis = 1> (t, halves) i = MatMul(p, U) j = MatMul(q, V) y = Max(i, j)"
    for columns, count in ((12, 2), (16, 1)):
        model = parse(
            f"(float[b,80] x) => (float[b,{columns}] y) {{ t = Tanh(x) {nodes} }}",
            halves=np.array([40, 40]),
            **weights(U=(40, columns), V=(40, columns)),
        )
        result = fuse(model)
        assert len(forms(result)) == count
        agree(model, result, *cases(x=(80,)), tolerance=1e-5)


def test_external_weights_stay_where_they_are() -> None:
    model = parse(
        "(float[b,6] x) => (float[b,4] y) { p = MatMul(x, U) q = MatMul(x, V) y = Max(p, q) }",
        **weights(U=(6, 4), V=(6, 4)),
    )
    for tensor in model.graph.initializer:
        tensor.ClearField("raw_data")
        tensor.data_location = onnx.TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="weights.bin")
    result = optimize_model(model, provider="cuda")
    assert [form.split("; ")[0] for form in forms(result)] == ["size 6 4", "size 6 4"]
    reason = "its weight is in another file or large, and can't be put beside others'"
    assert refusals(result) == {"p": reason, "q": reason}


def test_an_old_opset_stays() -> None:
    model = parse(
        "(float[b,6] x) => (float[b,4] y) { p = MatMul(x, U) q = MatMul(x, V) y = Max(p, q) }",
        opset=12,
        **weights(U=(6, 4), V=(6, 4)),
    )
    assert op_types(fuse(model).model) == ["MatMul", "MatMul", "Max"]


def test_products_inside_a_branch() -> None:
    text = """(float[b,6] x, bool flag) => (float[b,4] y) {
      y = If (flag) <then_branch = t () => (float[b,4] u) { p = MatMul(x, U) q = MatMul(x, V) u = Max(p, q) },
                     else_branch = e () => (float[b,4] v) { v = MatMul(x, W) }> }"""
    model = parse(text, **weights(U=(6, 4), V=(6, 4), W=(6, 4)))
    result = fuse(model)
    assert sorted(forms(result)) == ["size 6 4", "size 6 8"]
    for flag in (True, False):
        agree(model, result, *[{**case, "flag": np.array(flag)} for case in cases(x=(6,))], tolerance=2e-6)


def test_products_in_a_branch_are_one_there() -> None:
    """They cost nothing where the branch isn't taken."""
    first = "".join(f"p{i} = MatMul(x, U{i}) " for i in range(3))
    second = "".join(f"q{i} = MatMul(p0, V{i}) " for i in range(3))
    model = parse(
        f"""(float[b,6] x, bool c) => (float[b,4] y) {{
          {first} y = If (c) <
            then_branch = then () => (float[b,4] t) {{ {second} t = Sum(q0, q1, q2) }},
            else_branch = other () => (float[b,4] e) {{ e = Sum(p0, p1, p2) }}> }}""",
        **weights(**{f"U{i}": (6, 4) for i in range(3)}, **{f"V{i}": (4, 4) for i in range(3)}),
    )
    result = fuse(model)
    assert op_types(result.model) == ["FusedGemm", "Split", "If"]
    (branch,) = (a.g for a in result.model.graph.node[-1].attribute if a.name == "then_branch")
    assert op_types(branch) == ["FusedGemm_1", *["Slice"] * 3, "Sum"]
    for chosen in (True, False):
        agree(model, result, *(case | {"c": np.array(chosen)} for case in cases(x=(6,))), tolerance=2e-6)
