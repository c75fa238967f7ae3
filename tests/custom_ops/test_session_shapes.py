"""Hazard: what ONNX Runtime believes about the outputs: types, shapes, symbolic sizes, also inside branches."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from tests.custom_ops import models
from tests.custom_ops.models import lookup_node, model_of, session, value

ONE = "lookup 1\nrows 1\nbad error\nsource 2 row\ntable 10 4\ntable 7 4\noutput 8\noutput\n"
ONE += "row 0 0 4 0 0:0 0\nrow 0 4 4 1 0:1 0\nrow 1 0 1 0 0:0 3\n"


def tables(dtype: str = "float32") -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    return {name: random.standard_normal((rows, 4)).astype(dtype) for name, rows in (("users", 10), ("items", 7))}


def joined(ids: np.ndarray, dtype: str = "float32") -> np.ndarray:
    users, items = tables(dtype).values()
    return np.concatenate([users[ids[:, 0]], items[ids[:, 1]]], axis=1)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("batch", ["B", None, 3])
def test_types_and_shapes_of_all_outputs_are_inferred(dtype: str, batch: str | int | None) -> None:
    made = session(models.lookup_model(ONE, {"ids": ("int64", [batch, 2])}, tables(dtype), outputs=2))
    first, second = made.get_outputs()
    assert {first.type, second.type} == {"tensor(float)" if dtype == "float32" else "tensor(float16)"}
    assert first.shape[1:] == [8]
    assert len(second.shape) == 1
    assert first.shape[0] == second.shape[0]
    if batch is not None:
        assert first.shape[0] == batch
    ids = np.array([[0, 1], [9, 6], [-1, -7]])
    outputs = made.run(None, {"ids": ids})
    np.testing.assert_array_equal(outputs[0], joined(ids, dtype))
    np.testing.assert_array_equal(outputs[1], joined(ids, dtype)[:, 3])


def test_a_gemm_and_an_elementwise_chain_follow() -> None:
    random = np.random.default_rng(1)
    weight, bias = random.standard_normal((8, 5)).astype(np.float32), random.standard_normal(5).astype(np.float32)
    nodes = [
        lookup_node(ONE, ["ids", "users", "items"], ["x", "wide"]),
        helper.make_node("Gemm", ["x", "weight", "bias"], ["hidden"]),
        helper.make_node("Relu", ["hidden"], ["active"]),
        helper.make_node("Unsqueeze", ["wide", "axis"], ["wide_column"]),
        helper.make_node("Add", ["active", "wide_column"], ["y"]),
    ]
    constants = {"weight": weight, "bias": bias, "axis": np.array([1])}
    inputs, outputs = [value("ids", "int64", ["B", 2])], [value("y", "float32", ["B", 5])]
    made = session(model_of(nodes, inputs, outputs, {**tables(), **constants}))
    for rows in (1, 2, 33):
        ids = np.stack([np.arange(rows) % 10, np.arange(rows) % 7], axis=1)
        x = joined(ids)
        np.testing.assert_allclose(
            made.run(None, {"ids": ids})[0], np.maximum(x @ weight + bias, 0) + x[:, 3:4], rtol=1e-5, atol=1e-5
        )


def test_inside_a_branch() -> None:
    def branch(program: str, name: str) -> onnx.GraphProto:
        nodes = [
            lookup_node(program, ["ids", "users", "items"], [f"{name}_x", f"{name}_wide"]),
            helper.make_node("Neg" if name == "other" else "Identity", [f"{name}_x"], [f"{name}_y"]),
        ]
        return helper.make_graph(nodes, name, [], [value(f"{name}_y", "float32", ["B", 8])])

    nodes = [
        helper.make_node("If", ["flag"], ["y"], then_branch=branch(ONE, "one"), else_branch=branch(ONE, "other")),
        helper.make_node("Abs", ["y"], ["z"]),
    ]
    flag = helper.make_tensor_value_info("flag", onnx.TensorProto.BOOL, [])
    inputs = [flag, value("ids", "int64", ["B", 2])]
    made = session(model_of(nodes, inputs, [value("y", "float32", ["B", 8]), value("z", "float32", None)], tables()))
    ids = np.array([[1, 2], [3, 4], [5, 6]])
    for chosen, sign in ((True, 1), (False, -1)):
        y, z = made.run(None, {"flag": np.array(chosen), "ids": ids})
        np.testing.assert_array_equal(y, sign * joined(ids))
        np.testing.assert_array_equal(z, abs(joined(ids)))


def test_inside_a_branch_with_a_batch_of_unknown_size() -> None:
    nodes = [lookup_node(ONE, ["found", "users", "items"], ["x", "wide"])]
    branch = helper.make_graph(nodes, "branch", [], [value("x", "float32", None)])
    zero = helper.make_node("ConstantOfShape", ["shape"], ["zeros"])
    other = helper.make_graph([zero], "zeros", [], [value("zeros", "float32", None)])
    nodes = [
        helper.make_node("Compress", ["ids", "mask"], ["found"], axis=0),  # rows that no shape tells
        helper.make_node("If", ["flag"], ["y"], then_branch=branch, else_branch=other),
    ]
    flag, mask = (
        helper.make_tensor_value_info(name, onnx.TensorProto.BOOL, shape)
        for name, shape in (("flag", []), ("mask", ["B"]))
    )
    inputs = [flag, mask, value("ids", "int64", ["B", 2])]
    constants = {**tables(), "shape": np.array([2, 8])}
    made = session(model_of(nodes, inputs, [value("y", "float32", None)], constants))
    ids = np.array([[1, 2], [3, 4], [5, 6]])
    mask = np.array([True, False, True])
    (y,) = made.run(None, {"flag": np.array(True), "mask": mask, "ids": ids})
    np.testing.assert_array_equal(y, joined(ids[mask]))
    assert made.run(None, {"flag": np.array(False), "mask": mask, "ids": ids})[0].shape == (2, 8)


def test_two_lookups_over_rows_of_unknown_and_different_sizes_share_no_buffer() -> None:
    nodes = [
        helper.make_node("Compress", ["ids", "few"], ["small_ids"], axis=0),
        helper.make_node("Compress", ["ids", "many"], ["large_ids"], axis=0),
        lookup_node(ONE, ["small_ids", "users", "items"], ["small", "small_wide"], name="small"),
        helper.make_node("Relu", ["small"], ["small_relu"]),
        helper.make_node("ReduceSum", ["small_relu"], ["small_sum"]),
        lookup_node(ONE, ["large_ids", "users", "items"], ["large", "large_wide"], name="large"),
        helper.make_node("Relu", ["large"], ["large_relu"]),
        helper.make_node("ReduceSum", ["large_relu"], ["large_sum"]),
    ]
    masks = [helper.make_tensor_value_info(name, onnx.TensorProto.BOOL, ["B"]) for name in ("few", "many")]
    inputs = [value("ids", "int64", ["B", 2]), *masks]
    outputs = [value(f"{name}_sum", "float32", None) for name in ("small", "large")]
    made = session(model_of(nodes, inputs, outputs, tables()))
    ids = np.stack([np.arange(700) % 10, np.arange(700) % 7], axis=1)
    few, many = np.arange(700) < 2, np.arange(700) >= 2
    sums = made.run(None, {"ids": ids, "few": few, "many": many})
    for actual, mask in zip(sums, (few, many), strict=True):
        np.testing.assert_allclose(actual.item(), np.maximum(joined(ids[mask]), 0).sum(), rtol=1e-5)


def test_39_named_inputs_of_mixed_types() -> None:
    random = np.random.default_rng(2)
    names = [f"C{i}" for i in range(39)]
    dtypes = ["int64", "int32", "float32", "float64"]
    data = {f"t{i}": random.standard_normal((100, 4)).astype(np.float32) for i in range(39)}
    program = "lookup 1\nrows 1\nbad error\n" + "source 1 row\n" * 39 + "table 100 4\n" * 39 + "output 39 4\n"
    program += "".join(f"row 0 {4 * i} 4 {i} {i}:0 0\n" for i in range(39))
    sources = {name: (dtypes[i % 4], ["B"] if i % 3 else ["B", 1]) for i, name in enumerate(names)}
    made = session(models.lookup_model(program, sources, data))
    ids = random.integers(0, 100, (39, 50))
    feeds = {name: ids[i].astype(dtypes[i % 4]).reshape((50,) if i % 3 else (50, 1)) for i, name in enumerate(names)}
    expected = np.stack([data[f"t{i}"][ids[i]] for i in range(39)], axis=1)
    np.testing.assert_array_equal(made.run(None, feeds)[0], expected)


def test_300_inputs_and_every_name_of_the_pool() -> None:
    random = np.random.default_rng(3)
    table = random.standard_normal((20, 2)).astype(np.float32)
    wide = "lookup 1\nrows 1\nbad error\n" + "source 1 row\n" * 300 + "table 20 2\noutput 600\n"
    wide += "".join(f"row 0 {2 * i} 2 0 {i}:0 0\n" for i in range(300))
    small = "lookup 1\nrows 1\nbad error\nsource 1 row\ntable 20 2\noutput 2\nrow 0 0 2 0 0:0 0\n"
    ids = [f"i{i}" for i in range(300)]
    nodes = [lookup_node(wide, [*ids, "table"], ["y"])]
    nodes += [
        lookup_node(small, [ids[i], "table"], [f"y{i}"], "FusedMultiGather" + (f"_{i}" if i else ""), f"lookup{i}")
        for i in range(64)
    ]
    outputs = [value(name, "float32", None) for name in ("y", *(f"y{i}" for i in range(64)))]
    made = session(model_of(nodes, [value(name, "int64", ["B"]) for name in ids], outputs, {"table": table}))
    data = random.integers(0, 20, (300, 6))
    results = made.run(None, dict(zip(ids, data, strict=True)))
    np.testing.assert_array_equal(results[0], table[data].transpose(1, 0, 2).reshape(6, 600))
    for i in range(64):
        np.testing.assert_array_equal(results[1 + i], table[data[i]])


def test_tables_that_are_no_constants() -> None:
    """A graph input, a computed value and an initializer that a caller may override are read at every call."""
    program = "lookup 1\nrows 1\nbad error\nsource 1 row\ntable 5 2\ntable 5 2\ntable 5 2\noutput 3 2\n"
    program += "".join(f"row 0 {2 * i} 2 {i} 0:0 0\n" for i in range(3))
    nodes = [
        helper.make_node("Neg", ["given"], ["computed"]),
        lookup_node(program, ["ids", "given", "computed", "default"], ["y"]),
    ]
    default = np.full((5, 2), 7, np.float32)
    inputs = [
        value("ids", "int64", ["B"]),
        value("given", "float32", [5, 2]),
        value("default", "float32", [5, 2]),
    ]
    made = session(model_of(nodes, inputs, [value("y", "float32", None)], {"default": default}))
    ids = np.array([4, 0])
    for factor in (1, 2):
        given = np.arange(10, dtype=np.float32).reshape(5, 2) * factor
        rows = [given[ids], -given[ids]]
        (y,) = made.run(None, {"ids": ids, "given": given})
        np.testing.assert_array_equal(y, np.stack([*rows, default[ids]], axis=1))
        override = given + 100
        (y,) = made.run(None, {"ids": ids, "given": given, "default": override})
        np.testing.assert_array_equal(y, np.stack([*rows, override[ids]], axis=1))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("lookup 1", "lookup 9"), r"FusedMultiGather node 'lookup': attribute 'program', line 1, field 2"),
        (("source 2 row", "source 2 row\nsource 1 row"), r"has 3 inputs, but its program lists 2 sources and 2 tables"),
        (("output\n", ""), r"attribute 'program', line 10, field 2 \(output\): is 1, but"),
        (("table 7 4", "table 8 4"), r"input 'items' has shape \[7, 4\], but the program says \[8, 4\]"),
    ],
)
def test_a_node_that_contradicts_its_program_makes_no_session(change: tuple[str, str], message: str) -> None:
    model = models.lookup_model(ONE.replace(*change), {"ids": ("int64", ["B", 2])}, tables(), outputs=2)
    with pytest.raises(Exception, match=message):
        session(model)


def test_inputs_that_contradict_the_program_fail_the_run() -> None:
    made = session(models.lookup_model(ONE, {"ids": ("int64", None)}, tables(), outputs=2))
    with pytest.raises(
        Exception, match=r"node 'lookup': input 'ids' has 9 elements, but the node's 3 rows need 2 each"
    ):
        made.run(None, {"ids": np.zeros((3, 3), np.int64)})
    with pytest.raises(Exception, match=r"'lookup': input 'ids' has 0 axes, of which the first 1 should be the rows"):
        made.run(None, {"ids": np.zeros((), np.int64)})
    made.run(None, {"ids": np.zeros((3, 2, 1), np.int64)})


SECOND = "table 10 2\noutput 3\nrow 0 0 2 0 0:0 0\ncopy 0 2 1 1 0\n"
STAR = "table 10 2\noutput 2\npool 0 0 2 sum 1 0\nterm 0 0:* 0 col 1 *\n"
BAG = "table 10 2\noutput 3\nbag 0 0 2 sum 0 0 1:* 0 one 0:0 none\ncopy 0 2 1 2 0\n"


@pytest.mark.parametrize(
    ("program", "shapes", "wrong", "message"),
    [
        (f"rows 1\nbad error\nsource 1 row\nsource 1 row\n{SECOND}", [(6,), (6, 1)], (1, 6), "begin with .*, [6]"),
        (f"rows 2\nbad error\nsource 1 row\nsource 1 row\n{SECOND}", [(4, 6), (4, 6)], (6, 4), "begin with .*, [4, 6]"),
        (f"rows 2\nbad error\nsource 1 row\nsource 1 row\n{SECOND}", [(4, 6), (4, 6)], (24,), "begin with .*, [4, 6]"),
        (f"rows 1\nbad error\nsource * row\nsource * row\n{STAR}", [(4, 6), (4, 6)], (6, 4), "begin with .*, [4]"),
        (f"rows 1\nbad error\nsource 1 row\nsource 1 column\n{SECOND}", [(6,), (1, 6)], (6, 1), "end with .*, [6]"),
        (
            f"rows 1\nbad error\nsource 1 bounds\nsource * list\nsource 1 row\n{BAG}",
            [(4,), (9,), (3, 1)],
            (1, 3),
            "[3]",
        ),
    ],
)
def test_as_many_elements_in_other_rows_fail_the_run(
    program: str, shapes: list[tuple[int, ...]], wrong: tuple[int, ...], message: str
) -> None:
    """A transposed input has every element, each in another row: an answer would be a wrong one."""
    names = [f"s{i}" for i in range(len(shapes))]
    last = len(shapes) - 1
    types = {name: "float32" if i == last else "int64" for i, name in enumerate(names)}
    sources: dict[str, tuple[str, models.Shape]] = {name: (type, None) for name, type in types.items()}
    table = np.arange(20, dtype=np.float32).reshape(10, 2)
    made = session(models.lookup_model(f"lookup 1\n{program}", sources, {"table": table}))
    feeds = {name: np.ones(shape, types[name]) for name, shape in zip(names, shapes, strict=True)}
    made.run(None, feeds)
    feeds[names[last]] = np.ones(wrong, types[names[last]])
    pattern = f"input '{names[last]}' has shape {list(wrong)}, which should .*{message}"
    with pytest.raises(Exception, match=pattern.replace("[", r"\[").replace("]", r"\]")):
        made.run(None, feeds)


def test_sources_of_more_axes_than_a_shape_keeps() -> None:
    program = f"lookup 1\nrows 1\nbad error\nsource 1 row\nsource 1 row\n{SECOND}"
    made = session(
        models.lookup_model(
            program,
            {"a": ("int64", None), "b": ("float32", None)},
            {"table": np.arange(20, dtype=np.float32).reshape(10, 2)},
        )
    )
    (y,) = made.run(None, {"a": np.array([1, 2]), "b": np.array([5, 6], np.float32).reshape(2, *[1] * 19)})
    np.testing.assert_array_equal(y, [[2, 3, 5], [4, 5, 6]])


def test_types_that_the_kernel_lacks_are_named() -> None:
    model = models.lookup_model(ONE, {"ids": ("float16", ["B", 2])}, tables(), outputs=2)
    with pytest.raises(Exception, match=r"input 'ids' is float16, but is read as ids"):
        session(model)
    double = {name: table.astype(np.float64) for name, table in tables().items()}
    model = models.lookup_model(ONE, {"ids": ("int64", ["B", 2])}, double, outputs=2)
    with pytest.raises(Exception, match=r"input 'users' is a table, so it must be float32 or float16"):
        session(model)
    mixed = {**tables(), "items": tables("float16")["items"]}
    model = models.lookup_model(ONE, {"ids": ("int64", ["B", 2])}, mixed, outputs=2)
    with pytest.raises(Exception, match=r"input 'items' has another type than the node's first table"):
        session(model)


def test_a_registered_op_wins_over_its_body() -> None:
    """The body here gives other values, to see which of the two ran."""
    model = models.lookup_model(ONE, {"ids": ("int64", ["B", 2])}, tables(), outputs=2)
    names = ["ids", "users", "items"]
    body = [
        helper.make_node("Gather", ["users", "ids"], ["rows"]),
        helper.make_node("Flatten", ["rows"], ["y0"]),
        helper.make_node("Constant", [], ["y1"], value=numpy_helper.from_array(np.zeros(1, np.float32))),
    ]
    function = helper.make_function(
        "dpiframe", "FusedMultiGather", names, ["y0", "y1"], body, [helper.make_opsetid("", 20)], ["program"]
    )
    model.functions.append(function)
    ids = np.array([[1, 2]])
    np.testing.assert_array_equal(session(model).run(None, {"ids": ids})[0], joined(ids))
