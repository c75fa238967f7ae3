"""Hazard: test inputs that don't test: ids outside tables, edge cases that are none, sizes that don't fit together."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper

import dpiframe
from dpiframe.errors import UsageError
from dpiframe.graph_passes.list_columns import Lengths, Offsets
from dpiframe.graph_passes.model_io import ModelError
from dpiframe.input_specs import InputSpec, input_specs
from dpiframe.inputs import BATCHES, Case, CaseMaker
from dpiframe.user_inputs import load_user_inputs
from tests.graph_passes.bag_models import scan_loop, sequence_loop

PATH = Path("model.onnx")
ID_TYPES = ["int32", "int64", "float16", "float32", "float64", "uint8"]


def spec(name: str, dtype: str, *shape: int | str | None) -> InputSpec:
    return InputSpec(name, np.dtype(dtype), shape)


def by_name(maker: CaseMaker) -> dict[str, Case]:
    return {case.name: case for case in maker.cases()}


def model_with(*inputs: onnx.ValueInfoProto) -> onnx.ModelProto:
    return helper.make_model(helper.make_graph([], "g", list(inputs), []))


def ends(case: Case, name: str, column: int) -> tuple[float, float]:
    values = case.feeds[name][:, column]
    return float(values.min()), float(values.max())


@given(
    dtype=st.sampled_from(ID_TYPES),
    starts=st.lists(st.integers(0, 30), min_size=1, max_size=5),
    lengths=st.lists(st.integers(1, 200), min_size=5, max_size=5),
)
def test_ids_stay_in_their_tables(dtype: str, starts: list[int], lengths: list[int]) -> None:
    ranges = [range(a, a + n) for a, n in zip(starts, lengths, strict=False)]
    maker = CaseMaker([spec("ids", dtype, "batch", len(ranges))], {"ids": ranges})
    for case in maker.cases():
        ids = case.feeds["ids"]
        assert ids.dtype == dtype
        for column, valid in enumerate(ranges):
            whole = {int(value) for value in ids[:, column].astype(np.float64)}
            if case.name == "negative ids" and dtype != "uint8":
                assert all(value + len(valid) in valid for value in whole)
            elif case.name != "negative ids":
                assert all(value in valid for value in whole), case.name


@pytest.mark.parametrize("rows", [2**24 + 1, 2**24 + 3, 2**31, 2**40])
def test_a_float_id_is_never_rounded_past_its_table(rows: int) -> None:
    maker = CaseMaker([spec("ids", "float32", "batch", 1)], {"ids": [range(rows)]})
    largest = by_name(maker)["all ids at their maximum"].feeds["ids"]
    assert 0.99 * rows < int(largest.max()) < rows
    assert all(int(case.feeds["ids"].max(initial=0)) < rows for case in maker.cases())


def test_edge_cases_are_what_their_names_say() -> None:
    ranges = [range(3, 10), None]
    cases = by_name(CaseMaker([spec("x", "float32", "batch", 2)], {"x": ranges}))
    assert [len(cases[f"random inputs, batch {b}"].feeds["x"]) for b in BATCHES] == list(BATCHES)
    assert cases["empty batch"].feeds["x"].shape == (0, 2)
    lowest = cases["all ids at their minimum, dense values zero"]
    assert (ends(lowest, "x", 0), ends(lowest, "x", 1)) == ((3, 3), (0, 0))
    highest = cases["all ids at their maximum"]
    assert ends(highest, "x", 0) == (9, 9)
    assert max(map(abs, ends(highest, "x", 1))) < 10
    assert max(map(abs, ends(cases["large dense values"], "x", 1))) > 1e5
    assert ends(cases["negative ids"], "x", 0)[1] < 3
    repeated = ends(cases["one id repeated in all rows"], "x", 0)
    assert repeated[0] == repeated[1]
    padded = cases["half the ids at their minimum, dense values small integers"].feeds["x"]
    assert {3.0} < set(padded[:, 0].tolist())
    assert np.array_equal(padded[:, 1], np.round(padded[:, 1]))
    special = cases["NaN and infinite dense values"].feeds["x"]
    assert np.isfinite(special[:, 0]).all()
    assert np.isinf(special[:, 1]).any()
    fraction = cases["ids with a fraction"].feeds["x"][:, 0]
    assert (fraction != np.trunc(fraction)).all()


def test_outside_ids_are_outside_and_only_where_ids_are() -> None:
    maker = CaseMaker([spec("x", "int64", "batch", 2)], {"x": [range(7), None]})
    case = maker.outside()
    assert case is not None
    ids = case.feeds["x"][:, 0]
    assert ((ids >= 7) | (ids < -7)).any()
    assert ((ids >= 0) & (ids < 7)).any()
    assert CaseMaker([spec("x", "float32", "batch", 2)], {}).outside() is None


def test_cases_are_the_same_every_time() -> None:
    specs = [spec("a", "int64", "batch", 3), spec("b", "float32", "batch")]
    first, second = (list(CaseMaker(specs, {"a": [range(9)] * 3}).cases()) for _ in range(2))
    for one, other in zip(first, second, strict=True):
        assert all(np.array_equal(one.feeds[n], other.feeds[n], equal_nan=n == "b") for n in ("a", "b"))


def test_a_name_has_one_size_and_the_batch_is_the_first_axis() -> None:
    specs = [
        spec("history", "int64", "batch", "length"),
        spec("mask", "bool", "batch", "length", "other"),
        spec("transposed", "float32", 26, "batch"),
        spec("unnamed", "float32", None, None),
        spec("scalar", "float32"),
    ]
    shapes = {name: array.shape for name, array in CaseMaker(specs, {}).random(64).items()}
    length, other = shapes["mask"][1:]
    assert shapes["history"] == (64, length)
    assert length != other
    assert shapes["transposed"] == (26, 64)
    assert shapes["unnamed"][0] == 64
    assert shapes["scalar"] == ()
    equal = CaseMaker(specs, {}, equal_sizes=True)
    assert equal.random(1)["mask"].shape[1] == equal.random(1)["mask"].shape[2]


def test_ids_of_a_transposed_input_follow_their_columns() -> None:
    specs = [spec("ids", "int64", 2, "batch"), spec("dense", "float32", "batch")]
    ids = CaseMaker(specs, {"ids": [range(5), range(100, 105)]}).random(64)["ids"]
    assert ids.shape == (2, 64)
    assert ids[0].max() < 5
    assert ids[1].min() >= 100


def test_ranges_of_a_dynamic_axis_repeat() -> None:
    maker = CaseMaker([spec("ids", "int64", "batch", "length")], {"ids": [range(4, 6)]})
    assert all(set(case.feeds["ids"].flat) <= {4, 5} for case in maker.cases() if case.name != "negative ids")


def test_static_shapes_are_kept() -> None:
    cases = list(CaseMaker([spec("x", "float32", 2, 3)], {}).cases())
    assert {case.feeds["x"].shape for case in cases} == {(2, 3)}
    assert len({case.name for case in cases}) == len(cases)


def test_strings_and_flags_get_values() -> None:
    specs = [InputSpec("word", None, ("batch",)), spec("flag", "bool", "batch"), spec("count", "int32", "batch")]
    feeds = CaseMaker(specs, {}).random(64)
    assert feeds["word"].dtype.kind == "U"
    assert set(feeds["flag"]) == {True, False}
    assert feeds["count"].min() >= 0


def test_an_input_that_is_an_initializer_is_not_fed() -> None:
    model = model_with(
        helper.make_tensor_value_info("x", TensorProto.INT64, ["batch"]),
        helper.make_tensor_value_info("w", TensorProto.FLOAT, [1]),
    )
    model.graph.initializer.append(helper.make_tensor("w", TensorProto.FLOAT, [1], [1.0]))
    assert [s.name for s in input_specs(PATH, model)] == ["x"]


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (helper.make_tensor_value_info("x", TensorProto.BFLOAT16, ["batch"]), "bfloat16"),
        (helper.make_tensor_value_info("x", TensorProto.COMPLEX64, ["batch"]), "complex64"),
        (helper.make_tensor_sequence_value_info("x", TensorProto.FLOAT, ["batch"]), "sequence"),
    ],
)
def test_an_input_without_test_values_is_named(value: onnx.ValueInfoProto, named: str) -> None:
    with pytest.raises(ModelError, match=rf"model\.onnx: input 'x'.*{named}"):
        input_specs(PATH, model_with(value))


def test_user_inputs_of_any_name_are_read(tmp_path: Path) -> None:
    specs = [spec("a/b::c", "int64", "batch", 2)]
    np.savez(tmp_path / "in.npz", **{"a/b::c": np.ones((9, 2), np.int64), "label": np.ones(9)})
    assert load_user_inputs(tmp_path / "in.npz", specs).feeds["a/b::c"].shape == (9, 2)


@pytest.mark.parametrize(
    ("arrays", "named"),
    [
        ({"y": np.ones((2, 3))}, "holds no array 'x'"),
        ({"x": np.ones((2, 3), np.float64)}, "'x' is float64; the model takes float32"),
        ({"x": np.ones((2, 4), np.float32)}, r"'x' has shape \[2, 4\]; the model takes \[batch, 3\]"),
        ({"x": np.ones(3, np.float32)}, r"'x' has shape \[3\]"),
        ({"x": np.array([object()])}, "'x' holds Python objects or is no array; give an array of one type"),
    ],
)
def test_user_inputs_that_do_not_fit_are_named(tmp_path: Path, arrays: dict[str, np.ndarray], named: str) -> None:
    np.savez(tmp_path / "in.npz", **arrays)
    with pytest.raises(UsageError, match=named):
        load_user_inputs(tmp_path / "in.npz", [spec("x", "float32", "batch", 3)])


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 cut short", b"text"])
def test_user_inputs_that_are_no_npz_are_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "in.npz").write_bytes(content)
    with pytest.raises(UsageError, match=r"in\.npz"):
        load_user_inputs(tmp_path / "in.npz", [])


def test_text_is_never_called_a_pickle(tmp_path: Path) -> None:
    (tmp_path / "text.onnx").write_text("hello world\n")
    with pytest.raises(
        UsageError, match=r"text\.onnx: not an \.npz file; write it with numpy\.savez, one array an input$"
    ):
        load_user_inputs(tmp_path / "text.onnx", [])


def test_an_archive_of_something_else_is_named(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "in.npz", "w") as archive:
        archive.writestr("x", "hello world")
    with pytest.raises(UsageError, match="'x' holds Python objects or is no array"):
        load_user_inputs(tmp_path / "in.npz", [spec("x", "float32", "batch", 3)])


def test_a_damaged_array_is_named(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "in.npz", x=np.arange(999, dtype=np.float32).reshape(-1, 3))
    content = bytearray((tmp_path / "in.npz").read_bytes())
    content[len(content) // 2] ^= 0xFF
    (tmp_path / "in.npz").write_bytes(content)
    with pytest.raises(UsageError, match=r"in\.npz: 'x' (can't be read|holds)"):
        load_user_inputs(tmp_path / "in.npz", [spec("x", "float32", "batch", 3)])


def test_user_inputs_as_npy_are_named(tmp_path: Path) -> None:
    np.save(tmp_path / "in.npy", np.ones(3))
    with pytest.raises(UsageError, match=r"not an \.npz file"):
        load_user_inputs(tmp_path / "in.npy", [])


def test_offsets_point_into_their_list_in_order() -> None:
    """So that the model answers, and that bags are as a caller's are: from the first id on, some of them empty."""
    specs = [spec("ids", "int64", "batch"), spec("offsets", "int32", 2, "batch")]
    maker = CaseMaker(specs, {"ids": [range(9)], "offsets": [Offsets("ids"), None]})
    for case in maker.cases():
        length = case.feeds["ids"].size
        offsets = case.feeds["offsets"][0]
        assert offsets.dtype == np.int32
        assert (np.diff(offsets) >= 0).all()
        assert ((offsets >= 0) & (offsets <= length)).all()
        assert not offsets[:1].any()
    offsets = maker.random(64)["offsets"]
    assert (np.diff(offsets[0]) == 0).any()
    assert len(set(offsets[0].tolist())) > 10
    outside = maker.outside()
    assert outside is not None
    assert (outside.feeds["ids"] >= 9).any()
    assert outside.feeds["offsets"][0].max() <= outside.feeds["ids"].size


def test_the_last_of_closed_offsets_is_where_the_list_ends() -> None:
    specs = [spec("ids", "int64", "n"), spec("offsets", "int64", "m")]
    maker = CaseMaker(specs, {"ids": [range(9)], "offsets": [Offsets("ids", closed=True)]})
    for case in maker.cases():
        offsets = case.feeds["offsets"]
        assert not offsets[:1].any()
        assert (np.diff(offsets) >= 0).all()
        assert len(offsets) < 2 or offsets[-1] == case.feeds["ids"].size


@pytest.mark.parametrize("shape", [("m",), (3, "m"), ("m", 2)])
def test_lengths_add_up_to_their_list(shape: tuple[int | str, ...]) -> None:
    specs = [spec("ids", "int64", "n"), spec("lengths", "int32", *shape)]
    maker = CaseMaker(specs, {"ids": [range(9)], "lengths": [Lengths("ids")]})
    for case in maker.cases():
        lengths = case.feeds["lengths"]
        assert lengths.dtype == np.int32
        assert lengths.ndim == len(shape)
        assert lengths.sum() == case.feeds["ids"].size
        assert (lengths >= 0).all()
    lengths = maker.random(64)["lengths"]
    assert len(set(lengths.ravel().tolist())) > 2


@pytest.mark.parametrize("op", ["sum", "mean", "max"])
@pytest.mark.parametrize(
    ("before", "inputs"),
    [
        ("", "int64[n] ids, int64[m] offsets"),
        (
            "sums = CumSum (lengths, zero)\noffsets = Concat <axis = 0> (zero_1d, sums)",
            "int64[n] ids, int64[m] lengths",
        ),
    ],
    ids=["bounds", "lengths"],
)
def test_bags_are_given_what_their_models_are_made_for(op: str, before: str, inputs: str, tmp_path: Path) -> None:
    """Else the last bag's mean and maximum are of something else in the original, and of nothing in the result."""
    for form in (scan_loop, sequence_loop):
        path = tmp_path / f"{form.__name__}.onnx"
        onnx.save(form(op, bounds=True, before=before, inputs=inputs), path)
        dpiframe.optimize(path)  # or it raises


def test_arrays_in_place_of_a_file_are_named(model_file: Path) -> None:
    with pytest.raises(UsageError, match=r"inputs is a dict: give the path of an \.npz file"):
        dpiframe.optimize(model_file, inputs={"ids": np.zeros((1, 3), np.int64)})  # type: ignore[arg-type]
    assert not model_file.with_name("model.opt.onnx").exists()
