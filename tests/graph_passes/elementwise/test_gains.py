"""Hazard: a group is formed that is slower than the nodes that it replaces, or one that would be faster isn't."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from dpiframe.graph_passes.elementwise.gains import PRODUCTS, WAITING, absorbed, copies_better, kernels, why_not, work
from dpiframe.graph_passes.elementwise.lower import Lowering
from dpiframe.graph_passes.elementwise.trim import given
from dpiframe.graph_passes.graphs import Node
from dpiframe.graph_passes.workbench import Workbench
from tests.graph_passes.elementwise.programs import floats
from tests.graph_passes.harness import op_types, optimize, parse

ONE_KERNEL = "ONNX Runtime runs it as one kernel"
AS_FAST = "ONNX Runtime is as fast on a CPU"


def nodes_of(model: onnx.ModelProto) -> tuple[Workbench, list[Node], Lowering]:
    bench = Workbench(model)
    bench.infer_shapes()
    return bench, bench.graph.nodes, Lowering(bench.opset, None, PRODUCTS["cuda"], bench.output_ids())


def verdict(model: onnx.ModelProto, provider: str) -> str | None:
    bench, nodes, lowering = nodes_of(model)
    results = given(nodes, bench.output_ids())
    axes, _ = lowering.alone(nodes[0])
    return why_not(nodes, lowering.lower(axes, nodes, results).program, results, provider)


def left_out(model: onnx.ModelProto, provider: str = "cpu") -> list[str]:
    """The outputs of nodes that ONNX Runtime fuses into a product."""
    _, nodes, _ = nodes_of(model)
    accepted: set[int] = set()
    found = []
    for node in nodes:
        if node.op not in ("Gemm", "MatMul", "Conv"):
            if absorbed(node, accepted, provider):
                found.append(node.outputs[0].name)
            else:
                accepted.add(id(node))
    return found


W = floats(8, 8)


@pytest.mark.parametrize("op", ["Relu", "Sigmoid", "Tanh", "LeakyRelu", "Elu", "HardSigmoid", "Softplus", "Softsign"])
def test_activations_after_a_gemm(op: str) -> None:
    model = parse(f"(float[b,8] x) => (float[b,8] y) {{ g = Gemm(x, w) a = {op}(g) y = Neg(a) }}", w=W)
    assert left_out(model) == ["a"]
    assert left_out(model, "cuda") == []


@pytest.mark.parametrize(
    ("text", "want"),
    [
        # a bias that is added to a product of matrices, and the activation behind it
        ("g = MatMul(x, w) a = Add(g, v) y = Relu(a)", ["a", "y"]),
        ("g = MatMul(x, w) a = Add(v, g) y = Relu(a)", ["a", "y"]),
        ("g = MatMul(x, w) a = Add(g, x) y = Relu(a)", []),
        ("g = MatMul(x, w) y = Relu(g)", []),
        # what something else reads as well
        ("g = Gemm(x, w) a = Relu(g) c = Neg(g) y = Add(a, c)", []),
        ("g = MatMul(x, w) a = Add(g, v) c = Neg(g) y = Add(a, c)", []),
        # no activation, and one of no product
        ("g = Gemm(x, w) y = Neg(g)", []),
        ("g = Gemm(x, w) y = Gelu(g)", []),
        ("g = Neg(x) y = Relu(g)", []),
        ("y = Relu(x)", []),
    ],
)
def test_what_a_product_takes_in_on_a_cpu(text: str, want: list[str]) -> None:
    assert left_out(parse(f"(float[b,8] x) => (float[b,8] y) {{ {text} }}", w=W, v=floats(8))) == want


@pytest.mark.parametrize(("batch", "want"), [("b", []), ("5", ["a"])])
def test_a_product_of_more_axes_takes_a_bias_in_only_where_all_sizes_are_known(batch: str, want: list[str]) -> None:
    text = f"(float[{batch},3,8] x) => (float[{batch},3,8] y) {{ g = MatMul(x, w) a = Add(g, v) y = Tanh(a) }}"
    assert left_out(parse(text, w=W, v=floats(8))) == want


def test_an_activation_after_a_product_that_is_in_the_group_itself() -> None:
    """A Gemm with one column and its Sigmoid go together."""
    model = parse("(float[b,8] x) => (float[b,1] y) { g = Gemm(x, w) y = Sigmoid(g) }", w=floats(8, 1))
    _, nodes, _ = nodes_of(model)
    assert not absorbed(nodes[1], {id(node) for node in nodes}, "cpu")
    # to ONNX Runtime they are one kernel all the same
    assert (kernels(nodes, "cpu"), kernels(nodes, "cuda")) == (1, 2)


def test_an_activation_whose_gemm_has_another_reader_is_a_kernel_of_its_own() -> None:
    model = parse("(float[b,8] x) => (float[b,1] y) { g = Gemm(x, w) s = Tanh(g) y = Mul(g, s) }", w=floats(8, 1))
    _, nodes, _ = nodes_of(model)
    assert kernels(nodes, "cpu") == 3


@pytest.mark.parametrize(
    ("text", "cpu", "cuda"),
    [
        ("y = Neg(x)", 1, 1),
        ("a = Neg(x) y = Exp(a)", 2, 2),
        ("a = Reshape(x, c) y = Exp(a)", 1, 1),
        ("a = Reshape(x, c) d = Flatten(a) y = Identity(d)", 0, 0),
        ("y = Mish(x)", 3, 3),
        ("a = HardSwish(x) y = Neg(a)", 3, 3),
        ("a = Slice(x, zero, four, one) d = Slice(x, four, eight, one) y = Concat<axis=1>(a, d)", 3, 3),
    ],
)
def test_kernels_that_onnx_runtime_runs(text: str, cpu: int, cuda: int) -> None:
    model = parse(
        f"(float[b,8] x) => (float[b,8] y) {{ {text} }}",
        c=np.array([0, 8]),
        zero=np.array([0]),
        one=np.array([1]),
        four=np.array([4]),
        eight=np.array([8]),
    )
    _, nodes, _ = nodes_of(model)
    assert (kernels(nodes, "cpu"), kernels(nodes, "cuda")) == (cpu, cuda)


def test_work_counts_what_is_read_or_made() -> None:
    model = parse(
        """(float[b,26,16] e) => (float[b,1] y) {
            s = ReduceSum<keepdims=0>(e, one) r = Reshape(s, c) m = Mul(r, w) y = ReduceSum(m, one)
        }""",
        one=np.array([1]),
        c=np.array([0, 16]),
        w=floats(16),
    )
    _, nodes, _ = nodes_of(model)
    assert work(nodes) == 26 * 16 + 16 + 16


def test_early_work_waits_on_a_cpu_and_a_little_of_it_on_a_gpu() -> None:
    assert WAITING["cpu"] > 1 << 40
    assert 0 < WAITING["cuda"] < 1 << 14


@pytest.mark.parametrize("provider", ["cpu", "cuda"])
def test_a_single_kernel_stays(provider: str) -> None:
    for text in ("y = Neg(x)", "a = Reshape(x, c) y = Identity(a)"):
        model = parse(f"(float[b,8] x) => (float[b,8] y) {{ {text} }}", c=np.array([0, 8]))
        assert verdict(model, provider) == ONE_KERNEL


def test_a_view_is_a_node_to_a_gpus_host() -> None:
    model = parse("(float[b,8] x) => (float[b,8] y) { a = Reshape(x, c) y = Neg(a) }", c=np.array([0, 8]))
    assert verdict(model, "cuda") is None
    assert verdict(model, "cpu") == ONE_KERNEL


@pytest.mark.parametrize("provider", ["cpu", "cuda"])
@pytest.mark.parametrize(
    "text",
    [
        "a = Mul(x, x) y = Add(a, x)",
        "a = Add(x, x) y = Relu(a)",
        "y = Mish(x)",
        "a = LayerNormalization(x, v) y = Mul(a, x)",
        "a = Log(x) y = Mul(a, x)",
        "a = Sigmoid(x) y = Mul(a, v)",
        "a = Tanh(x) y = Mul(a, x)",
        "a = Erf(x) y = Mul(a, x)",
        "a = Add(x, v) y = Softmax(a)",
        "c = Greater(x, v) y = Where(c, x, v)",
    ],
)
def test_groups_that_win_anywhere(text: str, provider: str) -> None:
    assert verdict(parse(f"(float[b,256] x) => (float[b,256] y) {{ {text} }}", v=floats(256)), provider) is None


@pytest.mark.parametrize(
    "text",
    [
        "a = Sin(x) y = Mul(a, x)",
        "a = Add(x, x) y = Atan(a)",
    ],
)
def test_groups_that_win_on_a_gpu_only(text: str) -> None:
    model = parse(f"(float[b,256] x) => (float[b,256] y) {{ {text} }}")
    assert verdict(model, "cuda") is None
    assert verdict(model, "cpu") == AS_FAST


def test_a_value_that_gates_itself_is_one_kernel_on_a_cpu() -> None:
    for text in ("s = Sigmoid(x) y = Mul(s, x)", "s = Sigmoid(x) y = Mul(x, s)"):
        model = parse(f"(float[b,256] x) => (float[b,256] y) {{ {text} }}")
        assert verdict(model, "cpu") == ONE_KERNEL
        assert verdict(model, "cuda") is None


def test_what_a_node_costs_outweighs_a_few_elements() -> None:
    model = parse("(float[b,1] x) => (float[b,1] y) { a = Add(x, x) y = Sigmoid(a) }")
    assert verdict(model, "cpu") is None


def test_several_nodes_outweigh_a_slower_one() -> None:
    model = parse(
        "(float[b,64] x) => (float[b,64] y) { p = Sigmoid(x) q = Sub(v, p) a = Mul(q, v) c = Mul(a, x) d = Mul(p, x) y = Add(c, d) }",
        v=floats(64),
    )
    assert verdict(model, "cpu") is None


# nodes that move elements


@pytest.mark.parametrize(
    ("text", "shape", "result", "want"),
    [
        # single elements out of a row: ONNX Runtime copies one at a time
        ("Gather<axis=1>(x, i)", "729", "100", False),
        ("Gather<axis=1>(x, i)", "26,16", "100,16", False),
        ("Gather<axis=-1>(x, i)", "26,16", "26,100", False),
        # transposed matrices, and blocks
        ("Transpose<perm=[0,2,1]>(x)", "26,16", "16,26", False),
        ("Transpose<perm=[0,2,1,3]>(x)", "4,16,8", "16,4,8", False),
        # pairs of elements
        ("Transpose<perm=[0,2,1,3]>(x)", "4,64,2", "64,4,2", True),
        ("Neg(x)", "26,16", "26,16", False),
        ("Sin(x)", "26,16", "26,16", False),
    ],
)
def test_what_a_cpu_copies_faster(text: str, shape: str, result: str, want: bool) -> None:
    index = np.arange(100) * 7 % (16 if "-1" in text else int(shape.split(",")[0]))
    model = parse(f"(float[b,{shape}] x) => (float[b,{result}] y) {{ y = {text} }}", i=index)
    if "Gather" not in text:
        del model.graph.initializer[:]
    _, nodes, lowering = nodes_of(model)
    assert copies_better(nodes[0], lowering.alone(nodes[0])[1]) is want


# whole models


def test_a_products_activation_stays_beside_it_on_a_cpu() -> None:
    text = "(float[b,8] x, float[b,1] z) => (float[b,1] y) { g = Gemm(x, w) r = Relu(g) h = Gemm(r, v) s = Add(h, z) y = Sigmoid(s) }"
    model = parse(text, w=W, v=floats(8, 1))
    assert op_types(optimize(model).model) == ["Gemm", "Relu", "FusedElementwise"]


def test_products_within_a_row_are_fused_up_to_a_size() -> None:
    text = (
        "(float[b,{n},{k}] e) => (float[b,{n},{n}] y) {{ t = Transpose<perm=[0,2,1]>(e) m = MatMul(e, t) y = Relu(m) }}"
    )
    for n, k, provider, want in (
        (6, 4, "cpu", ["FusedElementwise"]),
        (6, 4, "cuda", ["FusedElementwise"]),
        (27, 16, "cuda", ["FusedElementwise"]),
        (27, 16, "cpu", ["FusedElementwise"]),
        (64, 64, "cpu", ["Transpose", "MatMul", "Relu"]),
        (64, 64, "cuda", ["Transpose", "MatMul", "Relu"]),
    ):
        assert op_types(optimize(parse(text.format(n=n, k=k)), provider=provider).model) == want
