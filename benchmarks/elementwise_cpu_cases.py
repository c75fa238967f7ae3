"""What click-through-rate models hold besides matrix products: each as ONNX Runtime's own nodes and as a program."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import helper, numpy_helper, parser


@dataclass
class Case:
    """inputs: of a row. nodes: ONNX Runtime's, from these inputs and weights to y. program: what they mean, its inputs
    in the same order."""

    name: str
    inputs: dict[str, str]
    nodes: str
    program: str
    weights: dict[str, np.ndarray] = field(default_factory=dict)
    constants: dict[str, np.ndarray] = field(default_factory=dict)

    def standard(self) -> onnx.ModelProto:
        inputs = ", ".join(
            f"{kind}[{', '.join(['B', *sizes.split()])}] {name}" for name, (kind, sizes) in self.split_inputs().items()
        )
        text = f'<ir_version: 10, opset_import: ["": 20]> case ({inputs}) => (float[] y) {{ {self.nodes} }}'
        model = parser.parse_model(text)
        model.graph.output[0].type.tensor_type.ClearField("shape")
        arrays = {**self.weights, **self.constants}
        model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in arrays.items())
        return model

    def fused(self) -> onnx.ModelProto:
        model = self.standard()
        node = helper.make_node(
            "FusedElementwise", [*self.inputs, *self.weights], ["y"], domain="dpiframe", program=self.program
        )
        del model.graph.node[:]
        model.graph.node.append(node)
        model.opset_import.append(helper.make_opsetid("dpiframe", 1))
        kept = [tensor for tensor in model.graph.initializer if tensor.name in self.weights]
        del model.graph.initializer[:]
        model.graph.initializer.extend(kept)
        return model

    def split_inputs(self) -> dict[str, tuple[str, str]]:
        return {name: text.partition(" ")[::2] for name, text in self.inputs.items()}

    def feed(self, rng: np.random.Generator, batch: int) -> dict[str, np.ndarray]:
        feed = {}
        for name, (kind, sizes) in self.split_inputs().items():
            shape = (batch, *map(int, sizes.split()))
            if kind == "int64":
                feed[name] = np.maximum(rng.integers(-10, 30, shape), 0)
            else:
                feed[name] = rng.standard_normal(shape).astype(np.float32)
        return feed


def program(rows: str) -> str:
    return "elementwise 1\nrows 1\n" + "".join(line.strip() + "\n" for line in rows.splitlines() if line.strip())


def weight(*shape: int) -> np.ndarray:
    return (np.random.default_rng(len(shape)).standard_normal(shape) * 0.1).astype(np.float32)


def factorization_machine(fields: int) -> Case:
    return Case(
        f"FM second order, {fields} x 16",
        {"e": f"float {fields} 16"},
        """
        sum = ReduceSum <keepdims = 0> (e, one)
        square_of_sum = Mul (sum, sum)
        square = Mul (e, e)
        sum_of_squares = ReduceSum <keepdims = 0> (square, one)
        difference = Sub (square_of_sum, sum_of_squares)
        total = ReduceSum <keepdims = 1> (difference, one)
        y = Mul (total, half)
        """,
        program(
            f"""
            input f32 x {fields} 16
            const f32 5e-1
            sum f32 16 : 0 0
            mul f32 16 : 2 2
            mul f32 {fields} 16 : 0 0
            sum f32 16 : 4 0
            sub f32 16 : 3 5
            sum f32 1 : 6 0
            mul f32 1 : 7 1
            output 8
            """
        ),
        constants={"one": np.array([1]), "half": np.array(0.5, np.float32)},
    )


def cross_layers() -> Case:
    nodes, lines, last = "", "", 0
    for layer in range(3):
        x, y = ("x" if layer == 0 else f"x{layer}"), ("y" if layer == 2 else f"x{layer + 1}")
        nodes += f"""
            dot{layer} = MatMul ({x}, w{layer}) crossed{layer} = Mul (x, dot{layer})
            biased{layer} = Add (crossed{layer}, b{layer}) {y} = Add (biased{layer}, {x})
            """
        at = 10 + 6 * layer
        lines += f"""
            view f32 416 : {1 + 2 * layer} 0 1
            mul f32 416 : {last} {at - 3}
            sum f32 1 : {at - 2} 0
            mul f32 416 : 0 {at - 1}
            add f32 416 : {at} {2 + 2 * layer}
            add f32 416 : {at + 1} {last}
            """
        last = at + 2
    inputs = "input f32 x 416\n" + "input f32 - 416 1\ninput f32 - 416\n" * 3
    weights: dict[str, np.ndarray] = {}
    for layer in range(3):
        weights |= {f"w{layer}": weight(416, 1), f"b{layer}": weight(416)}
    return Case(
        "DCN, 3 cross layers of 416", {"x": "float 416"}, nodes, program(f"{inputs}{lines}output {last}"), weights
    )


def masked_mean() -> Case:
    return Case(
        "masked mean pool, 50 x 16",
        {"e": "float 50 16", "ids": "int64 50"},
        """
        padded = Equal (ids, zero) real = Not (padded) flat_mask = Cast <to = 1> (real)
        mask = Unsqueeze (flat_mask, two) masked = Mul (e, mask)
        total = ReduceSum <keepdims = 0> (masked, one) count = ReduceSum <keepdims = 1> (flat_mask, one)
        some = Add (count, epsilon) y = Div (total, some)
        """,
        program(
            """
            input f32 x 50 16
            input i64 x 50
            const i64 0
            const f32 1e-08
            eq bool 50 : 1 2
            not bool 50 : 4
            cast f32 50 : 5
            view f32 50 1 : 6 0 1 0
            mul f32 50 16 : 0 7
            sum f32 16 : 8 0
            sum f32 1 : 6 0
            add f32 1 : 10 3
            div f32 16 : 9 11
            output 12
            """
        ),
        constants={
            "zero": np.array(0),
            "one": np.array([1]),
            "two": np.array([2]),
            "epsilon": np.array(1e-8, np.float32),
        },
    )


def layer_norm() -> Case:
    return Case(
        "LayerNormalization, 64",
        {"x": "float 64"},
        "y = LayerNormalization <axis = -1, epsilon = 1e-05> (x, scale, bias)",
        program(
            """
            input f32 x 64
            input f32 - 64
            input f32 - 64
            const f32 6.4e+01
            const f32 1e-05
            sum f32 1 : 0 0
            div f32 1 : 5 3
            sub f32 64 : 0 6
            sum f32 1 : 7 0
            div f32 1 : 8 3
            mul f32 64 : 7 7
            sum f32 1 : 10 0
            div f32 1 : 11 3
            mul f32 1 : 9 9
            sub f32 1 : 12 13
            relu f32 1 : 14
            add f32 1 : 15 4
            sqrt f32 1 : 16
            sub f32 64 : 7 9
            div f32 64 : 18 17
            mul f32 64 : 19 1
            add f32 64 : 20 2
            output 21
            """
        ),
        {"scale": weight(64), "bias": weight(64)},
    )


def softmax() -> Case:
    return Case(
        "softmax over 10 experts",
        {"x": "float 10"},
        "y = Softmax <axis = -1> (x)",
        program(
            """
            input f32 x 10
            max f32 1 : 0 0
            sub f32 10 : 0 1
            exp f32 10 : 2
            sum f32 1 : 3 0
            div f32 10 : 3 4
            output 5
            """
        ),
    )


def mixture() -> Case:
    return Case(
        "softmax gate, mix of 10 experts x 32",
        {"x": "float 10", "e": "float 10 32"},
        """
        gate = Softmax <axis = -1> (x) column = Unsqueeze (gate, two) weighted = Mul (e, column)
        y = ReduceSum <keepdims = 0> (weighted, one)
        """,
        program(
            """
            input f32 x 10
            input f32 x 10 32
            max f32 1 : 0 0
            sub f32 10 : 0 2
            exp f32 10 : 3
            sum f32 1 : 4 0
            div f32 10 : 4 5
            view f32 10 1 : 6 0 1 0
            mul f32 10 32 : 1 7
            sum f32 32 : 8 0
            output 9
            """
        ),
        constants={"one": np.array([1]), "two": np.array([2])},
    )


def dice() -> Case:
    return Case(
        "Dice, 256",
        {"x": "float 256"},
        """
        n = BatchNormalization <epsilon = 1e-08> (x, scale, bias, mean, variance) p = Sigmoid (n)
        left = Mul (p, x) q = Sub (one, p) scaled = Mul (alpha, q) right = Mul (scaled, x) y = Add (left, right)
        """,
        program(
            """
            input f32 x 256
            input f32 - 256
            input f32 - 256
            input f32 - 256
            input f32 - 256
            input f32 - 256
            const f32 1
            const f32 1e-08
            sub f32 256 : 0 3
            add f32 256 : 4 7
            sqrt f32 256 : 9
            div f32 256 : 1 10
            mul f32 256 : 8 11
            add f32 256 : 12 2
            sigmoid f32 256 : 13
            mul f32 256 : 14 0
            sub f32 256 : 6 14
            mul f32 256 : 5 16
            mul f32 256 : 17 0
            add f32 256 : 15 18
            output 19
            """
        ),
        {
            "scale": np.ones(256, np.float32),
            "bias": weight(256),
            "mean": weight(256),
            "variance": np.abs(weight(256)) + 0.5,
            "alpha": weight(256),
        },
        {"one": np.array(1, np.float32)},
    )


def interaction() -> Case:
    lower = [(i, j) for i in range(27) for j in range(i)]
    indices = " ".join(str(i * 27 + j) for i, j in lower)
    return Case(
        "DLRM interaction, 27 x 16",
        {"e": "float 27 16"},
        """
        turned = Transpose <perm = [0, 2, 1]> (e) products = MatMul (e, turned)
        flat = Reshape (products, shape) y = Gather <axis = 1> (flat, pairs)
        """,
        program(
            f"""
            input f32 x 27 16
            view f32 27 27 16 : 0 0 16 0 1
            view f32 27 27 16 : 0 0 0 16 1
            mul f32 27 27 16 : 1 2
            sum f32 27 27 : 3 2
            pick f32 351 : 4 {indices}
            output 5
            """
        ),
        constants={"shape": np.array([-1, 729]), "pairs": np.array([i * 27 + j for i, j in lower])},
    )


def attention(fields: int) -> Case:
    """AutoInt's, between the products with weights: 2 heads of 16, all fields with all."""
    return Case(
        f"attention, 2 heads, {fields} x 16",
        dict.fromkeys(("queries", "keys", "values"), f"float {fields} 32"),
        """
        q = Reshape (queries, split) k = Reshape (keys, split) v = Reshape (values, split)
        qs = Transpose <perm = [0, 2, 1, 3]> (q) ks = Transpose <perm = [0, 2, 3, 1]> (k)
        vs = Transpose <perm = [0, 2, 1, 3]> (v) products = MatMul (qs, ks) scores = Mul (products, quarter)
        weights = Softmax <axis = -1> (scores) mixed = MatMul (weights, vs)
        turned = Transpose <perm = [0, 2, 1, 3]> (mixed) y = Reshape (turned, joined)
        """,
        program(
            f"""
            input f32 x {fields} 32
            input f32 x {fields} 32
            input f32 x {fields} 32
            view f32 2 {fields} 1 16 : 0 0 16 32 0 1
            view f32 2 1 {fields} 16 : 1 0 16 0 32 1
            mul f32 2 {fields} {fields} 16 : 3 4
            sum f32 2 {fields} {fields} : 5 3
            const f32 2.5e-01
            mul f32 2 {fields} {fields} : 6 7
            max f32 2 {fields} 1 : 8 2
            sub f32 2 {fields} {fields} : 8 9
            exp f32 2 {fields} {fields} : 10
            sum f32 2 {fields} 1 : 11 2
            div f32 2 {fields} {fields} : 11 12
            view f32 2 {fields} 1 {fields} : 13 0 {fields * fields} {fields} 0 1
            view f32 2 1 16 {fields} : 2 0 16 0 1 32
            mul f32 2 {fields} 16 {fields} : 14 15
            sum f32 2 {fields} 16 : 16 3
            view f32 {fields} 2 16 : 17 0 16 {16 * fields} 1
            view f32 {fields} 32 : 18 0 32 1
            output 19
            """
        ),
        constants={
            "split": np.array([0, 0, 2, 16]),
            "joined": np.array([0, 0, 32]),
            "quarter": np.array(0.25, np.float32),
        },
    )


def head() -> Case:
    return Case(
        "head: 3 logits, bias, sigmoid",
        {"a": "float 1", "b": "float 1", "c": "float 1"},
        "ab = Add (a, b) abc = Add (ab, c) logit = Add (abc, bias) y = Sigmoid (logit)",
        program(
            """
            input f32 x 1
            input f32 x 1
            input f32 x 1
            input f32 - 1
            add f32 1 : 0 1
            add f32 1 : 4 2
            add f32 1 : 5 3
            sigmoid f32 1 : 6
            output 7
            """
        ),
        {"bias": weight(1)},
    )


CASES = (
    factorization_machine(26),
    factorization_machine(39),
    cross_layers(),
    masked_mean(),
    layer_norm(),
    softmax(),
    mixture(),
    dice(),
    interaction(),
    attention(26),
    attention(39),
    head(),
)
