"""Bags of any length: offsets in any order and anywhere, empty bags, padding, weights. Nothing else is read."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from dpiframe.custom_ops._kernels import LookupProgram
from tests.custom_ops import reference
from tests.custom_ops.models import lookup_model, session

IDS = np.array([1, 2, 3, 4, 5, 6, 7])
TABLE = np.arange(40, dtype=np.float32).reshape(10, 4)


class Case:
    def __init__(self, program: str, sources: list[np.ndarray], tables: list[np.ndarray]) -> None:
        self.program, self.sources, self.tables = program, sources, tables

    def __repr__(self) -> str:
        arrays = [f"{array.dtype}{array.shape}" for array in (*self.sources, *self.tables)]
        return f"{self.program}{' '.join(arrays)}"


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Bags beside rows and copies: several lists, offsets of both layouts, ids and offsets of every type."""
    random = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    dtype = draw(st.sampled_from(["float32", "float16"]))
    rows = draw(st.sampled_from([0, 1, 2, 5, 16, 17, 40]))
    sources, lines, blocks = [], [], []

    def add(values: np.ndarray, line: str) -> int:
        sources.append(values)
        lines.append(f"source {line}")
        return len(sources) - 1

    def type_of_ids() -> str:
        return draw(st.sampled_from(["int32", "int64", "float32", "float64"]))

    def floats(*shape: int) -> np.ndarray:
        values = random.standard_normal(shape).astype(dtype)
        values[random.random(shape) < 0.01] = draw(st.sampled_from([np.nan, np.inf, 0]))
        return values

    def offsets(length: int) -> str:
        """Mostly in order; else anywhere."""
        columns = draw(st.integers(1, 3))
        layout = draw(st.sampled_from(["row", "column", "bounds"]))
        count = rows + 1 if layout == "bounds" else rows
        values = np.sort(random.integers(0, length + 1, (columns, count)), axis=1)
        if draw(st.integers(0, 3)) == 0:
            values = random.integers(-length - 9, length + 9, (columns, count))
        values = np.ascontiguousarray((values.T if layout == "row" else values).astype(type_of_ids()))
        source = add(values, f"{columns} {layout}")
        return f"{source}:{draw(st.integers(0, columns - 1))}{draw(st.sampled_from(['', '', '*2', '+1']))}"

    def bag(column: int, tables: list[np.ndarray]) -> tuple[int, str]:
        length = draw(st.sampled_from([0, 1, 7, 31, 32, 33, 64, 300]))
        number = draw(st.integers(0, len(tables) - 1))
        size, dim = tables[number].shape
        where = offsets(length)
        ids = random.integers(-size - 2, size + 2, length) if draw(st.booleans()) else random.integers(0, size, length)
        identifier = (
            f"{add(ids.astype(type_of_ids()), '* list')}:*{draw(st.sampled_from(['', '', '%7', '/2+1', '*3']))}"
        )
        op = draw(st.sampled_from(["sum", "mean", "max"]))
        weight = "one"
        if op == "sum" and draw(st.booleans()):
            weight = f"col {add(floats(length).astype(draw(st.sampled_from(['float32', dtype]))), '* list')} *"
        first = draw(st.integers(0, dim - 1))
        width = draw(st.integers(1, dim - first))
        empty = draw(st.sampled_from(["0", "-inf"])) if op == "max" else "0"
        padding = draw(st.sampled_from(["none", str(random.integers(0, size))]))
        return width, f"bag 0 {column} {width} {op} {empty} {number} {identifier} {first} {weight} {where} {padding}"

    tables = [
        floats(draw(st.integers(1, 20)), draw(st.sampled_from([1, 3, 4, 16, 33, 64, 100])))
        for _ in range(draw(st.integers(1, 2)))
    ]
    first_line = draw(st.sampled_from(["row", "none"]))
    column = 0
    if first_line == "row":
        ids = random.integers(0, tables[0].shape[0], (rows, 2))
        source = add(ids, "2 row")
        column = tables[0].shape[1]
        blocks.append(f"row 0 0 {column} 0 {source}:1 0")
    for _ in range(draw(st.integers(1, 3))):
        width, line = bag(column, tables)
        blocks.append(line)
        column += width
    header = ["lookup 1", "rows 1", f"bad {draw(st.sampled_from(['error', 'zero', 'clamp']))}"]
    header += [*lines, *(f"table {t.shape[0]} {t.shape[1]}" for t in tables), f"output {column}"]
    return Case("\n".join([*header, *draw(st.permutations(blocks))]) + "\n", sources, tables)


@settings(max_examples=300, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(cases(), st.booleans(), st.sampled_from([1, 3, 16]))
def test_bags_agree_with_the_reference(case: Case, baseline: bool, threads: int) -> None:
    expected = reference.run(case.program, case.sources, case.tables)
    program = LookupProgram(case.program, baseline)
    if expected.first_bad is not None and "\nbad error\n" in case.program:
        row, line, id = expected.first_bad
        with pytest.raises(IndexError, match=f"line {line}, row {row}: id {id} is outside"):
            program.run(case.sources, case.tables, threads)
    else:
        (actual,) = program.run(case.sources, case.tables, threads)
        assert reference.same_bits(actual, expected.outputs[0])
    assert program.bad_id_counts == expected.counts


def bag_program(
    op: str = "sum",
    empty: str = "0",
    weight: str = "one",
    padding: str = "none",
    layout: str = "1 row",
    weights: bool = False,
    bad: str = "error",
    table: tuple[int, int] = (10, 4),
) -> str:
    rows, dim = table
    extra = "source * list\n" if weights else ""
    return (
        f"lookup 1\nrows 1\nbad {bad}\nsource {layout}\nsource * list\n{extra}table {rows} {dim}\noutput {dim}\n"
        f"bag 0 0 {dim} {op} {empty} 0 1:* 0 {weight} 0:0 {padding}\n"
    )


def run(program: str, *sources: np.ndarray, table: np.ndarray = TABLE, threads: int = 1) -> np.ndarray:
    (output,) = LookupProgram(program).run(list(sources), [table], threads)
    return output


def test_each_row_pools_the_ids_up_to_the_next_offset() -> None:
    output = run(bag_program(), np.array([0, 2, 2, 5]), IDS)
    expected = [TABLE[[1, 2]].sum(0), np.zeros(4), TABLE[[3, 4, 5]].sum(0), TABLE[[6, 7]].sum(0)]
    np.testing.assert_array_equal(output, expected)


def test_bounds_end_the_last_bag_before_the_list_does() -> None:
    output = run(bag_program("mean", layout="1 bounds"), np.array([0, 2, 2, 5]), IDS)
    np.testing.assert_array_equal(output, [TABLE[[1, 2]].mean(0), np.zeros(4), TABLE[[3, 4, 5]].mean(0)])


@pytest.mark.parametrize(
    ("op", "empty", "value"), [("sum", "0", 0), ("mean", "0", 0), ("max", "0", 0), ("max", "-inf", -np.inf)]
)
def test_a_bag_without_ids(op: str, empty: str, value: float) -> None:
    output = run(bag_program(op, empty), np.array([7, 7]), IDS)
    np.testing.assert_array_equal(output, np.full((2, 4), value))


def test_padding_is_skipped_whichever_way_it_is_counted_and_a_nan_in_it_stays_away() -> None:
    table = TABLE.copy()
    table[3] = np.nan
    ids = np.array([3, 1, -7, 3, 3, 2])
    output = run(bag_program("mean", padding="3"), np.array([0, 3]), ids, table=table)
    np.testing.assert_array_equal(output, [table[1], table[2]])
    skipped = run(bag_program("max", padding="3"), np.array([0]), np.array([3, -7]), table=table)
    np.testing.assert_array_equal(skipped, np.zeros((1, 4)))


def test_nan_and_infinity_come_through() -> None:
    table = TABLE.copy()
    table[2, 0], table[3, 1], table[4, 1] = np.nan, np.inf, -np.inf
    for op in ("sum", "max"):
        output = run(bag_program(op), np.array([0, 4]), IDS, table=table)
        assert np.isnan(output[0, 0])
        assert np.isnan(output[0, 1]) if op == "sum" else np.isposinf(output[0, 1])
        assert np.isfinite(output[1]).all()


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_offsets_anywhere_stay_inside_the_list(dtype: type) -> None:
    """The list ends where its memory does, so a sanitizer would see what is read outside."""
    extreme = np.iinfo(dtype)
    offsets = np.array([extreme.min, extreme.max, -3, 5, 1, 99, 0, -99, 2], dtype)
    output = run(bag_program(), offsets, IDS.astype(dtype))
    expected = reference.run(bag_program(), [offsets, IDS.astype(dtype)], [TABLE]).outputs[0]
    np.testing.assert_array_equal(output, expected)
    assert output[0].tolist() == TABLE[1:8].sum(0).tolist()


@pytest.mark.parametrize("length", [0, 5])
def test_an_empty_batch_and_an_empty_list(length: int) -> None:
    ids = np.arange(length)
    assert run(bag_program(), np.zeros(0, np.int64), ids).shape == (0, 4)
    assert run(bag_program(layout="1 bounds"), np.zeros(1, np.int64), ids).shape == (0, 4)
    assert run(bag_program(layout="1 bounds"), np.zeros(0, np.int64), ids).shape == (0, 4)
    assert not run(bag_program(), np.zeros(3, np.int64), np.zeros(0, np.int64)).any()


@pytest.mark.parametrize("threads", [1, 16])
def test_one_huge_bag_among_small_ones(threads: int) -> None:
    ids = np.arange(100_000) % 10
    offsets = np.array([0, 1, 99_990, 99_995, 100_000])
    table = np.ones((10, 4), np.float32)
    output = run(bag_program(), offsets, ids, table=table, threads=threads)
    np.testing.assert_array_equal(output[:, 0], [1, 99_989, 5, 5, 0])


def test_ids_outside_the_table_count_once_a_use_and_only_where_a_bag_holds_them() -> None:
    ids = np.array([99, 1, 98, 2, -11])
    bounds = np.array([1, 3, 4])
    for bad, row in (("zero", np.zeros(4)), ("clamp", TABLE[9])):
        program = LookupProgram(bag_program(layout="1 bounds", bad=bad))
        (output,) = program.run([bounds, ids], [TABLE])
        np.testing.assert_array_equal(output, [TABLE[1] + row, TABLE[2]])
        assert program.bad_id_counts == [1]


def test_an_id_outside_the_table_is_an_error_where_that_is_the_policy() -> None:
    ids, bounds = np.array([99, 1, 98, 2, -11]), np.array([1, 3, 4])
    with pytest.raises(IndexError, match="line 0, row 0: id 98 is outside its table"):
        run(bag_program(layout="1 bounds"), bounds, ids)


def test_weights_belong_to_the_ids_at_their_places() -> None:
    weights = np.linspace(0, 1, 7, dtype=np.float32)
    output = run(bag_program(weight="col 2 *", weights=True), np.array([0, 3]), IDS, weights)
    np.testing.assert_allclose(output[0], (TABLE[1:4] * weights[:3, None]).sum(0))
    np.testing.assert_allclose(output[1], (TABLE[4:8] * weights[3:, None]).sum(0))


def test_lists_of_other_lengths_are_refused() -> None:
    weights = np.ones(6, np.float32)
    with pytest.raises(ValueError, match="source 2 has another number of columns than source 1"):
        run(bag_program(weight="col 2 *", weights=True), np.array([0, 3]), IDS, weights)


@pytest.mark.parametrize("layout", ["1 row", "1 bounds"])
@pytest.mark.parametrize("threads", [1, 4])
def test_in_a_session(layout: str, threads: int) -> None:
    """Enough ids for several tasks of very different lengths."""
    random = np.random.default_rng(0)
    table = random.standard_normal((50, 24)).astype(np.float32)
    ids = random.integers(0, 50, 20_000).astype(np.int32)
    offsets = np.sort(random.integers(0, 20_000, 301))
    offsets[100:200] = offsets[100]
    program = bag_program("mean", layout=layout, table=(50, 24))
    model = lookup_model(program, {"offsets": ("int64", ["m"]), "ids": ("int32", ["n"])}, {"table": table})
    made = session(model, threads)
    for count in (301, 2, 1):
        feeds = {"offsets": offsets[:count], "ids": ids}
        expected = reference.run(program, [offsets[:count], ids], [table]).outputs[0]
        assert reference.same_bits(made.run(None, feeds)[0], expected)


def test_errors_in_a_session_name_the_input() -> None:
    program = bag_program(weight="col 2 *", weights=True)
    sources = {"offsets": ("int64", ["m"]), "ids": ("int64", ["n"]), "weights": ("float32", ["n"])}
    made = session(lookup_model(program, sources, {"table": TABLE}))
    feeds = {"offsets": np.array([0, 3]), "ids": IDS, "weights": np.ones(3, np.float32)}
    with pytest.raises(Exception, match="input 'weights' has 3 values where 7 ids need one each"):
        made.run(None, feeds)
    feeds["weights"] = np.ones(7, np.float32)
    feeds["ids"] = np.array([1, 2, 3, 40, 5, 6, 7])
    with pytest.raises(Exception, match=r"ids\[\*\] -> table: id 40 in row 1 is outside the table"):
        made.run(None, feeds)


@pytest.mark.parametrize(
    ("good", "bad", "message"),
    [
        ("source * list\n", "source 3 list\n", r"\(layout\): is list, which has no number of columns but \*"),
        ("source 1 row\n", "source * list\n", r"line 4, field 3 \(layout\): is list, which can't be the first"),
        ("source 1 row\n", "source * bounds\n", r"line 4, field 3 \(layout\): is bounds, which needs a number"),
        ("rows 1\n", "rows 2\n", r"\(layout\): is list, which needs one row axis"),
        ("bag 0 0 4 sum", "bag 0 0 4 product", r'\(pooling\): is "product": sum, mean or max'),
        ("sum 0 ", "sum -inf ", r'\(value of an empty bag\): is "-inf": 0, or for max -inf, was expected'),
        (" 1:* ", " 0:0 ", r"\(id\): is not a list, which a bag's ids and weights come from"),
        (" 1:* ", " 1:0 ", r"\(id\): names a single column of a source with a dynamic number"),
        (" 1:* ", " =1 ", r"\(id\): is a constant, but a bag's ids come from a list"),
        (" one ", " ne 1:* 0 ", r'\(weight\): is "ne": a bag takes one or col'),
        (" one ", " col 0 0 ", r"\(weight source\): is not a list"),
        ("sum 0 0 1:* 0 one", "mean 0 0 1:* 0 col 1 *", r"\(weight column\): weighs a bag, which only sum can have"),
        (" 0:0 none", " 1:* none", r"\(offsets\): is a list, which only a bag can read"),
        (" 0:0 none", " =0 none", r"\(offsets\): is a constant, but offsets come from a source"),
        (" none", " 10", r"\(padding\): is 10, outside 0 to 9"),
        (" none", " -1", r"\(padding\): is -1, outside 0 to 9"),
        (" none", " none 1", r"\(end of line\): was expected"),
        ("bag 0 0 4 sum 0 0 1:* 0 one 0:0 none", "row 0 0 4 0 1:* 0", r"\(id\): is a list, which only a bag can read"),
    ],
)
def test_programs_that_say_something_else(good: str, bad: str, message: str) -> None:
    program = bag_program()
    assert good in program
    with pytest.raises(ValueError, match=message):
        LookupProgram(program.replace(good, bad))


def test_bounds_are_for_bags_alone() -> None:
    with pytest.raises(ValueError, match=r"\(id\): holds bounds, which only a bag's offsets can be"):
        LookupProgram("lookup 1\nrows 1\nbad zero\nsource 1 bounds\ntable 5 3\noutput 3\nrow 0 0 3 0 0:0 0\n")
