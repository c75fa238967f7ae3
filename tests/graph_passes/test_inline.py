"""Hazard: a lookup hides in a model-local function, or inlining changes what the function means."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from dpiframe.graph_passes.inline import inline_lookup_functions, inline_our_functions
from tests.graph_passes.harness import OP, agree, fuse_all, ids, op_types, optimize, parse, session, table


def model_with(functions: str, nodes: str, imports: str = ', "local": 1', **options: object) -> onnx.ModelProto:
    text = f"(int64[b] a, bool flag) => (float[b,4] y) {{ {nodes} }}"
    return parse(text, imports=imports, functions=functions, A=table(10, 4), **options)  # type: ignore[arg-type]


def same_answers(model: onnx.ModelProto, other: onnx.ModelProto) -> None:
    case = {"a": ids(5, high=10), "flag": np.array(True)}
    used = {v.name for v in model.graph.input}
    case = {name: value for name, value in case.items() if name in used}
    np.testing.assert_array_equal(session(model).run(None, case)[0], session(other).run(None, case)[0])


EMBED = '<domain: "local", opset_import: ["": 20]> embed (t, i) => (o) { k = Identity(i) o = Gather(t, k) }'


def test_a_function_with_a_gather_is_inlined_and_gone() -> None:
    model = model_with(EMBED, "y = local.embed(A, a)")
    inlined = inline_lookup_functions(model)
    assert op_types(inlined) == ["Identity", "Gather"]
    assert not inlined.functions
    assert inlined.graph.initializer[0] == model.graph.initializer[0]
    onnx.checker.check_model(inlined, full_check=True)
    same_answers(model, inlined)


def test_a_model_without_such_functions_is_returned_as_it_is() -> None:
    act = '<domain: "local", opset_import: ["": 20]> act (x) => (o) { o = Relu(x) }'
    model = model_with(act, "e = Gather(A, a) y = local.act(e)")
    assert inline_lookup_functions(model) is model
    result = fuse_all(model)
    assert op_types(result.model) == [OP, "act"]
    assert [f.name for f in result.model.functions] == ["act", OP]
    agree(model, result, {"a": ids(5, high=10), "flag": np.array(True)})


def test_callers_are_inlined_too_and_others_stay() -> None:
    functions = f"""{EMBED}
    <domain: "local", opset_import: ["": 20, "local": 1]> outer (t, i) => (o) {{ e = local.embed(t, i) o = local.act(e) }}
    <domain: "local", opset_import: ["": 20]> act (x) => (o) {{ o = Relu(x) }}"""
    model = model_with(functions, "y = local.outer(A, a)")
    inlined = inline_lookup_functions(model)
    assert op_types(inlined) == ["Identity", "Gather", "act"]
    assert [f.name for f in inlined.functions] == ["act"]
    same_answers(model, inlined)


def test_a_gather_inside_a_functions_branch_with_an_attribute_of_the_call() -> None:
    functions = """<domain: "local", opset_import: ["": 20]> embed <axis> (t, i, f) => (o) {
        o = If (f) <
            then_branch = th () => (z) { z = Gather<axis: int = @axis>(t, i) },
            else_branch = el () => (z) { e = Gather<axis: int = @axis>(t, i) z = Neg(e) }
        >
    }"""
    model = model_with(functions, "y = local.embed<axis=0>(A, a, flag)")
    result = fuse_all(model)
    assert op_types(result.model) == ["If"]
    assert [op_types(a.g) for a in result.model.graph.node[0].attribute] == [[OP], [OP, "Neg"]]
    for flag in (True, False):
        agree(model, result, {"a": ids(5, high=10), "flag": np.array(flag)})


def test_overloads_are_told_apart() -> None:
    functions = """
    <domain: "local", overload: "one", opset_import: ["": 20]> embed (t, i) => (o) { o = Gather(t, i) }
    <domain: "local", overload: "two", opset_import: ["": 20]> embed (t, i) => (o) { e = Gather(t, i) o = Neg(e) }
    """
    model = model_with(functions, "p = local.embed:one(A, a) q = local.embed:two(A, a) y = Sub(p, q)")
    inlined = inline_lookup_functions(model)
    assert op_types(inlined) == ["Gather", "Gather", "Neg", "Sub"]
    assert not inlined.functions


def test_names_of_the_function_and_of_the_graph_do_not_meet() -> None:
    model = model_with(
        EMBED, "o = Cast<to=7>(a) k = Identity(o) e = local.embed(A, k) f = local.embed(A, o) y = Add(e, f)"
    )
    inlined = inline_lookup_functions(model)
    names = [name for node in inlined.graph.node for name in node.output]
    assert len(names) == len(set(names))
    same_answers(model, inlined)


def test_what_stands_around_the_call_stays() -> None:
    model = model_with(EMBED, "e = local.embed(A, a) y = Neg(e)")
    model.graph.node[1].doc_string = "negated"
    for owner in (model, model.graph, model.graph.node[1]):
        entry = owner.metadata_props.add()
        entry.key, entry.value = "kept", "yes"
    inlined = inline_lookup_functions(model)
    assert inlined.graph.node[-1] == model.graph.node[1]
    assert list(inlined.metadata_props) == list(model.metadata_props)
    assert list(inlined.graph.metadata_props) == list(model.graph.metadata_props)
    assert list(inlined.graph.input) == list(model.graph.input)


@pytest.mark.parametrize("own", [13, 18, 21])
def test_another_operator_set_in_which_all_means_the_same(own: int) -> None:
    functions = f'<domain: "local", opset_import: ["": {own}]> embed (t, i) => (o) {{ o = Gather(t, i) }}'
    model = model_with(functions, "y = local.embed(A, a)")
    result = fuse_all(model)
    assert op_types(result.model) == [OP]
    agree(model, result, {"a": ids(5, high=10), "flag": np.array(True)})


def test_another_operator_set_in_which_something_means_something_else() -> None:
    # Softmax flattened its input before opset 13
    functions = """<domain: "local", opset_import: ["": 12]> embed (t, i) => (o) { e = Gather(t, i) o = Softmax(e) }
    <domain: "local", opset_import: ["": 20]> plain (t, i) => (o) { o = Gather(t, i) }"""
    model = model_with(functions, "e = local.embed(A, a) f = local.plain(A, a) y = Add(e, f)")
    inlined = inline_lookup_functions(model)
    assert op_types(inlined) == ["embed", "Gather", "Add"]
    assert [f.name for f in inlined.functions] == ["embed"]
    assert inlined.functions[0] == model.functions[0]


def test_operator_sets_that_only_the_function_names_come_along() -> None:
    functions = """<domain: "local", opset_import: ["": 20, "ai.onnx.ml": 3]> embed (t, i) => (o) {
        e = Gather(t, i)
        o = ai.onnx.ml.Scaler<offset=[0.0], scale=[2.0]>(e)
    }"""
    model = model_with(functions, "y = local.embed(A, a)")
    result = fuse_all(model)
    assert op_types(result.model) == [OP, "Scaler"]
    assert {o.domain: o.version for o in result.model.opset_import}["ai.onnx.ml"] == 3
    agree(model, result, {"a": ids(5, high=10), "flag": np.array(True)})


def test_ours_stay_functions() -> None:
    model = parse("(int64[b] a) => (float[b,4] y) { y = Gather(A, a) }", A=table(10, 4))
    once = optimize(model).model
    assert inline_lookup_functions(once) is once


def test_the_model_that_came_in_is_not_changed() -> None:
    functions = '<domain: "local", opset_import: ["": 18]> embed (t, i) => (o) { o = Gather(t, i) }'
    model = model_with(functions, "y = local.embed(A, a)")
    before = model.SerializeToString(deterministic=True)
    inline_lookup_functions(model)
    assert model.SerializeToString(deterministic=True) == before


def test_an_op_of_ours_can_stay_where_another_calls_it() -> None:
    model = model_with("", "e = Gather(A, a) r = Relu(e) y = Neg(r)", imports="")
    region = optimize(model, provider="cuda", bad_ids="clamp").model
    assert op_types(region) == ["ParallelRegion"]
    assert op_types(inline_our_functions(region, leaving=OP)) == [OP, "Relu", "Neg"]
    assert OP not in op_types(inline_our_functions(region))
