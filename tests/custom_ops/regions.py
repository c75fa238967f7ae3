"""Models with branches, the passes that make regions of them, and inputs."""

from __future__ import annotations

import numpy as np
import onnx

from dpiframe.graph_passes.canonicalize import Canonicalize
from dpiframe.graph_passes.cleanup import Cleanup
from dpiframe.graph_passes.elementwise.fuse import FuseElementwise
from dpiframe.graph_passes.gemm.fuse import FuseGemm
from dpiframe.graph_passes.lookups.fuse import FuseLookups
from dpiframe.graph_passes.streams.assign import AssignStreams
from dpiframe.graph_passes.workbench import Workbench
from tests.graph_passes.harness import parse, table

WIDTH, DELAY = 64, 4096


def two_modules() -> onnx.ModelProto:
    """Lookups, then a cross module beside a deep one, then a head: every fused op in one region."""
    text = """(int64[b] a, int64[b] c, float[b,3] d) => (float[b,1] y, float[b,4] s) {
      e = Gather(A, a) f = Gather(C, c) x = Concat <axis = 1> (e, f, d)
      p = Gemm <transB = 1> (x, W0, k0) m = Mul(x, p) x1 = Add(m, x)
      q = Gemm <transB = 1> (x1, W1, k1) n = Mul(x, q) x2 = Add(n, x1)
      h0 = Gemm <transB = 1> (x, V0, v0) h1 = Relu(h0)
      g0 = Gemm <transB = 1> (h1, V1, v1) s = Relu(g0)
      j = Concat <axis = 1> (x2, s) l = Gemm <transB = 1> (j, H) y = Sigmoid(l)
    }"""
    return parse(
        text,
        A=table(20, 5),
        C=table(30, 4),
        W0=table(12, 12) / 4,
        W1=table(12, 12, seed=1) / 4,
        k0=table(1, 12)[0],
        k1=table(1, 12, seed=1)[0],
        V0=table(8, 12) / 4,
        v0=table(1, 8)[0],
        V1=table(4, 8) / 4,
        v1=table(1, 4)[0],
        H=table(1, 16) / 4,
    )


def regional(model: onnx.ModelProto, streams: int = 4) -> onnx.ModelProto:
    bench = Workbench(model, provider="cuda", streams=streams)
    for kind in (Canonicalize, FuseLookups, FuseGemm, FuseElementwise, AssignStreams, Cleanup):
        kind()(bench)
    result = bench.to_model()
    onnx.checker.check_model(result, full_check=True)
    return result


def feed(rows: int, seed: int = 0) -> dict[str, np.ndarray]:
    draw = np.random.default_rng(seed)
    return {
        "a": draw.integers(0, 20, rows),
        "c": draw.integers(0, 30, rows),
        "d": draw.normal(size=(rows, 3)).astype(np.float32),
    }


def towers(count: int, layers: int, slow: tuple[int, int] | None = None, width: int = WIDTH) -> onnx.ModelProto:
    """Towers of small layers on one input and the sum of their ends, each with a slope of its own: equal ones would be
    one product a layer. The layer `slow` (tower, layer) goes by way of a very wide one."""
    nodes, weights = "", {}
    for tower in range(count):
        value = "x"
        for layer in range(layers):
            name = f"t{tower}_{layer}"
            scale = width**0.5
            if (tower, layer) == slow:
                weights[f"U_{name}"] = table(width, DELAY, seed=tower) / scale
                weights[f"W_{name}"] = table(DELAY, width, seed=layer) / DELAY**0.5
                nodes += f"w_{name} = MatMul({value}, U_{name}) p_{name} = MatMul(w_{name}, W_{name}) "
            else:
                weights[f"W_{name}"] = table(width, width, seed=tower * 10 + layer) / scale
                nodes += f"p_{name} = MatMul({value}, W_{name}) "
            nodes += f"{name} = LeakyRelu <alpha = {(tower + 1) / 16}> (p_{name}) "
            value = name
    ends = [f"t{tower}_{layers - 1}" for tower in range(count)]
    nodes += f"y = Concat <axis = 1> ({', '.join(ends)})"
    return parse(f"(float[b,{width}] x) => (float[b,{width * count}] y) {{ {nodes} }}", **weights)


def many_lookups(count: int) -> onnx.ModelProto:
    """As many tables of 9 rows, each with an input of its own, then a product."""
    names = range(count)
    lookups = " ".join(f"e{i} = Gather(T{i}, i{i})" for i in names)
    text = f"""({", ".join(f"int64[b] i{i}" for i in names)}) => (float[b,8] y) {{
      {lookups} x = Concat <axis = 1> ({", ".join(f"e{i}" for i in names)})
      p = MatMul(x, W) y = LeakyRelu <alpha = 0.125> (p)
    }}"""
    weight = table(4 * count, 8) / count**0.5
    return parse(text, W=weight, **{f"T{i}": table(9, 4, seed=i) for i in names})


def rows(count: int, seed: int = 0, width: int = WIDTH) -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(seed).normal(size=(count, width)).astype(np.float32)}
