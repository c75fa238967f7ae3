"""Attention in the ways in which it is written: between its products with weights it is one kernel."""

from __future__ import annotations

import numpy as np

from tests.graph_passes.elementwise.programs import near
from tests.graph_passes.harness import op_types, optimize, parse, session


def test_heads_stacked_in_front() -> None:
    """As AutoInt is written in DeepCTR."""
    parts = " ".join(
        f"{n} = MatMul(x, w{n}) {n}0, {n}1 = Split<axis=2>({n}, halves) {n}u = Unsqueeze({n}0, zero)"
        f" {n}v = Unsqueeze({n}1, zero) {n}s = Concat<axis=0>({n}u, {n}v)"
        for n in "qkv"
    )
    weights = {f"w{n}": np.random.default_rng(ord(n)).normal(size=(16, 16)).astype(np.float32) / 4 for n in "qkv"}
    model = parse(
        f"""(float[b,12,16] x) => (float[b,12,16] y) {{ {parts}
            e = Einsum<equation="hbik,hbjk->hbij">(qs, ks) d = Div(e, two) a = Softmax<axis=-1>(d) m = MatMul(a, vs)
            m0, m1 = Split<axis=0>(m, ones) j = Concat<axis=-1>(m0, m1) o = Squeeze(j, zero) r = Add(o, x) y = Relu(r)
        }}""",
        halves=np.array([8, 8]),
        ones=np.array([1, 1]),
        zero=np.array([0]),
        two=np.array(2, np.float32),
        **weights,
    )
    made = optimize(model, provider="cpu").model
    assert sorted(op_types(made)) == ["FusedElementwise", "MatMul", "MatMul", "MatMul"]
    for batch in (1, 4):  # ONNX Runtime's own Einsum of an empty batch ends the process
        case = {"x": np.random.default_rng(batch).normal(size=(batch, 12, 16)).astype(np.float32)}
        for library in (False, True):
            near(session(made, library).run(None, case)[0], session(model).run(None, case)[0], f"library {library}")
