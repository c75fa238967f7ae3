"""Hazard: a pattern of real models isn't recognised, or what is put in its place gives other answers."""

from __future__ import annotations

import numpy as np

from tests.graph_passes.elementwise.fusing import ONE, TOLERANCE, TWO, batches, fused, lines
from tests.graph_passes.elementwise.programs import floats, program_texts
from tests.graph_passes.harness import agree, ids, op_types, optimize, parse, table


def test_second_order_of_a_factorization_machine() -> None:
    """One pass over the embeddings."""
    model = parse(
        """(float[b,26,16] x) => (float[b,1] y) {
            s = ReduceSum<keepdims=0>(x, one) s2 = Pow(s, two) x2 = Mul(x, x) q = ReduceSum<keepdims=0>(x2, one)
            d = Sub(s2, q) t = ReduceSum(d, one) y = Mul(t, half)
        }""",
        one=ONE,
        two=np.float32(2),
        half=np.float32(0.5),
    )
    for provider in ("cpu", "cuda"):
        result = fused(model, *batches(26, 16), provider=provider)
        assert op_types(result.model) == ["FusedElementwise"]
        assert lines(result) == [
            *("input f32 x 26 16", "sum f32 16 : 0 0", "mul f32 16 : 1 1", "mul f32 26 16 : 0 0", "sum f32 16 : 3 0"),
            *("sub f32 16 : 2 4", "sum f32 1 : 5 0", "const f32 5e-01", "mul f32 1 : 6 7", "output 8"),
        ]


def test_cross_network_of_vectors() -> None:
    """Three layers, one node."""
    model = parse(
        """(float[b,20] x) => (float[b,20] y) {
            s = MatMul(x, u) m = Mul(x, s) a = Add(m, p) c = Add(a, x)
            t = Gemm<transB=1>(c, v) n = Mul(x, t) d = Add(n, q) y = Add(d, c)
        }""",
        u=floats(20, 1),
        v=floats(1, 20),
        p=floats(20),
        q=floats(20),
    )
    for provider in ("cpu", "cuda"):
        result = fused(model, *batches(20), provider=provider)
        assert op_types(result.model) == ["FusedElementwise"]
    assert lines(result) == [
        *("input f32 x 20", "input f32 - 20 1", "input f32 - 20", "input f32 - 20", "input f32 - 20"),
        *("view f32 20 : 1 0 1", "mul f32 20 : 0 5", "sum f32 1 : 6 0", "mul f32 20 : 0 7", "add f32 20 : 8 2"),
        *("add f32 20 : 9 0", "mul f32 20 : 10 3", "sum f32 1 : 11 0", "mul f32 20 : 0 12", "add f32 20 : 13 4"),
        *("add f32 20 : 14 10", "output 15"),
    ]


def test_cross_network_of_matrices() -> None:
    """Each layer's epilogue; both places of the bias."""
    model = parse(
        """(float[b,8] x) => (float[b,8] y) {
            g = Gemm(x, w, v) m = Mul(x, g) c = Add(m, x) h = MatMul(c, w) n = Mul(x, h) p = Add(n, v) y = Add(p, c)
        }""",
        w=floats(8, 8),
        v=floats(8),
    )
    result = fused(model, *batches(8), provider="cpu")
    assert op_types(result.model) == ["Gemm", "FusedElementwise", "MatMul", "FusedElementwise_1"]
    assert lines(result, 0) == ["input f32 x 8", "input f32 x 8", "mul f32 8 : 0 1", "add f32 8 : 2 0", "output 3"]


def test_gated_cross_layer() -> None:
    """As GDCN has it: two products, and a gate."""
    model = parse(
        """(float[b,8] x) => (float[b,8] y) {
            g = Gemm(x, w) a = Add(g, v) h = Gemm(x, u) s = Sigmoid(h) m = Mul(x, a) n = Mul(m, s) y = Add(n, x)
        }""",
        w=floats(8, 8),
        u=floats(8, 8, seed=1),
        v=floats(8),
    )
    result = fused(model, *batches(8), provider="cpu")
    assert op_types(result.model) == ["Gemm", "Gemm", "Sigmoid", "FusedElementwise"]


def test_projections_of_numeric_fields() -> None:
    """Products of one number each, for the join with the looked-up rows."""
    fields = ", ".join(f"float[b] I{i}" for i in range(4))
    nodes = " ".join(
        f"r{i} = Reshape(I{i}, column) p{i} = MatMul(r{i}, w{i}) u{i} = Unsqueeze(p{i}, one)" for i in range(4)
    )
    model = parse(
        f"({fields}) => (float[b,16] y) {{ {nodes} j = Concat<axis=1>(u0, u1, u2, u3) y = Flatten(j) }}",
        column=np.array([-1, 1]),
        one=ONE,
        **{f"w{i}": floats(1, 4, seed=i) for i in range(4)},
    )
    case = {f"I{i}": floats(5, seed=i) for i in range(4)}
    for provider in ("cpu", "cuda"):
        result = fused(model, case, provider=provider)
        assert op_types(result.model) == ["FusedElementwise"]
    assert lines(result)[-2] == "view f32 16 : 16 0 1"


def test_projections_that_a_lookup_joins() -> None:
    """They are one node before it, though nothing connects them."""
    model = parse(
        """(float[b] I0, float[b] I1, int64[b] C0, int64[b] C1) => (float[b,16] y) {
            r0 = Reshape(I0, column) p0 = MatMul(r0, w0) u0 = Unsqueeze(p0, one)
            r1 = Reshape(I1, column) p1 = MatMul(r1, w1) u1 = Unsqueeze(p1, one)
            e0 = Gather(A, C0) u2 = Unsqueeze(e0, one) e1 = Gather(B, C1) u3 = Unsqueeze(e1, one)
            j = Concat<axis=1>(u0, u1, u2, u3) f = Flatten(j) y = MatMul(f, w)
        }""",
        column=np.array([-1, 1]),
        one=ONE,
        w0=floats(1, 4),
        w1=floats(1, 4),
        A=table(9, 4),
        B=table(7, 4),
        w=floats(16, 16),
    )
    case = {"I0": floats(5), "I1": floats(5, seed=1), "C0": ids(5, high=9), "C1": ids(5, high=7)}
    result = optimize(model, provider="cuda")
    assert op_types(result.model)[:2] == ["FusedElementwise", "FusedMultiGather"]
    assert lines(result)[:4] == ["input f32 x", "input f32 - 4", "input f32 x", "input f32 - 4"]
    agree(model, result, case, tolerance=TOLERANCE)


def test_batch_normalization_and_what_follows() -> None:
    """After a product of matrices and before a gate."""
    weights = {name: np.abs(floats(8, seed=i)) for i, name in enumerate(("s", "t", "m", "v"))}
    model = parse(
        "(float[b,8] x) => (float[b,8] y) { g = Gemm(x, w) n = BatchNormalization(g, s, t, m, v) y = Relu(n) }",
        w=floats(8, 8),
        **weights,
    )
    result = fused(model, *batches(8), provider="cpu")
    assert op_types(result.model) == ["Gemm", "FusedElementwise"]
    assert lines(result)[-2] == "relu f32 8 : 12"


def test_dice() -> None:
    weights = {name: np.abs(floats(8, seed=i)) for i, name in enumerate(("s", "t", "m", "v", "alpha"))}
    model = parse(
        """(float[b,8] x) => (float[b,8] y) {
            n = BatchNormalization(x, s, t, m, v) p = Sigmoid(n) q = Sub(unit, p) a = Mul(alpha, q) c = Mul(a, x)
            d = Mul(p, x) y = Add(d, c)
        }""",
        unit=np.float32(1),
        **weights,
    )
    for provider in ("cpu", "cuda"):
        result = fused(model, *batches(8), provider=provider)
        assert op_types(result.model) == ["FusedElementwise"]


def test_normalizations_of_each_field() -> None:
    """Slices, a normalization each, and the join: one node."""
    nodes = " ".join(
        f"s{i} = Slice(x, p{i}, p{i + 1}, one) n{i} = LayerNormalization(s{i}, w{i}, v{i})" for i in range(3)
    )
    model = parse(
        f"(float[b,3,8] x) => (float[b,24] y) {{ {nodes} j = Concat<axis=1>(n0, n1, n2) y = Flatten(j) }}",
        one=ONE,
        **{f"p{i}": np.array([i]) for i in range(4)},
        **{f"{n}{i}": floats(8, seed=i) for i in range(3) for n in "wv"},
    )
    for provider in ("cpu", "cuda"):
        # onnx.reference can't normalize an empty batch
        result = fused(model, *batches(3, 8)[1:], provider=provider)
        assert op_types(result.model) == ["FusedElementwise"]


def test_dot_interaction() -> None:
    """Products of all pairs, the upper triangle of them, and the dense part before it; as either exporter has it."""
    row, column = np.triu_indices(5, 1)
    dynamo = "a = Transpose<perm=[1,2,0]>(z) g = GatherND(a, pairs) t = Transpose<perm=[1,0]>(g)"
    script = "f = Flatten(z) t = Gather<axis=1>(f, linear)"
    for picks in (dynamo, script):
        model = parse(
            f"""(float[b,5,4] x, float[b,4] d) => (float[b,14] y) {{
                e = Transpose<perm=[0,2,1]>(x) z = MatMul(x, e) {picks} y = Concat<axis=1>(d, t)
            }}""",
            **({"linear": row * 5 + column} if picks is script else {"pairs": np.stack([row, column], 1)}),
        )
        case = {"x": floats(3, 5, 4), "d": floats(3, 4)}
        for provider in ("cpu", "cuda"):
            result = fused(model, case, provider=provider)
            assert op_types(result.model) == ["FusedElementwise"]
        assert lines(result) == [
            *("input f32 x 5 4", "input f32 x 4", "view f32 5 1 4 : 0 0 4 0 1", "mul f32 5 5 4 : 2 0"),
            *("sum f32 5 5 : 3 2", "pick f32 10 : 4 1 2 3 4 7 8 9 13 14 19", "join f32 14 : 0 1 5", "output 6"),
        ]


def test_pairs_by_index() -> None:
    """Each pair's inner product, from two picks of the fields."""
    row, column = np.triu_indices(5, 1)
    model = parse(
        """(float[b,5,4] x) => (float[b,10] y) {
            p = Gather<axis=1>(x, i) q = Gather<axis=1>(x, j) m = Mul(p, q) y = ReduceSum<keepdims=0>(m, two)
        }""",
        i=row,
        j=column,
        two=TWO,
    )
    for provider in ("cpu", "cuda"):
        assert op_types(fused(model, *batches(5, 4), provider=provider).model) == ["FusedElementwise"]


def test_masked_mean_pooling() -> None:
    """Of rows that are there already: a mask from ids, and a mean that divides by the number of them."""
    model = parse(
        """(int64[b,7] i, float[b,7,4] e) => (float[b,4] y) {
            z = Equal(i, zero) n = Not(z) m = Cast<to=1>(n) u = Unsqueeze(m, two) p = Mul(e, u)
            s = ReduceSum<keepdims=0>(p, one) c = ReduceSum(m, one) d = Add(c, small) y = Div(s, d)
        }""",
        zero=np.array(0),
        one=ONE,
        two=TWO,
        small=np.float32(1e-8),
    )
    case = {"i": ids(5, 7, high=3), "e": floats(5, 7, 4)}
    for provider in ("cpu", "cuda"):
        result = fused(model, case, provider=provider)
        assert op_types(result.model) == ["FusedElementwise"]
    assert lines(result)[2:5] == ["const i64 0", "eq bool 7 : 0 2", "not bool 7 : 3"]


def test_a_mask_from_rows_that_are_zero() -> None:
    """As FuxiCTR has it: a row of zeros doesn't count."""
    model = parse(
        """(float[b,7,4] x) => (float[b,4] y) {
            t = ReduceSum<keepdims=0>(x, two) z = Equal(t, zero) n = Not(z) m = Cast<to=1>(n) c = ReduceSum(m, one)
            s = ReduceSum<keepdims=0>(x, one) d = Add(c, small) y = Div(s, d)
        }""",
        zero=np.float32(0),
        one=ONE,
        two=TWO,
        small=np.float32(1e-12),
    )
    case = {"x": np.array(floats(5, 7, 4) * (floats(5, 7, 1) > 0), np.float32)}
    assert op_types(fused(model, case).model) == ["FusedElementwise"]


def test_gates_of_experts() -> None:
    """A softmax over the experts, and the sum of what they say."""
    model = parse(
        """(float[b,4,8] e, float[b,4] g) => (float[b,8] y) {
            s = Softmax<axis=1>(g) u = Unsqueeze(s, one) m = MatMul(u, e) y = Squeeze(m, one)
        }""",
        one=ONE,
    )
    case = {"e": floats(5, 4, 8), "g": floats(5, 4)}
    for provider in ("cpu", "cuda"):
        assert op_types(fused(model, case, provider=provider).model) == ["FusedElementwise"]


def test_a_head() -> None:
    """The join of two branches, the last layer with one column, and the activation."""
    model = parse(
        """(float[b,8] x, float[b,4] c, float[b,1] wide) => (float[b] y) {
            h = Gemm(x, w, v) r = Relu(h) j = Concat<axis=-1>(r, c) g = Gemm<transB=1>(j, u, bias) a = Add(g, wide)
            q = Squeeze(a, one) y = Sigmoid(q)
        }""",
        w=floats(8, 8),
        v=floats(8),
        u=floats(1, 12),
        bias=floats(1),
        one=ONE,
    )
    case = {"x": floats(5, 8), "c": floats(5, 4), "wide": floats(5, 1)}
    assert op_types(fused(model, case, provider="cpu").model) == ["Gemm", "Relu", "FusedElementwise"]
    result = fused(model, case, provider="cuda")
    assert op_types(result.model)[-1] == "FusedElementwise"


def test_target_attention_of_a_fixed_length() -> None:
    """The query beside every element of the history."""
    model = parse(
        """(float[b,1,4] q, float[b,7,4] k) => (float[b,7,16] y) {
            e = Expand(q, c) d = Sub(e, k) p = Mul(e, k) y = Concat<axis=-1>(e, k, d, p)
        }""",
        c=np.array([1, 7, 1]),
    )
    case = {"q": floats(5, 1, 4), "k": floats(5, 7, 4)}
    assert op_types(fused(model, case).model) == ["FusedElementwise"]


def test_target_attention_of_a_dynamic_length() -> None:
    """A row is a batch's row at one position, and the query has no positions."""
    model = parse(
        "(float[b,1,4] q, float[b,l,4] k) => (float[b,l,8] y) { d = Sub(q, k) p = Mul(d, k) y = Concat<axis=-1>(d, p) }"
    )
    result = fused(model, {"q": floats(5, 1, 4), "k": floats(5, 7, 4)})
    assert op_types(result.model) == ["FusedElementwise"]
    assert program_texts(result.model)[0].startswith("elementwise 1\nrows 2\ninput f32 x- 4\ninput f32 xx 4\n")


def test_an_accumulator_that_starts_at_zero() -> None:
    """What is left of it is nothing."""
    model = parse(
        """(float[b,4] x, float[b,1] w) => (float[b,1] y) {
            n = Shape<end=1>(x) c = Concat<axis=0>(n, one) z = ConstantOfShape(c) a = Add(z, w) s = ReduceSum(x, one) y = Add(a, s)
        }""",
        one=ONE,
    )
    case = {"x": floats(5, 4), "w": floats(5, 1)}
    assert op_types(fused(model, case).model) == ["FusedElementwise"]
