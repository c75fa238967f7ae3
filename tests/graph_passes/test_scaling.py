"""Hazard: a large graph takes minutes, or a large table takes memory."""

from __future__ import annotations

import math
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from dpiframe.graph_passes.model_io import load
from dpiframe.graph_passes.pipeline import optimize_model
from tests.graph_passes.harness import OP, op_types, parse, table

NODES = 10_000
# An idle machine takes 1.1 to 1.8; two workers on the threads of one core 2.5 each, with other work beside them 3.7.
SECONDS = 5.0


def unit() -> float:
    """How long a fixed piece of Python work takes now, in the time it takes an idle core of 2024: 1 there, more on
    a busy one."""
    started = time.process_time()
    entries: dict[int, list[int]] = {}
    for k in range(300_000):
        entries.setdefault(k % 1000, []).append(k)
    return max(1.0, (time.process_time() - started) / 0.05)


def graph_of(
    nodes: list[onnx.NodeProto], inputs: dict[str, tuple], initializers: dict[str, np.ndarray], output: str
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(n, kind, shape) for n, (kind, shape) in inputs.items()],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)],
        [numpy_helper.from_array(v, n) for n, v in initializers.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


IDS = {"ids": (TensorProto.INT64, ["b"])}


def diamonds(n: int) -> onnx.ModelProto:
    """Two ways from each step to the next: 2^n paths."""
    nodes = [helper.make_node("Gather", ["W", "ids"], ["x0"])]
    for k in range(n // 3):
        nodes += [
            helper.make_node("Relu", [f"x{k}"], [f"a{k}"]),
            helper.make_node("Sigmoid", [f"x{k}"], [f"c{k}"]),
            helper.make_node("Add", [f"a{k}", f"c{k}"], [f"x{k + 1}"]),
        ]
    return graph_of(nodes, IDS, {"W": table(10, 8)}, f"x{n // 3}")


def doublings(n: int) -> onnx.ModelProto:
    """Rows added to themselves: 2^n terms if each were written down."""
    nodes = [helper.make_node("Gather", ["W", "ids"], ["x0"])]
    nodes += [helper.make_node("Add", [f"x{k}", f"x{k}"], [f"x{k + 1}"]) for k in range(n)]
    return graph_of(nodes, IDS, {"W": table(10, 8)}, f"x{n}")


def joins_of_joins(n: int) -> onnx.ModelProto:
    """A join of all that was joined before, at each step: 5n rows in all joins together, of which the file has a line
    each."""
    count = math.isqrt(10 * n)
    inputs = {f"i{k}": (TensorProto.INT64, ["b"]) for k in range(count)}
    nodes = [helper.make_node("Gather", ["W", f"i{k}"], [f"e{k}"]) for k in range(count)]
    for k in range(1, count):
        nodes.append(helper.make_node("Concat", [f"j{k - 1}" if k > 1 else "e0", f"e{k}"], [f"j{k}"], axis=1))
        nodes.append(helper.make_node("ReduceMax", [f"j{k}"], [f"r{k}"], keepdims=0))
    nodes.append(helper.make_node("Sum", [f"r{k}" for k in range(1, count)], ["y"]))
    return graph_of(nodes, inputs, {"W": table(10, 8)}, "y")


def running_sums(n: int) -> onnx.ModelProto:
    """Sums of the first k rows, all of them needed."""
    count = n // 3
    inputs = {f"i{k}": (TensorProto.INT64, ["b"]) for k in range(count)}
    nodes = [helper.make_node("Gather", ["W", f"i{k}"], [f"e{k}"]) for k in range(count)]
    for k in range(1, count):
        nodes.append(helper.make_node("Add", [f"s{k - 1}" if k > 1 else "e0", f"e{k}"], [f"s{k}"]))
        nodes.append(helper.make_node("Relu", [f"s{k}"], [f"o{k}"]))
    nodes.append(helper.make_node("Sum", [f"o{k}" for k in range(1, count)], ["y"]))
    return graph_of(nodes, inputs, {"W": table(10, 8)}, "y")


def many_fields(n: int) -> onnx.ModelProto:
    """n / 4 fields, their casts and views, one join, and a chain of nodes without effect."""
    count = n // 4
    inputs = {f"i{k}": (TensorProto.INT64, ["b"]) for k in range(count)}
    nodes = []
    for k in range(count):
        nodes += [
            helper.make_node("Cast", [f"i{k}"], [f"c{k}"], to=TensorProto.INT64),
            helper.make_node("Gather", ["W", f"c{k}"], [f"e{k}"]),
            helper.make_node("Unsqueeze", [f"e{k}", "one"], [f"u{k}"]),
            helper.make_node("Identity", [f"d{k - 1}" if k else "j"], [f"d{k}"]),
        ]
    nodes.append(helper.make_node("Concat", [f"u{k}" for k in range(count)], ["j"], axis=1))
    nodes.append(helper.make_node("Relu", [f"d{count - 1}"], ["y"]))
    return graph_of(nodes, inputs, {"W": table(10, 8), "one": np.array([1])}, "y")


def shapes_of_shapes(n: int) -> onnx.ModelProto:
    """Each Reshape's target is computed from the one before."""
    nodes = [helper.make_node("Gather", ["W", "ids"], ["x0"])]
    for k in range(n // 5):
        nodes += [
            helper.make_node("Relu", [f"x{k}"], [f"r{k}"]),
            helper.make_node("Shape", [f"r{k}"], [f"s{k}"]),
            helper.make_node("Gather", [f"s{k}", "zero"], [f"b{k}"]),
            helper.make_node("Concat", [f"b{k}", "eight"], [f"t{k}"], axis=0),
            helper.make_node("Reshape", [f"r{k}", f"t{k}"], [f"x{k + 1}"]),
        ]
    constants = {"W": table(10, 8), "zero": np.array([0]), "eight": np.array([8])}
    return graph_of(nodes, IDS, constants, f"x{n // 5}")


def decided_branches(n: int) -> onnx.ModelProto:
    nodes = [helper.make_node("Gather", ["W", "ids"], ["x0"])]
    for k in range(n // 5):
        branches = [
            helper.make_graph(
                [helper.make_node(op, [f"x{k}"], ["q"]), helper.make_node("Neg", ["q"], ["o"])],
                "branch",
                [],
                [helper.make_tensor_value_info("o", TensorProto.FLOAT, None)],
            )
            for op in ("Relu", "Sigmoid")
        ]
        nodes.append(helper.make_node("If", ["c"], [f"x{k + 1}"], then_branch=branches[0], else_branch=branches[1]))
    return graph_of(nodes, IDS, {"W": table(10, 8), "c": np.array(True)}, f"x{n // 5}")


def turned_layers(n: int) -> onnx.ModelProto:
    """The batch goes behind another axis and comes back, with a node between that keeps it there in every second layer."""
    nodes = [helper.make_node("Gather", ["W", "ids"], ["x0"])]
    for k in range(n // 4):
        between = (
            helper.make_node("CumSum", [f"a{k}", "c"], [f"s{k}"])
            if k % 2
            else helper.make_node("Softmax", [f"a{k}"], [f"s{k}"], axis=0)
        )
        nodes += [
            helper.make_node("Transpose", [f"x{k}"], [f"t{k}"], perm=[1, 0, 2]),
            helper.make_node("Relu", [f"t{k}"], [f"a{k}"]),
            between,
            helper.make_node("Transpose", [f"s{k}"], [f"u{k}"], perm=[1, 0, 2]),
            helper.make_node("Neg", [f"u{k}"], [f"x{k + 1}"]),
        ]
    return graph_of(nodes, {"ids": (TensorProto.INT64, ["b", 3])}, {"W": table(10, 8), "c": np.array(0)}, f"x{n // 4}")


def equal_towers(n: int) -> onnx.ModelProto:
    """Two towers of layers, each pair of which becomes one product."""
    nodes = [helper.make_node("Gather", ["W", "ids"], ["x"])]
    weights = {"W": table(10, 8)}
    for layer in range(n // 4):
        for tower in "ab":
            weights[f"{tower}{layer}"] = table(8, 8, seed=layer)
            before = f"{tower}h{layer - 1}" if layer else "x"
            nodes.append(helper.make_node("MatMul", [before, f"{tower}{layer}"], [f"{tower}p{layer}"]))
            nodes.append(helper.make_node("Relu", [f"{tower}p{layer}"], [f"{tower}h{layer}"]))
    nodes.append(helper.make_node("Max", [f"{tower}h{n // 4 - 1}" for tower in "ab"], ["y"]))
    return graph_of(nodes, IDS, weights, "y")


KINDS = [
    equal_towers,
    turned_layers,
    diamonds,
    doublings,
    joins_of_joins,
    running_sums,
    many_fields,
    shapes_of_shapes,
    decided_branches,
]


@pytest.mark.parametrize("kind", [diamonds, doublings])
def test_ten_thousand_nodes_in_seconds(kind: object) -> None:
    model = kind(NODES)  # type: ignore[operator]
    taken = []
    for _ in range(3):
        speed = unit()
        started = time.process_time()
        result = optimize_model(model, bad_ids="clamp")
        taken.append((time.process_time() - started) / speed)
        assert result.lookups_fused == 1
        if taken[-1] <= SECONDS:
            break
    assert min(taken) <= SECONDS, taken


@pytest.mark.parametrize(
    ("provider", "kind", "count"),
    [("cpu", diamonds, NODES // 2), ("cuda", diamonds, NODES // 2), ("cuda", equal_towers, NODES // 10)],
)
def test_four_times_the_nodes_take_four_times_the_time(provider: str, kind: object, count: int) -> None:
    models = [kind(count), kind(4 * count)]  # type: ignore[operator]
    best = [float("inf")] * 2
    for _ in range(4):
        for place, model in enumerate(models):
            started = time.process_time()
            optimize_model(model, provider=provider)
            best[place] = min(best[place], time.process_time() - started)
        # 4 where it is linear, 16 where it is quadratic; on a busy machine once more
        if best[1] <= 8 * best[0]:
            return
    raise AssertionError(best)


@pytest.mark.parametrize("kind", KINDS)
def test_time_grows_with_the_graph_and_not_with_its_square(kind: object) -> None:
    def seconds(n: int) -> float:
        model = kind(n)  # type: ignore[operator]
        best = float("inf")
        for _ in range(2):
            started = time.process_time()
            optimize_model(model)
            best = min(best, time.process_time() - started)
        return best

    small, large = seconds(600), seconds(2400)
    # four times as many nodes: 4 where it is linear, 16 where it is quadratic
    assert large <= 9 * small + 0.2, (small, large)


def test_joins_of_joins_do_not_multiply_the_rows_of_the_file() -> None:
    result = optimize_model(joins_of_joins(360))
    assert op_types(result.model).count(OP) == 1
    assert result.model.ByteSize() < 400_000


SPARSE = """
import resource, sys
from dpiframe.graph_passes.model_io import load, save
from dpiframe.graph_passes.pipeline import optimize_model
from dpiframe.graph_passes.id_ranges import id_ranges
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
model = load(sys.argv[1])
result = optimize_model(model)
ranges = id_ranges(model)
save(result.model, sys.argv[2])
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(result.lookups_fused, after - before)
"""


def external_model(folder: Path, rows: int, dim: int, count: int) -> Path:
    """Tables of rows * dim floats each in one sparse file."""
    size = rows * dim * 4
    with (folder / "tables.bin").open("wb") as file:
        file.truncate(size * count)
    inputs = ", ".join(f"int64[b] i{k}" for k in range(count))
    nodes = " ".join(f"e{k} = Gather(W{k}, i{k})" for k in range(count))
    joined = ", ".join(f"e{k}" for k in range(count))
    model = parse(f"({inputs}) => (float[b,n] y) {{ {nodes} j = Concat<axis=1>({joined}) y = Relu(j) }}")
    for k in range(count):
        tensor = TensorProto(
            name=f"W{k}", data_type=TensorProto.FLOAT, dims=[rows, dim], data_location=TensorProto.EXTERNAL
        )
        for key, value in (("location", "tables.bin"), ("offset", str(k * size)), ("length", str(size))):
            tensor.external_data.add(key=key, value=value)
        model.graph.initializer.append(tensor)
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def test_tables_of_many_gigabytes_are_neither_read_nor_written(tmp_path: Path) -> None:
    path = external_model(tmp_path, 50_000_000, 16, 4)
    assert (tmp_path / "tables.bin").stat().st_size == 4 * 50_000_000 * 64
    used = (tmp_path / "tables.bin").stat().st_blocks
    done = subprocess.run(
        [sys.executable, "-c", SPARSE, str(path), str(tmp_path / "out.onnx")],
        capture_output=True,
        text=True,
        check=True,
    )
    fused, kilobytes = map(int, done.stdout.split())
    assert fused == 4
    assert kilobytes < 100_000
    assert (tmp_path / "tables.bin").stat().st_blocks == used
    after = load(tmp_path / "out.onnx")
    assert op_types(after) == [OP, "Relu"]
    assert list(after.graph.initializer) == list(load(path).graph.initializer)


def test_external_data_is_not_opened(tmp_path: Path) -> None:
    path = external_model(tmp_path, 1000, 16, 3)
    model = load(path)
    # after the size check of load, nobody may look at the file again
    (tmp_path / "tables.bin").unlink()
    result = optimize_model(model)
    assert result.lookups_fused == 3
    assert list(result.model.graph.initializer) == list(model.graph.initializer)


def test_tables_in_the_file_are_not_copied_for_shape_inference() -> None:
    code = textwrap.dedent(
        """
        import resource
        import numpy as np, onnx
        from dpiframe.graph_passes.workbench import Workbench
        from dpiframe.graph_passes.canonicalize import Canonicalize
        from onnx import helper, numpy_helper, TensorProto
        table = TensorProto(name="W", data_type=TensorProto.FLOAT, dims=[1 << 20, 64], raw_data=bytes(1 << 28))
        graph = helper.make_graph(
            [helper.make_node("Identity", ["i"], ["j"]), helper.make_node("Gather", ["W", "j"], ["y"])], "g",
            [helper.make_tensor_value_info("i", TensorProto.INT64, ["b"])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["b", 64])],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
        model.graph.initializer.append(table)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        bench = Workbench(model)
        Canonicalize()(bench)
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
        """
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 60_000
