"""nn.EmbeddingBag as PyTorch's two exporters write it, and as nobody writes it: loops over bags in ONNX text form."""

from __future__ import annotations

import numpy as np
import onnx

from tests.graph_passes.harness import parse, table

REDUCTIONS = {"sum": "ReduceSum", "mean": "ReduceMean", "max": "ReduceMax"}
CONSTANTS = {
    "zero": np.array(0),
    "one": np.array(1),
    "two": np.array(2),
    "zero_1d": np.array([0]),
    "one_1d": np.array([1]),
    "minus_one": np.array([-1]),
    "end": np.array([np.iinfo(np.int64).max]),
    "true": np.array(True),
    "none": np.zeros(0, np.int64),
}


def scan_loop(
    op: str = "sum",
    bounds: bool = False,
    weighted: bool = False,
    *,
    table_rows: int = 20,
    dim: int = 4,
    before: str = "",
    ids: str = "ids",
    offsets: str = "offsets",
    inputs: str = "int64[n] ids, int64[m] offsets",
    change: tuple[str, str] = ("", ""),
    constants: dict[str, np.ndarray] | None = None,
    opset: int = 20,
) -> onnx.ModelProto:
    """The form with a Loop that scans. change: a piece of the text and what to put in its place."""
    rows = "rows = Gather <axis = 0> (table, part)"
    if weighted:
        inputs += ", float[n] weights"
        rows = (
            "found = Gather <axis = 0> (table, part)\npart_w = Slice (weights, begin_1d, end_1d, zero_1d)\n"
            "wide_w = Unsqueeze (part_w, one_1d)\nrows = Mul (found, wide_w)"
        )
    whole = "whole = Identity (offsets)" if bounds else "whole = Concat <axis = 0> (offsets, count_1d)"
    reduce = f"{REDUCTIONS[op]} <keepdims = 0> (rows, zero_1d)"
    if opset < (13 if op == "sum" else 18):
        reduce = f"{REDUCTIONS[op]} <keepdims = 0, axes = [0]> (rows)"
    text = f"""({inputs}) => (float[k, {dim}] y) {{
        {before}
        shape = Shape ({ids})
        count = Gather <axis = 0> (shape, zero)
        count_1d = Reshape (count, minus_one)
        {whole.replace("offsets", offsets)}
        ends = Slice (whole, one_1d, end, zero_1d, one_1d)
        ends_shape = Shape (ends)
        trips = Gather <axis = 0> (ends_shape, zero)
        y = Loop (trips, true) <body = bag (int64 i, bool going) => (bool goes_on, float[d] row) {{
            begin = Gather <axis = 0> (whole, i)
            stop = Gather <axis = 0> (ends, i)
            begin_1d = Unsqueeze (begin, zero_1d)
            end_1d = Unsqueeze (stop, zero_1d)
            part = Slice ({ids}, begin_1d, end_1d, zero_1d)
            {rows}
            row = {reduce}
            goes_on = Cast <to = 9> (true)
        }}>
    }}"""
    return _model(text, change, table_rows, dim, constants, opset)


def sequence_loop(
    op: str = "sum",
    bounds: bool = False,
    weighted: bool = False,
    *,
    table_rows: int = 20,
    dim: int = 4,
    before: str = "",
    ids: str = "ids",
    offsets: str = "offsets",
    inputs: str = "int64[n] ids, int64[m] offsets",
    change: tuple[str, str] = ("", ""),
    constants: dict[str, np.ndarray] | None = None,
) -> onnx.ModelProto:
    """The form with a Gather of all rows and a Loop that appends to a sequence."""
    weigh = "rows = Mul (found, wide_ones)"
    if weighted:
        inputs += ", float[n] weights"
        weigh = "wide_w = Unsqueeze (weights, one_1d)\nrows = Mul (found, wide_w)"
    reduced = {
        "sum": "taken = Slice (rows, begin, stop)\nother = ReduceSum (taken, zero_1d)",
        "mean": """taken = Slice (rows, begin, stop)
            last = Sub (bags, one)
            is_last = Equal (i, last)
            other = If (is_last) <then_branch = last_mean () => (float[a, b] mean_last) {
                total = ReduceSum (taken, zero_1d)
                length = Shape <start = 0, end = 1> (flat)
                rest = Sub (length, begin)
                no = CastLike (zero, rest)
                some = Greater (rest, no)
                mean_last = If (some) <then_branch = divided () => (float[a, b] quotient) {
                    divisor = Cast <to = 1> (rest)
                    quotient = Div (total, divisor)
                }, else_branch = undivided () => (float[a, b] same) {
                    same = Identity (total)
                }>
            }, else_branch = other_mean () => (float[a, b] mean_other) {
                mean_other = ReduceMean (taken, zero_1d)
            }>""",
        "max": """last = Sub (bags, one)
            is_last = Equal (i, last)
            taken = If (is_last) <then_branch = last_rows () => (float[a, b] rows_last) {
                rows_last = Slice (rows, begin, length_1d)
            }, else_branch = other_rows () => (float[a, b] rows_other) {
                rows_other = Slice (rows, begin, stop)
            }>
            other = ReduceMax (taken, zero_1d)""",
    }[op]
    if bounds:
        count = f"size = Size ({offsets})\nbags = Sub (size, one)\nwhole = Identity ({offsets})"
    else:
        count = f"bags = Size ({offsets})\nwhole = Concat <axis = 0> ({offsets}, length_1d)"
    text = f"""({inputs}) => (float[k, {dim}] y) {{
        {before}
        ones_shape = Shape ({ids})
        ones = Expand (one_f, ones_shape)
        wide_ones = Unsqueeze (ones, one_1d)
        flat = Reshape ({ids}, minus_one)
        found = Gather (table, flat)
        {weigh}
        length_1d = Shape (flat)
        {count}
        empty = SequenceEmpty ()
        first = Less (zero, bags)
        filled, ran = Loop (, first, empty, zero)
            <body = bag (int64 unused, bool going, seq(float[a, b]) before, int64 i)
                => (bool goes_on, seq(float[a, b]) after, int64 next) {{
            place = Reshape (i, minus_one)
            one_like = CastLike (one, place)
            place_1 = Add (place, one_like)
            two_like = CastLike (two, place)
            place_2 = Add (place, two_like)
            begin = Slice (whole, place, place_1)
            stop = Slice (whole, place_1, place_2)
            equal = Equal (begin, stop)
            row = If (equal) <then_branch = nothing () => (float[a, b] zeros_row) {{
                zeros_row = Identity (zeros)
            }}, else_branch = something () => (float[a, b] other) {{
                {reduced}
            }}>
            after = SequenceInsert (before, row)
            step = CastLike (one, i)
            next = Add (i, step)
            goes_on = Less (next, bags)
        }}>
        y = ConcatFromSequence <axis = 0> (filled)
    }}"""
    return _model(text, change, table_rows, dim, constants)


def padded_loop(
    op: str = "sum",
    padding: int = 3,
    *,
    list_first: bool = False,
    table_rows: int = 20,
    dim: int = 4,
    change: tuple[str, str] = ("", ""),
) -> onnx.ModelProto:
    """The form with an inner Loop that lists the positions of a bag without those of padding.

    The exporter carries position and list in either order, and so counter and sequence.
    """
    carried = ["begin", "int64 j", "int64 j_next", "stopped"], ["none", "int64[p] known", "int64[q] listed", "kept"]
    given, taken, left, found = zip(*(reversed(carried) if list_first else carried), strict=True)
    outer = (
        ["empty", "seq(float[a, b]) before", "seq(float[a, b]) after", "filled"],
        ["zero", "int64 i", "int64 next", "ran"],
    )
    first_given, first_taken, first_left, first_found = zip(*(reversed(outer) if list_first else outer), strict=True)
    text = f"""(int64[n] ids, int64[m] offsets) => (float[k, {dim}] y) {{
        ones_shape = Shape (ids)
        ones = Expand (one_f, ones_shape)
        wide_ones = Unsqueeze (ones, one_1d)
        found = Gather (table, ids)
        rows = Mul (found, wide_ones)
        bags = Size (offsets)
        length = Size (ids)
        length_1d = Reshape (length, minus_one)
        whole = Concat <axis = 0> (offsets, length_1d)
        empty = SequenceEmpty ()
        first = Less (zero, bags)
        {", ".join(first_found)} = Loop (, first, {", ".join(first_given)})
            <body = bag (int64 unused, bool going, {", ".join(first_taken)})
                => (bool goes_on, {", ".join(first_left)}) {{
            begin = Gather <axis = 0> (whole, i)
            one_like = CastLike (one, i)
            i_1 = Add (i, one_like)
            stop = Gather <axis = 0> (whole, i_1)
            some = Less (begin, stop)
            {", ".join(found)} = Loop (, some, {", ".join(given)})
                <body = positions (int64 unused_2, bool going_2, {", ".join(taken)})
                    => (bool goes_on_2, {", ".join(left)}) {{
                id = Gather <axis = 0> (ids, j)
                zero_like = CastLike (zero, id)
                below = Less (id, zero_like)
                counted = If (below) <then_branch = from_end () => (int64 shifted) {{
                    shifted = Add (id, table_rows)
                }}, else_branch = from_start () => (int64 same_id) {{
                    same_id = Identity (id)
                }}>
                is_padding = Equal (counted, padding)
                is_no_padding = Not (is_padding)
                listed = If (is_no_padding) <then_branch = add () => (int64[q] longer) {{
                    j_1d = Reshape (j, minus_one)
                    longer = Concat <axis = 0> (known, j_1d)
                }}, else_branch = leave () => (int64[q] same_list) {{
                    same_list = Identity (known)
                }}>
                step = CastLike (one, j)
                j_next = Add (j, step)
                goes_on_2 = Less (j_next, stop)
            }}>
            how_many = Size (kept)
            zero_many = CastLike (zero, how_many)
            nothing_left = Equal (how_many, zero_many)
            row = If (nothing_left) <then_branch = nothing () => (float[a, b] zeros_row) {{
                zeros_row = Identity (zeros)
            }}, else_branch = something () => (float[a, b] other) {{
                taken = Gather <axis = 0> (rows, kept)
                other = {REDUCTIONS[op]} (taken, zero_1d)
            }}>
            after = SequenceInsert (before, row)
            step_i = CastLike (one, i)
            next = Add (i, step_i)
            goes_on = Less (next, bags)
        }}>
        y = ConcatFromSequence <axis = 0> (filled)
    }}"""
    more = {"table_rows": np.array(table_rows), "padding": np.array(padding)}
    return _model(text, change, table_rows, dim, more)


def _model(
    text: str,
    change: tuple[str, str],
    table_rows: int,
    dim: int,
    constants: dict[str, np.ndarray] | None,
    opset: int = 20,
) -> onnx.ModelProto:
    old, new = change
    assert old in text, f"there is no '{old}' in the model"
    given = CONSTANTS | {"one_f": np.ones(1, np.float32), "zeros": np.zeros((1, dim), np.float32)} | (constants or {})
    text = text.replace(old, new) if old else text
    used = {name: values for name, values in given.items() if name in text}
    return parse(text, opset, ir=8 if opset < 20 else 10, table=table(table_rows, dim), **used)


def bags(
    ids: int, rows: int, bounds: bool = False, seed: int = 0, high: int = 20, **more: np.ndarray
) -> dict[str, np.ndarray]:
    """Ids, and offsets in order of which some are equal."""
    random = np.random.default_rng(seed)
    offsets = np.sort(random.integers(0, ids + 1, rows + bounds))
    offsets[0] = 0
    if rows > 2:
        offsets[2] = offsets[1]
    if bounds:
        offsets[-1] = ids
    return {"ids": random.integers(0, high, ids), "offsets": offsets, **more}
