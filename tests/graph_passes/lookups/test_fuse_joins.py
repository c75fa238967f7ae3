"""Hazard: rows are joined in another order, or what reads a join is taken for one. P numbers are pattern numbers."""

from __future__ import annotations

import numpy as np
import pytest

from tests.graph_passes.harness import (
    FP32_TOLERANCE,
    OP,
    agree,
    batches,
    blocks,
    fuse_all,
    ids,
    op_types,
    optimize,
    parse,
    programs,
    table,
)

# joins


@pytest.mark.parametrize("flatten", ["y = Flatten<axis=1>(j)", "y = Reshape(j, keep)", "y = Reshape(j, solve)"])
def test_stack_and_flatten(flatten: str) -> None:
    model = parse(
        f"""(int64[b] a, int64[b] c) => (float[b,8] y) {{
            one = Constant<value_ints=[1]>()
            keep = Constant<value_ints=[0, -1]>()  solve = Constant<value_ints=[-1, 8]>()
            e = Gather(A, a)  f = Gather(C, c)
            eu = Unsqueeze(e, one)  fu = Unsqueeze(f, one)
            j = Concat<axis=1>(eu, fu)
            {flatten}
        }}""",
        A=table(10, 4), C=table(20, 4),
    )  # fmt: skip
    result = optimize(model)
    assert op_types(result.model) == [OP]
    assert programs(result)[0].splitlines()[7:] == ["output 8", "row 0 0 4 0 0:0 0", "row 0 4 4 1 1:0 0"]
    # the original itself can't solve -1 for an empty batch
    sizes = (1, 5) if "keep" in flatten else (0, 1, 5)
    agree(model, result, *batches({"a": (("b",), 10), "c": (("b",), 20)}, sizes))


def test_two_joins_of_the_same_bytes_are_one_output_and_a_view() -> None:
    model = parse(
        """(int64[b,1] a, int64[b,1] c) => (float[b,2,4] fm, float[b,8] deep, float[b,9] more) {
            shape = Constant<value_ints=[-1, 8]>()
            e = Gather(A, a)  f = Gather(C, c)
            stack = Concat<axis=1>(e, f)
            fm = Relu(stack)
            flat = Concat<axis=-1>(e, f)
            d = Reshape(flat, shape)
            deep = Relu(d)
            one = Cast<to=1>(a)
            more = Concat<axis=1>(d, one)
        }""",
        A=table(10, 4), C=table(20, 4),
    )  # fmt: skip
    result = optimize(model)
    assert sorted(op_types(result.model)) == sorted([OP, "Reshape", "Relu", "Relu", "Cast"])
    assert [line for line in programs(result)[0].splitlines() if line.startswith("output")] == [
        "output 2 4",
        "output 9",
    ]
    agree(model, result, *batches({"a": (("b", 1), 10), "c": (("b", 1), 20)}))


def test_joins_on_the_last_axis_of_mixed_dims_with_dense_columns() -> None:
    # [b,1,d] pieces of several dims, flattened, then dense slices of the same matrix
    model = parse(
        """(float[b,5] X) => (float[b,15] y) {
            i0 = Constant<value_ints=[0]>()  i1 = Constant<value_ints=[1]>()  i2 = Constant<value_ints=[2]>()
            i5 = Constant<value_ints=[5]>()
            x0 = Slice(X, i0, i1, i1)  x1 = Slice(X, i1, i2, i1)  dense = Slice(X, i2, i5, i1)
            c0 = Cast<to=7>(x0)  c1 = Cast<to=7>(x1)
            e = Gather(A, c0)  f = Gather(C, c1)
            j = Concat<axis=-1>(e, f)
            flat = Flatten(j)
            y = Concat<axis=-1>(flat, dense)
        }""",
        A=table(10, 4), C=table(20, 8),
    )  # fmt: skip
    result = optimize(model)
    assert op_types(result.model) == [OP]
    assert blocks(result) == ["row 0 0 4 0 0:0 0", "row 0 4 8 1 0:1 0", "copy 0 12 3 0 2"]
    x = np.random.default_rng(0).random((6, 5)).astype(np.float32) * 9.99
    agree(model, result, {"X": x}, {"X": x[:1]}, {"X": x[:0]})


# a constant added to rows


def test_zeros_added_to_rows_are_dropped() -> None:
    model = parse(
        """(int64[b] a, int64[b] c) => (float[b,8] y) {
            e = Gather(A, a)  f = Gather(C, c)
            e0 = Add(e, zeros)  f0 = Add(zeros, f)
            y = Concat<axis=1>(e0, f0)
        }""",
        A=table(10, 4), C=table(20, 4), zeros=np.zeros((1, 4), np.float32),
    )  # fmt: skip
    result = optimize(model)
    assert op_types(result.model) == [OP]
    agree(model, result, *batches({"a": (("b",), 10), "c": (("b",), 20)}))


def test_other_constants_stay_outside() -> None:
    model = parse(
        """(int64[b] a, int64[b] c) => (float[b,8] y) {
            e = Gather(A, a)  f = Gather(C, c)
            e1 = Add(e, bias)  f1 = Add(f, bias)
            y = Concat<axis=1>(e1, f1)
        }""",
        A=table(10, 4), C=table(20, 4), bias=np.array([[0, 0, 0, 1e-3]], np.float32),
    )  # fmt: skip
    result = fuse_all(model)
    assert op_types(result.model) == [OP, "Add", "Add", "Concat"]
    agree(model, result, *batches({"a": (("b",), 10), "c": (("b",), 20)}))


# what else reads rows


def test_rows_that_are_expanded_stay_rows() -> None:
    # the query of a target attention
    model = parse(
        """(int64[b,1] a) => (float[b,3,4] y) {
            shape = Constant<value_ints=[1, 3, 4]>()
            e = Gather(W, a)
            y = Expand(e, shape)
        }""",
        W=table(10, 4),
    )
    result = fuse_all(model)
    assert op_types(result.model) == [OP, "Expand"]
    agree(model, result, *batches({"a": (("b", 1), 10)}))


def test_rows_that_are_transposed_stay_rows() -> None:
    # E and its transpose
    model = parse(
        """(int64[b,3] x) => (float[b,3,3] y) {
            e = Gather(W, x)
            t = Transpose<perm=[0,2,1]>(e)
            y = MatMul(e, t)
        }""",
        W=table(10, 4),
    )
    result = fuse_all(model)
    assert op_types(result.model) == [OP, "Transpose", "MatMul"]
    agree(model, result, *batches({"x": (("b", 3), 10)}), tolerance=FP32_TOLERANCE)


def test_pairs_picked_from_a_join_stay_picks() -> None:
    # n (n - 1) / 2 rows of n
    model = parse(
        """(int64[b,4] x) => (float[b,6,4] y) {
            e = Gather(W, x)
            p = Gather<axis=1>(e, first)  q = Gather<axis=1>(e, second)
            y = Mul(p, q)
        }""",
        W=table(10, 4), first=np.array([0, 0, 0, 1, 1, 2]), second=np.array([1, 2, 3, 2, 3, 3]),
    )  # fmt: skip
    result = fuse_all(model)
    assert op_types(result.model) == [OP, "Gather", "Gather", "Mul"]
    agree(model, result, *batches({"x": (("b", 4), 10)}))


def test_slices_of_a_join_are_taken_in() -> None:
    # a join that is split again
    model = parse(
        """(int64[b,2] x) => (float[b,1,4] y) {
            e = Gather(W, x)
            p, q = Split<axis=1, num_outputs=2>(e)
            y = Mul(p, q)
        }""",
        W=table(10, 4),
    )
    result = optimize(model)
    assert op_types(result.model) == [OP, "Mul"]
    assert blocks(result) == ["row 0 0 4 0 0:0 0", "row 1 0 4 0 0:1 0"]
    agree(model, result, *batches({"x": (("b", 2), 10)}))


def test_an_empty_part_that_nobody_reads_does_not_matter() -> None:
    # groups of features of which a model has none
    model = parse(
        """(int64[b,2] x) => (float[b,1,4] y) {
            e = Gather(W, x)
            none, p, q = Split<axis=1>(e, sizes)
            y = Mul(p, q)
        }""",
        W=table(10, 4), sizes=np.array([0, 1, 1]),
    )  # fmt: skip
    result = optimize(model)
    assert op_types(result.model) == [OP, "Mul"]
    agree(model, result, *batches({"x": (("b", 2), 10)}))


def test_a_split_by_sizes_known_only_at_run_time_stays() -> None:
    model = parse(
        """(int64[b,4] x, int64[2] sizes) => (float[b,m,4] y, float[b,n,4] z) {
            e = Gather(W, x)
            y, z = Split<axis=1>(e, sizes)
        }""",
        W=table(10, 4),
    )
    result = fuse_all(model)
    assert op_types(result.model) == [OP, "Split"]
    agree(model, result, {"x": ids(3, 4, high=10), "sizes": np.array([1, 3])})


def test_squeezing_axes_known_only_at_run_time_stays() -> None:
    model = parse(
        """(int64[b,1,1] x, int64[n] axes) => (float[k, l, 4] y) {
            e = Gather(W, x)
            y = Squeeze(e, axes)
        }""",
        W=table(10, 4),
    )
    result = fuse_all(model)
    assert op_types(result.model) == [OP, "Squeeze"]
    agree(model, result, {"x": ids(3, 1, 1, high=10), "axes": np.array([1])})


def test_squeeze_without_axes_takes_a_batch_of_one_away() -> None:
    model = parse("""(int64[b,1] x) => (float[k, 4] y) { e = Gather(W, x) y = Squeeze(e) }""", W=table(10, 4))
    result = fuse_all(model)
    assert op_types(result.model) == [OP, "Squeeze"]
    agree(model, result, {"x": ids(3, 1, high=10)}, {"x": ids(1, 1, high=10)})


def test_a_dense_branch_that_needs_rows_does_not_hold_up_the_lookups() -> None:
    # the attention output depends on lookups: joining it here would make all lookups wait and repeat
    model = parse(
        """(int64[b] a, int64[b] c) => (float[b,12] y) {
            e = Gather(A, a)  f = Gather(C, c)
            attention = Softmax<axis=1>(e)
            y = Concat<axis=1>(e, f, attention)
        }""",
        A=table(10, 4), C=table(20, 4),
    )  # fmt: skip
    result = fuse_all(model)
    assert op_types(result.model) == [OP, "Softmax", "Concat"]
    agree(model, result, *batches({"a": (("b",), 10), "c": (("b",), 20)}), tolerance=FP32_TOLERANCE)


def test_two_tensors_of_the_same_rows_and_shape_are_one() -> None:
    # a sum over an axis of one gives the rows again: there is nothing to view
    model = parse(
        """(int64[b,1] a) => (float[b,1,4] y, float[b,3,4] z, float[b,1,4] again) {
            one = Constant<value_ints=[1]>()  shape = Constant<value_ints=[1, 3, 1]>()
            e = Gather(A, a)
            y = Relu(e)
            u = Unsqueeze(e, one)
            r = ReduceSum<keepdims=0>(u, one)
            z = Expand(r, shape)
            again = ReduceSum<keepdims=0>(u, one)
        }""",
        A=table(10, 4),
    )
    result = fuse_all(model)
    assert sorted(op_types(result.model)) == sorted([OP, "Relu", "Expand", "Reshape"])
    agree(model, result, *batches({"a": (("b", 1), 10)}))
