"""ParallelRegion in sessions on the CPU: any order of nodes, values inside and outside, programs that are wrong."""

from __future__ import annotations

import threading

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from tests.custom_ops.regions import WIDTH, feed, regional, rows, towers, two_modules
from tests.graph_passes.harness import parse, same, session, table


def region_of(model: onnx.ModelProto) -> onnx.NodeProto:
    (node,) = [node for node in model.graph.node if node.op_type == "ParallelRegion"]
    return node


def with_program(model: onnx.ModelProto, change: str, into: str) -> onnx.ModelProto:
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    attribute = region_of(changed).attribute[0]
    text = attribute.s.decode()
    assert change in text
    attribute.s = text.replace(change, into, 1).encode()
    return changed


def test_the_kernel_gives_the_bodys_answers() -> None:
    model = two_modules()
    result = regional(model)
    assert [node.op_type for node in result.graph.node] == ["ParallelRegion"]
    original, body, kernel = session(model), session(result), session(result, library=True)
    for count in (1, 7, 0, 64, 3):
        case = feed(count, count)
        for want, inlined, got in zip(*(runner.run(None, case) for runner in (original, body, kernel)), strict=True):
            same(inlined, want, 1e-6, f"body, {count} rows")
            same(got, want, 1e-6, f"kernel, {count} rows")


@pytest.mark.parametrize(("count", "layers"), [(2, 1), (3, 3), (4, 2)])
def test_towers_on_an_input_of_the_graph(count: int, layers: int) -> None:
    model = towers(count, layers)
    original, kernel = session(model), session(regional(model), library=True)
    for batch in (1, 0, 9):
        want = original.run(None, rows(batch))[0]
        assert want.shape == (batch, count * WIDTH)
        same(kernel.run(None, rows(batch))[0], want, 1e-6, f"{batch} rows")


def test_shapes_are_inferred_through_the_region() -> None:
    result = regional(two_modules())
    del result.graph.output[:]
    result.graph.output.extend(
        [
            onnx.ValueInfoProto(name=name, type=onnx.TypeProto(tensor_type=onnx.TypeProto.Tensor(elem_type=1)))
            for name in "ys"
        ]
    )
    shapes = [output.shape for output in session(result, library=True).get_outputs()]
    assert [shape[1] for shape in shapes] == [1, 4]


def test_many_threads_on_one_session() -> None:
    model = two_modules()
    runner = session(regional(model), library=True)
    wanted = {rows: session(model).run(None, feed(rows, rows)) for rows in range(1, 17)}
    wrong: list[str] = []

    def work(rows: int) -> None:
        for _ in range(50):
            for got, want in zip(runner.run(None, feed(rows, rows)), wanted[rows], strict=True):
                if np.abs(got - want).max() > 1e-6 * max(1, np.abs(want).max()):
                    wrong.append(f"{rows} rows")

    threads = [threading.Thread(target=work, args=(rows,)) for rows in wanted]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_an_id_outside_its_table_names_the_inner_node() -> None:
    runner = session(regional(two_modules()), library=True)
    case = feed(3) | {"a": np.array([0, 20, 1])}
    with pytest.raises(Exception, match=r"FusedMultiGather.*id 20 in row 1 is outside the table"):
        runner.run(None, case)


@pytest.mark.parametrize(
    ("change", "into", "message"),
    [
        ("region 1", "region 2", r"attribute 'program', line 1, field 2 \(format version\): is a format .* it knows 1"),
        ("inputs 14", "inputs 13", "has 14 inputs, but its program says 13|which no line before this one makes"),
        ("streams 2", "streams 0", r"\(number of streams\): is 0"),
        ("node FusedGemm ", "node FusedGem ", "is a FusedGem, which no region can hold"),
        ("node FusedGemm ", "node ParallelRegion ", "is a ParallelRegion, which no region can hold"),
        ("  gemm 1", "  gemm 9", "format version"),
        ("name FusedGemm", "nam FusedGemm", 'where "name" was expected'),
        ("\noutput ", "\noutput 9", "which no line before this one makes"),
        ("\noutput ", "\noutput 0\noutput ", "is 0, an input, which no node makes"),
    ],
)
def test_a_wrong_program_is_named(change: str, into: str, message: str) -> None:
    result = with_program(regional(two_modules()), change, into)
    with pytest.raises(Exception, match=message):
        session(result, library=True)


def test_an_output_that_is_listed_twice_is_named() -> None:
    result = regional(two_modules())
    program = region_of(result).attribute[0].s.decode()
    first = program[program.index("\noutput ") :].split("\n")[1]
    with pytest.raises(Exception, match="which is an output already"):
        session(with_program(result, first, f"{first}\n{first}"), library=True)


def test_every_line_that_is_missing_is_missed() -> None:
    """Cut anywhere, the program is refused, or fails to make what the node gives: never a crash."""
    result = regional(two_modules())
    lines = region_of(result).attribute[0].s.decode().splitlines(keepends=True)
    for count in range(len(lines)):
        cut = onnx.ModelProto()
        cut.CopyFrom(result)
        region_of(cut).attribute[0].s = "".join(lines[:count]).encode()
        with pytest.raises(Exception):  # noqa: B017, PT011
            session(cut, library=True).run(None, feed(2))


def test_a_region_of_one_node_and_of_unread_values() -> None:
    weight = numpy_helper.from_array(table(4, 6), "w")
    program = (
        "region 1\ninputs 2\nstreams 2\n"
        "node FusedGemm 0 : 0 1 : 2\nname kept\n  gemm 1\n  precision fp32\n  weight nk\n  size 6 4\n"
        "node FusedGemm 1 : 0 1 : 3\nname unread\n  gemm 1\n  precision fp32\n  weight nk\n  size 6 4\n"
        "output 2\n"
    )
    graph = helper.make_graph(
        [helper.make_node("ParallelRegion", ["x", "w"], ["y"], domain="dpiframe", program=program)],
        "g",
        [helper.make_tensor_value_info("x", 1, ["b", 6])],
        [helper.make_tensor_value_info("y", 1, ["b", 4])],
        [weight],
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 20), helper.make_opsetid("dpiframe", 1)], ir_version=10
    )
    x = table(5, 6, seed=3)
    same(session(model, library=True).run(None, {"x": x})[0], x @ table(4, 6).T, 1e-6, "one node")


def test_a_product_of_several_axes_in_a_region() -> None:
    """The chain behind it needs its type, which must be known whatever is known of the sizes."""
    model = parse(
        """(float[b,4,3,2] x) => (float[b,1] y) {
          f = Flatten(x) p = Gemm <transB = 1> (f, W, c) h = Relu(p) q = Gemm <transB = 1> (h, V) y = Sigmoid(q) }""",
        W=table(8, 24) / 4,
        c=table(1, 8)[0],
        V=table(1, 8),
    )
    result = regional(model)
    assert [node.op_type for node in result.graph.node] == ["ParallelRegion"]
    x = table(5, 24, seed=3).reshape(5, 4, 3, 2)
    same(session(result, library=True).run(None, {"x": x})[0], session(model).run(None, {"x": x})[0], 1e-6, "left 3")
