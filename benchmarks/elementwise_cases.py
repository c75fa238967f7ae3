"""What CTR models have between their lookups and matrix products: as programs, as PyTorch, and as standard nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper

Shape = tuple[int, ...]


@dataclass
class Case:
    """rows: shapes of the inputs behind the batch; weights: of those that all rows share. nodes: (op, inputs, output,
    attributes) over x0, x1, ..., which are the rows and then the weights; the last one's output is "y"."""

    name: str
    rows: Sequence[Shape]
    weights: Sequence[Shape]
    program: str
    torch_function: Callable[..., torch.Tensor]
    nodes: Sequence[tuple[str, Sequence[str], str, dict[str, Any]]]
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    masks: frozenset[int] = frozenset()  # inputs that are bool

    def inputs(self, batch: int) -> list[torch.Tensor]:
        made = []
        for i, shape in enumerate((*((batch, *shape) for shape in self.rows), *self.weights)):
            value = torch.randn(shape, device="cuda") * 0.3
            made.append(value > 0 if i in self.masks else value)
        return made

    def onnx_model(self, batch: int) -> onnx.ModelProto:
        shapes = (*((batch, *shape) for shape in self.rows), *self.weights)
        inputs = [
            helper.make_tensor_value_info(f"x{i}", TensorProto.BOOL if i in self.masks else TensorProto.FLOAT, shape)
            for i, shape in enumerate(shapes)
        ]
        output = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
        nodes = [helper.make_node(op, list(names), [to], **attributes) for op, names, to, attributes in self.nodes]
        constants = [numpy_helper.from_array(value, name) for name, value in self.constants.items()]
        graph = helper.make_graph(nodes, self.name, inputs, [output], constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def _text(inputs: Sequence[str], lines: Sequence[str], output: int) -> str:
    declared = "".join(f"input {line}\n" for line in inputs)
    return f"elementwise 1\nrows 1\n{declared}" + "".join(f"{line}\n" for line in lines) + f"output {output}\n"


def _axes(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


def second_order(fields: int, dim: int) -> Case:
    """DeepFM's: half of the square of the sum less the sum of squares."""
    program = _text(
        [f"f32 x {fields} {dim}"],
        [
            f"sum f32 {dim} : 0 0",
            f"mul f32 {dim} : 1 1",
            f"mul f32 {fields} {dim} : 0 0",
            f"sum f32 {dim} : 3 0",
            f"sub f32 {dim} : 2 4",
            "sum f32 1 : 5 0",
            "const f32 5e-1",
            "mul f32 1 : 6 7",
        ],
        8,
    )
    nodes = [
        ("ReduceSum", ("x0", "one"), "s", {"keepdims": 0}),
        ("Mul", ("s", "s"), "ss", {}),
        ("Mul", ("x0", "x0"), "xx", {}),
        ("ReduceSum", ("xx", "one"), "q", {"keepdims": 0}),
        ("Sub", ("ss", "q"), "d", {}),
        ("ReduceSum", ("d", "one"), "t", {"keepdims": 1}),
        ("Mul", ("t", "half"), "y", {}),
    ]
    return Case(
        f"DeepFM second order {fields}x{dim}",
        [(fields, dim)],
        [],
        program,
        lambda x: 0.5 * (x.sum(1).square() - x.square().sum(1)).sum(1, keepdim=True),
        nodes,
        {"one": _axes(1), "half": np.array(0.5, np.float32)},
    )


def cross_layers(dim: int, layers: int) -> Case:
    """DCN's: x0 * (x . w) + b + x, layer after layer."""
    lines, nodes = [], []
    inputs = 1 + 2 * layers
    last, name = 0, "x0"
    for layer in range(layers):
        n = inputs + 5 * layer
        w, b = 1 + 2 * layer, 2 + 2 * layer
        lines += [
            f"mul f32 {dim} : {last} {w}",
            f"sum f32 1 : {n} 0",
            f"mul f32 {dim} : 0 {n + 1}",
            f"add f32 {dim} : {n + 2} {b}",
            f"add f32 {dim} : {n + 3} {last}",
        ]
        last = n + 4
        to = "y" if layer == layers - 1 else f"h{layer}"
        nodes += [
            ("Unsqueeze", (f"x{w}", "one"), f"w{layer}", {}),
            ("MatMul", (name, f"w{layer}"), f"s{layer}", {}),
            ("Mul", ("x0", f"s{layer}"), f"m{layer}", {}),
            ("Add", (f"m{layer}", f"x{b}"), f"a{layer}", {}),
            ("Add", (f"a{layer}", name), to, {}),
        ]
        name = to

    def function(x0: torch.Tensor, *weights: torch.Tensor) -> torch.Tensor:
        x = x0
        for w, b in zip(weights[::2], weights[1::2], strict=True):
            x = x0 * (x @ w)[:, None] + b + x
        return x

    program = _text([f"f32 x {dim}"] + [f"f32 - {dim}"] * (2 * layers), lines, last)
    weights = [(dim,)] * (2 * layers)
    return Case(f"DCN {layers} cross layers {dim}", [(dim,)], weights, program, function, nodes, {"one": _axes(1)})


def cross_epilogue(dim: int) -> Case:
    """What DCNv2 does with its product: x0 * (product + b) + x."""
    program = _text(
        [f"f32 x {dim}"] * 3 + [f"f32 - {dim}"],
        [f"add f32 {dim} : 1 3", f"mul f32 {dim} : 0 4", f"add f32 {dim} : 5 2"],
        6,
    )
    nodes = [("Add", ("x1", "x3"), "a", {}), ("Mul", ("x0", "a"), "m", {}), ("Add", ("m", "x2"), "y", {})]
    return Case(
        f"DCNv2 cross epilogue {dim}",
        [(dim,)] * 3,
        [(dim,)],
        program,
        lambda x0, product, x, b: x0 * (product + b) + x,
        nodes,
    )


def dot_interaction(fields: int, dim: int) -> Case:
    """DLRM's: products of all pairs of features, beside the dense one."""
    pairs = [(i, j) for i in range(fields) for j in range(i)]
    count = len(pairs)
    program = _text(
        [f"f32 x 1 {dim}", f"f32 x {fields - 1} {dim}"],
        [
            f"join f32 {fields} {dim} : 0 0 1",
            f"view f32 {fields} {fields} {dim} : 2 0 {dim} 0 1",
            f"view f32 {fields} {fields} {dim} : 2 0 0 {dim} 1",
            f"mul f32 {fields} {fields} {dim} : 3 4",
            f"sum f32 {fields} {fields} : 5 2",
            f"pick f32 {count} : 6 {' '.join(str(i * fields + j) for i, j in pairs)}",
            f"view f32 {dim} : 0 0 1",
            f"join f32 {dim + count} : 0 8 7",
        ],
        9,
    )
    # Where the pairs lie is a constant of the module, not work of a call.
    device = "cuda" if torch.cuda.is_available() else "cpu"
    rows, columns = (torch.tensor(half, device=device) for half in zip(*pairs, strict=True))

    def function(dense: torch.Tensor, sparse: torch.Tensor) -> torch.Tensor:
        x = torch.cat([dense, sparse], 1)
        products = torch.bmm(x, x.transpose(1, 2))
        return torch.cat([dense.squeeze(1), products[:, rows, columns]], 1)

    nodes = [
        ("Concat", ("x0", "x1"), "x", {"axis": 1}),
        ("Transpose", ("x",), "xt", {"perm": [0, 2, 1]}),
        ("MatMul", ("x", "xt"), "p", {}),
        ("Reshape", ("p", "flat"), "pf", {}),
        ("Gather", ("pf", "pairs"), "z", {"axis": 1}),
        ("Squeeze", ("x0", "one"), "d", {}),
        ("Concat", ("d", "z"), "y", {"axis": 1}),
    ]
    constants = {
        "flat": _axes(0, fields * fields),
        "pairs": np.array([i * fields + j for i, j in pairs], np.int64),
        "one": _axes(1),
    }
    return Case(
        f"DLRM interaction {fields}x{dim}", [(1, dim), (fields - 1, dim)], [], program, function, nodes, constants
    )


def dice(dim: int) -> Case:
    """DIN's activation: a gate of the normalised input between x and alpha * x."""
    program = _text(
        [f"f32 x {dim}"] + [f"f32 - {dim}"] * 3,
        [
            f"sub f32 {dim} : 0 1",
            f"mul f32 {dim} : 4 2",
            f"sigmoid f32 {dim} : 5",
            f"mul f32 {dim} : 6 0",
            "const f32 1",
            f"sub f32 {dim} : 8 6",
            f"mul f32 {dim} : 9 3",
            f"mul f32 {dim} : 10 0",
            f"add f32 {dim} : 7 11",
        ],
        12,
    )
    nodes = [
        ("Sub", ("x0", "x1"), "c", {}),
        ("Mul", ("c", "x2"), "n", {}),
        ("Sigmoid", ("n",), "p", {}),
        ("Mul", ("p", "x0"), "px", {}),
        ("Sub", ("one", "p"), "q", {}),
        ("Mul", ("q", "x3"), "qa", {}),
        ("Mul", ("qa", "x0"), "qax", {}),
        ("Add", ("px", "qax"), "y", {}),
    ]

    def function(x: torch.Tensor, mean: torch.Tensor, scale: torch.Tensor, alpha: torch.Tensor) -> torch.Tensor:
        p = torch.sigmoid((x - mean) * scale)
        return p * x + (1 - p) * alpha * x

    return Case(f"Dice {dim}", [(dim,)], [(dim,)] * 3, program, function, nodes, {"one": np.array(1, np.float32)})


def masked_mean(length: int, dim: int) -> Case:
    """Mean over the positions of a sequence that a mask leaves."""
    program = _text(
        [f"f32 x {length} {dim}", f"bool x {length}"],
        [
            f"cast f32 {length} : 1",
            f"view f32 {length} 1 : 2 0 1 0",
            f"mul f32 {length} {dim} : 0 3",
            f"sum f32 {dim} : 4 0",
            "sum f32 1 : 2 0",
            "const f32 1e-8",
            "add f32 1 : 6 7",
            f"div f32 {dim} : 5 8",
        ],
        9,
    )
    nodes = [
        ("Cast", ("x1",), "m", {"to": TensorProto.FLOAT}),
        ("Unsqueeze", ("m", "two"), "mu", {}),
        ("Mul", ("x0", "mu"), "xm", {}),
        ("ReduceSum", ("xm", "one"), "s", {"keepdims": 0}),
        ("ReduceSum", ("m", "one"), "c", {"keepdims": 1}),
        ("Add", ("c", "eps"), "ce", {}),
        ("Div", ("s", "ce"), "y", {}),
    ]

    def function(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        m = mask.to(x.dtype)
        return (x * m[..., None]).sum(1) / (m.sum(1, keepdim=True) + 1e-8)

    constants = {"one": _axes(1), "two": _axes(2), "eps": np.array(1e-8, np.float32)}
    rows = [(length, dim), (length,)]
    return Case(f"masked mean {length}x{dim}", rows, [], program, function, nodes, constants, frozenset({1}))


def norm_gate(dim: int) -> Case:
    """A gate of the layer-normalised input, as MaskNet and GDCN have them."""
    program = _text(
        [f"f32 x {dim}"] * 2 + [f"f32 - {dim}"] * 2,
        [
            "sum f32 1 : 0 0",
            f"const f32 {dim}",
            "div f32 1 : 4 5",
            f"sub f32 {dim} : 0 6",
            "sum f32 1 : 7 0",
            "div f32 1 : 8 5",
            f"mul f32 {dim} : 7 7",
            "sum f32 1 : 10 0",
            "div f32 1 : 11 5",
            "mul f32 1 : 9 9",
            "sub f32 1 : 12 13",
            "relu f32 1 : 14",
            "const f32 1e-5",
            "add f32 1 : 15 16",
            "sqrt f32 1 : 17",
            f"sub f32 {dim} : 7 9",
            f"div f32 {dim} : 19 18",
            f"mul f32 {dim} : 20 2",
            f"add f32 {dim} : 21 3",
            f"sigmoid f32 {dim} : 22",
            f"mul f32 {dim} : 23 1",
        ],
        24,
    )
    nodes = [
        ("LayerNormalization", ("x0", "x2", "x3"), "n", {"axis": -1, "epsilon": 1e-5}),
        ("Sigmoid", ("n",), "g", {}),
        ("Mul", ("g", "x1"), "y", {}),
    ]

    def function(x: torch.Tensor, other: torch.Tensor, scale: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(torch.nn.functional.layer_norm(x, (dim,), scale, bias, 1e-5)) * other

    return Case(f"LayerNorm gate {dim}", [(dim,)] * 2, [(dim,)] * 2, program, function, nodes)


def wide_head(fields: int) -> Case:
    """The sum of the wide part, the deep part and a bias, as a probability."""
    program = _text(
        [f"f32 x {fields} 1", "f32 x 1", "f32 - 1"],
        ["sum f32 1 : 0 0", "add f32 1 : 3 1", "add f32 1 : 4 2", "sigmoid f32 1 : 5"],
        6,
    )
    nodes = [
        ("ReduceSum", ("x0", "one"), "s", {"keepdims": 0}),
        ("Add", ("s", "x1"), "a", {}),
        ("Add", ("a", "x2"), "b", {}),
        ("Sigmoid", ("b",), "y", {}),
    ]
    return Case(
        f"wide head {fields}",
        [(fields, 1), (1,)],
        [(1,)],
        program,
        lambda wide, deep, bias: torch.sigmoid(wide.sum(1) + deep + bias),
        nodes,
        {"one": _axes(1)},
    )


CASES = [
    second_order(39, 16),
    second_order(26, 16),
    cross_layers(624, 3),
    cross_epilogue(624),
    dot_interaction(27, 16),
    dice(256),
    masked_mean(50, 16),
    norm_gate(64),
    wide_head(39),
]
