"""Hazard: test inputs are drawn from ids that the model can't answer, or from so few that nothing is tested."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest

from dpiframe.graph_passes.id_ranges import Ranges, id_ranges
from dpiframe.graph_passes.list_columns import Lengths, Offsets
from dpiframe.graph_passes.pipeline import optimize_model
from tests.graph_passes.bag_models import scan_loop, sequence_loop
from tests.graph_passes.harness import fails, parse, session, table


def ranges(text: str, **initializers: np.ndarray) -> dict[str, list[range | None]]:
    model = parse(text, **initializers)
    found = id_ranges(model)
    answered(model, found)
    return found


def answered(model: onnx.ModelProto, found: dict[str, list[range | None]]) -> None:
    """The model answers the lowest and the highest id of each range, and not one beyond."""
    kinds = {1: np.float32, 11: np.float64, 6: np.int32, 7: np.int64}
    for pick in (0, -1):
        case = {}
        for value in model.graph.input:
            columns = found.get(value.name, [None])
            dims = [d.dim_value or (2 if d.dim_param == "b" else 3) for d in value.type.tensor_type.shape.dim]
            values = np.array([0 if not r else r[pick] for r in columns])
            transposed = bool(value.type.tensor_type.shape.dim[-1].dim_param) and len(dims) > 1 and dims[0] != 2
            shape = (-1, 1) if transposed else (1, -1)
            filled = np.broadcast_to(
                values.reshape(shape), dims if transposed else (dims[0], max(1, int(np.prod(dims[1:]))))
            )
            case[value.name] = filled.reshape(dims).astype(kinds[value.type.tensor_type.elem_type])
        assert not fails(model, case), (found, case)


def test_plain_ids() -> None:
    text = "(int64[b] a, int64[b] c) => (float[b,8] y) { e = Gather(A, a) f = Gather(C, c) y = Concat<axis=1>(e, f) }"
    assert ranges(text, A=table(10, 4), C=table(1, 4)) == {"a": [range(10)], "c": [range(1)]}


def test_a_matrix_of_ids_and_dense_columns() -> None:
    text = """(float[b,4] X) => (float[b,10] y) {
        i0 = Constant<value_ints=[0]>() i1 = Constant<value_ints=[1]>() i2 = Constant<value_ints=[2]>()
        i3 = Constant<value_ints=[3]>() i4 = Constant<value_ints=[4]>()
        p = Slice(X, i0, i1, i1) q = Slice(X, i2, i3, i1) d = Slice(X, i3, i4, i1) g = Slice(X, i1, i2, i1)
        c = Cast<to=7>(p) k = Cast<to=7>(q)
        e = Gather(A, c) f = Gather(C, k) j = Concat<axis=-1>(e, f) r = Flatten(j)
        y = Concat<axis=1>(r, d, g)
    }"""
    assert ranges(text, A=table(10, 4), C=table(20, 4)) == {"X": [range(10), None, range(20), None]}


def test_a_matrix_with_the_batch_last() -> None:
    text = (
        """(int64[3,b] x) => (float[b,4] y) { s = Constant<value_int=1>() q = Gather<axis=0>(x, s) y = Gather(A, q) }"""
    )
    assert ranges(text, A=table(10, 4)) == {"x": [None, range(10), None]}


def test_one_id_for_two_tables_fits_the_smaller() -> None:
    text = "(int64[b] a) => (float[b,8] y) { e = Gather(A, a) f = Gather(C, a) y = Concat<axis=1>(e, f) }"
    assert ranges(text, A=table(10, 4), C=table(7, 4)) == {"a": [range(7)]}


@pytest.mark.parametrize(
    ("steps", "want"),
    [
        ("i = Add(a, n)", range(13)),
        ("i = Sub(a, n)", range(7, 27)),
        ("i = Mul(a, n)", range(3)),
        ("i = Div(a, n)", range(140)),
        ("i = Mod(a, n)", range(1 << 31)),
        ("m = Mul(a, n) i = Sub(m, n)", range(1, 4)),
        ("d = Div(a, n) i = Mod(d, n)", range(1 << 31)),
        ("d = Mod(a, big) i = Add(d, n)", range(13)),
        ("d = Div(a, n) m = Mod(d, big) i = Add(m, n)", range(13 * 7)),
    ],
)
def test_arithmetic(steps: str, want: range) -> None:
    words = steps.replace("(", " ").replace(")", " ").replace(",", " ").split()
    constants = {"n": np.array([7]), "big": np.array([50])}
    text = f"(int64[b] a) => (float[b,4] y) {{ {steps} y = Gather(W, i) }}"
    assert ranges(text, W=table(20, 4), **{n: v for n, v in constants.items() if n in words}) == {"a": [want]}


@pytest.mark.parametrize("order", ["mask first", "lookup first"])
def test_a_mask_of_ids_does_not_narrow_them(order: str) -> None:
    lines = ["e = Gather(W, x)", "g = Greater(x, zero) m = Cast<to=1>(g) mu = Unsqueeze(m, i2)"]
    text = f"""(int64[b,3] x) => (float[b,4] y) {{
        zero = Constant<value_int=0>() i1 = Constant<value_ints=[1]>() i2 = Constant<value_ints=[2]>()
        {" ".join(lines if order == "lookup first" else lines[::-1])}
        me = Mul(e, mu) y = ReduceSum<keepdims=0>(me, i1)
    }}"""
    assert ranges(text, W=table(10, 4)) == {"x": [range(10)] * 3}


def test_a_length_counts_to_one_past_the_last_position() -> None:
    text = """(int64[b,3] x, int64[b,1] len) => (float[b,4] y) {
        i1 = Constant<value_ints=[1]>() i2 = Constant<value_ints=[2]>()
        e = Gather(W, x) l = Less(positions, len) m = Cast<to=1>(l) mu = Unsqueeze(m, i2)
        me = Mul(e, mu) y = ReduceSum<keepdims=0>(me, i1)
    }"""
    assert ranges(text, W=table(10, 4), positions=np.array([[0, 1, 2]])) == {"x": [range(10)] * 3, "len": [range(4)]}


def test_a_dynamic_length_is_one_range_for_all() -> None:
    text = "(int64[b,l] x) => (float[b,4] y) { i1 = Constant<value_ints=[1]>() e = Gather(W, x) y = ReduceSum<keepdims=0>(e, i1) }"
    assert ranges(text, W=table(10, 4)) == {"x": [range(10)]}


def test_lookups_in_branches_and_functions() -> None:
    text = """(int64[b] a, int64[b] c, bool f) => (float[b,4] y) {
        e = local.embed(A, a)
        g = If (f) <then_branch = t () => (z) { z = Gather(C, c) }, else_branch = s () => (z) { z = Gather(C, c) }>
        y = Add(e, g)
    }"""
    model = parse(
        text,
        imports=', "local": 1',
        functions='<domain: "local", opset_import: ["": 20]> embed (t, i) => (o) { o = Gather(t, i) }',
        A=table(10, 4), C=table(20, 4),
    )  # fmt: skip
    assert id_ranges(model) == {"a": [range(10)], "c": [range(20)]}


def test_inputs_that_feed_no_lookup_are_left_out() -> None:
    text = "(int64[b] a, float[b,3] x, int64[b] n) => (float[b,4] y, float[b,3] z, int64[b] m) { y = Gather(A, a) z = Relu(x) m = Neg(n) }"
    assert ranges(text, A=table(10, 4)) == {"a": [range(10)]}


def test_ids_from_rows_say_nothing_of_the_inputs() -> None:
    text = "(int64[b] a) => (float[b,1,4] y) { n = Gather(N, a) c = Cast<to=7>(n) y = Gather(W, c) }"
    assert ranges(text, N=np.zeros((5, 1), np.float32), W=table(3, 4)) == {"a": [range(5)]}


def test_ranges_that_leave_nothing() -> None:
    model = parse(
        "(int64[b] a) => (float[b,8] y) { i = Sub(a, n) e = Gather(W, i) f = Gather(W, a) y = Concat<axis=1>(e, f) }",
        W=table(5, 4), n=np.array([50]),
    )  # fmt: skip
    (found,) = id_ranges(model)["a"]
    assert found is not None
    assert len(found) == 0


def test_the_model_is_not_changed() -> None:
    model = parse("(int64[b] a) => (float[b,4] y) { y = Gather(A, a) }", A=table(10, 4))
    before = model.SerializeToString(deterministic=True)
    id_ranges(model)
    assert model.SerializeToString(deterministic=True) == before
    assert session(model).run(None, {"a": np.array([9])})[0].shape == (1, 4)


def test_a_model_without_lookups() -> None:
    assert id_ranges(parse("(float[b,3] x) => (float[b,3] y) { y = Relu(x) }")) == {}


@pytest.mark.parametrize("form", [scan_loop, sequence_loop])
def test_bags_have_ids_of_their_table_and_offsets_into_their_list(form: Callable[..., onnx.ModelProto]) -> None:
    assert id_ranges(form()) == {"ids": [range(20)], "offsets": [Offsets("ids")]}
    assert id_ranges(form(bounds=True)) == {"ids": [range(20)], "offsets": [Offsets("ids", closed=True)]}


@pytest.mark.parametrize("op", ["mean", "max"])
def test_bounds_of_which_the_last_is_moved(op: str) -> None:
    """The bag that a loop takes to the end of its list, whatever the last bound says."""
    assert id_ranges(sequence_loop(op, bounds=True))["offsets"] == [Offsets("ids", closed=True)]


SUMS = "sums = CumSum (lengths, zero)\n"


@pytest.mark.parametrize(
    ("before", "bounds", "held"),
    [
        (SUMS + "offsets = Concat <axis = 0> (zero_1d, sums)", True, {"lengths": [Lengths("ids")]}),
        (
            SUMS + "most = Slice (sums, zero_1d, minus_one, zero_1d)\noffsets = Concat <axis = 0> (zero_1d, most)",
            False,
            {"lengths": [Lengths("ids")]},
        ),
        ("offsets = CumSum <exclusive = 1> (lengths, zero)", False, {"lengths": [Lengths("ids")]}),
        (
            "wide = Cast <to = 7> (lengths)\noffsets = Slice (wide, zero_1d, minus_one, zero_1d)",
            False,
            {"lengths": [Offsets("ids", closed=True)]},
        ),
        ("offsets = Identity (lengths)", False, {"lengths": [Offsets("ids")]}),
        ("offsets = Reshape (lengths, minus_one)", False, {"lengths": [Offsets("ids")]}),
        ("twice = Add (lengths, lengths)\noffsets = CumSum (twice, zero)", True, {}),
    ],
)
@pytest.mark.parametrize("form", [scan_loop, sequence_loop])
def test_what_offsets_are_made_of(
    form: Callable[..., onnx.ModelProto], before: str, bounds: bool, held: Ranges
) -> None:
    kind = "int32" if "Cast" in before else "int64"
    model = form(before=before, bounds=bounds, inputs=f"int64[n] ids, {kind}[m] lengths")
    assert id_ranges(model) == {"ids": [range(20)], **held}


def test_each_column_of_a_list_that_is_laid_out_flat_has_ids_and_one_of_several_offsets_is_known() -> None:
    model = scan_loop(
        before="ids = Reshape (matrix, minus_one)\noffsets = Gather <axis = 0> (all_offsets, one)",
        inputs="int64[n, 3] matrix, int64[2, m] all_offsets",
    )
    assert id_ranges(model) == {"matrix": [range(20)] * 3, "all_offsets": [None, Offsets("matrix")]}


def test_offsets_that_are_computed_say_nothing_of_an_input() -> None:
    model = scan_loop(
        before="offsets = Mul (halves, two)", inputs="int64[n] ids, int64[m] halves", constants={"two": np.array(2)}
    )
    assert id_ranges(model) == {"ids": [range(20)]}


def test_of_a_model_that_is_optimized() -> None:
    model = parse(
        """(int64[b,2] ids) => (float[b,7] y) {
          a = Gather <axis = 1> (ids, zero) c = Gather <axis = 1> (ids, one)
          e = Gather(A, a) f = Gather(C, c) y = Concat <axis = 1> (e, f) }""",
        zero=np.array(0),
        one=np.array(1),
        A=table(20, 4),
        C=table(30, 3),
    )
    result = optimize_model(model, provider="cuda")
    assert result.fused
    assert id_ranges(result.model) == id_ranges(model) == {"ids": [range(20), range(30)]}
