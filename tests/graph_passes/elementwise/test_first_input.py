"""Hazard: ONNX Runtime gives a node of float16 float32 values, as the nodes around it have no float16 kernel on a CPU."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from dpiframe.graph_passes.pipeline import PipelineResult
from tests.graph_passes.elementwise.programs import program_texts
from tests.graph_passes.harness import agree, op_types, optimize, parse, table

BETWEEN = "p = Gemm(x, w) a = Softsign(p) b = Mul(a, p) c = Sub(b, p) y = Gemm(c, w)"


def model_of(body: str, dtype: type = np.float16, outputs: str = "{t}[b,8] y") -> onnx.ModelProto:
    t = np.dtype(dtype).name.replace("float32", "float")
    return parse(f"({t}[b,8] x) => ({outputs.format(t=t)}) {{ {body} }}", w=table(8, 8, dtype) / dtype(4))


def checked(model: onnx.ModelProto, provider: str) -> PipelineResult:
    result = optimize(model, provider=provider)
    cases = [{"x": table(batch, 8, np.float16)} for batch in (0, 1, 5)]
    agree(model, result, *cases, tolerance=2e-3)
    return result


@pytest.mark.parametrize("provider", ["cpu", "cuda"])
def test_between_products_of_float16(provider: str) -> None:
    result = checked(model_of(BETWEEN), provider)
    assert op_types(result.model) == ["Gemm", "FusedElementwise", "Gemm"]
    (text,) = program_texts(result.model)
    assert text.splitlines()[2:4] == ["input f32 -", "input f16 x 8"]


@pytest.mark.parametrize("provider", ["cpu", "cuda"])
def test_several_nodes_and_outputs(provider: str) -> None:
    body = f"{BETWEEN} d = Softsign(y) e = Mul(d, y) f = Add(e, c) g = Gemm(f, w) h = Softsign(g) z = Mul(h, f)"
    result = checked(model_of(body, outputs="{t}[b,8] y, {t}[b,8] z"), provider)
    texts = program_texts(result.model)
    assert len(texts) > 1
    assert all(text.splitlines()[2] == "input f32 -" for text in texts)
    names = [tensor.name for tensor in result.model.graph.initializer]
    assert len(set(names)) == len(names)


def test_what_begins_with_another_type_is_as_it_was() -> None:
    model = parse(
        """(float16[b,8] x, bool[b,8] m) => (float16[b,8] y) {
            p = Gemm(x, w) a = Where(m, p, x) b = Softsign(a) c = Mul(b, a) y = Gemm(c, w)
        }""",
        w=table(8, 8, np.float16) / np.float16(4),
    )
    result = optimize(model, provider="cuda")
    cases = [{"x": table(batch, 8, np.float16), "m": table(batch, 8, seed=1) > 0} for batch in (0, 1, 5)]
    agree(model, result, *cases, tolerance=2e-3)
    (text,) = program_texts(result.model)
    assert text.splitlines()[2:5] == ["input bool x 8", "input f16 x 8", "input f16 x 8"]


def test_float32_needs_none() -> None:
    result = optimize(model_of(BETWEEN, np.float32), provider="cpu")
    assert [text.splitlines()[2] for text in program_texts(result.model)] == ["input f32 x 8"]
