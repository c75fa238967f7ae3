"""A model that holds one of everything that ONNX files can hold, around two lookups and their join."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, helper, numpy_helper

from tests.graph_passes.harness import table


def everything() -> onnx.ModelProto:
    nodes = [
        helper.make_node("Gather", ["A", "a"], ["e"], name="lookup", doc_string="field a"),
        helper.make_node("Gather", ["C", "c"], ["f"], name="lookup"),
        helper.make_node("Concat", ["e", "f"], ["j"], name="", axis=1),
        helper.make_node("Act", ["j"], ["act"], domain="local", name="act", slope=0.5, label="x"),
        helper.make_node("Loose", ["act", "", "flag"], ["loose", ""], domain="vendor", name="loose"),
        helper.make_node("SequenceConstruct", ["j", "act"], ["both"], name="sequence"),
        helper.make_node("SequenceAt", ["both", "one"], ["second"]),
        helper.make_node("Optional", ["second"], ["maybe"]),
        helper.make_node("OptionalGetElement", ["maybe"], ["surely"]),
        helper.make_node("Identity", ["sparse"], ["dense"]),
        helper.make_node(
            "If",
            ["flag"],
            ["chosen"],
            name="branch",
            then_branch=_branch("then", "Relu"),
            else_branch=_branch("else", "Neg"),
        ),
        helper.make_node("Gather", ["chosen", "one"], ["first"], axis=1),
    ]
    _metadata(nodes[3], "node")
    nodes[3].overload = "wide"
    rare = nodes[4]
    rare.attribute.extend(
        [
            helper.make_attribute("bytes", b"\xff\xfe\x00"),
            AttributeProto(name="many_bytes", type=AttributeProto.STRINGS, strings=[b"plain", b"\xff"]),
            AttributeProto(name="no_ints", type=AttributeProto.INTS),
            AttributeProto(name="no_floats", type=AttributeProto.FLOATS),
            AttributeProto(name="no_strings", type=AttributeProto.STRINGS),
            AttributeProto(name="integral", type=AttributeProto.FLOAT, f=2.0),
            AttributeProto(name="text", type=AttributeProto.STRING, s="plain ü".encode()),
            helper.make_attribute("tensor", numpy_helper.from_array(np.arange(3), "in_attribute")),
            AttributeProto(
                name="tensors", type=AttributeProto.TENSORS, tensors=[numpy_helper.from_array(np.zeros(2), "t")]
            ),
            AttributeProto(name="graphs", type=AttributeProto.GRAPHS, graphs=[_branch("inner", "Abs")]),
            AttributeProto(
                name="type", type=AttributeProto.TYPE_PROTO, tp=helper.make_tensor_type_proto(TensorProto.FLOAT, ["b"])
            ),
            AttributeProto(
                name="types",
                type=AttributeProto.TYPE_PROTOS,
                type_protos=[helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.INT64, [1]))],
            ),
            AttributeProto(name="sparse", type=AttributeProto.SPARSE_TENSOR, sparse_tensor=_sparse("in_sparse")),
            AttributeProto(name="explained", type=AttributeProto.INT, i=3, doc_string="why three"),
        ]
    )
    tensor = helper.make_tensor_type_proto(TensorProto.FLOAT, ["batch", 12])
    graph = helper.make_graph(
        nodes,
        "everything",
        [
            helper.make_tensor_value_info("a", TensorProto.INT64, ["batch"], doc_string="ids of field a"),
            helper.make_tensor_value_info("c", TensorProto.INT64, ["batch"]),
            helper.make_tensor_value_info("flag", TensorProto.BOOL, []),
            helper.make_value_info("spare", helper.make_optional_type_proto(helper.make_sequence_type_proto(tensor))),
            helper.make_tensor_value_info("W", TensorProto.FLOAT, [3]),
        ],
        [
            helper.make_tensor_value_info("surely", TensorProto.FLOAT, ["batch", 12]),
            helper.make_value_info("both", helper.make_sequence_type_proto(tensor)),
            helper.make_value_info("maybe", helper.make_optional_type_proto(tensor)),
            helper.make_tensor_value_info("first", TensorProto.FLOAT, ["batch", 12]),
            helper.make_tensor_value_info("dense", TensorProto.FLOAT, [4]),
            helper.make_tensor_value_info("loose", TensorProto.FLOAT, ["batch", 12]),
            helper.make_tensor_value_info("C", TensorProto.FLOAT, [20, 8]),
            helper.make_tensor_value_info("c", TensorProto.INT64, ["batch"]),
            helper.make_tensor_value_info("W", TensorProto.FLOAT, [3]),
        ],
        [
            numpy_helper.from_array(table(10, 4), "A"),
            numpy_helper.from_array(table(20, 8), "C"),
            numpy_helper.from_array(np.array(1), "one"),
            numpy_helper.from_array(np.array([1, 2, 3], np.float32), "W"),
        ],
        doc_string="the graph",
        value_info=[
            helper.make_tensor_value_info("j", TensorProto.FLOAT, ["batch", 12], doc_string="the join"),
            helper.make_tensor_value_info("act", TensorProto.FLOAT, ["batch", 12]),
        ],
        sparse_initializer=[_sparse("sparse")],
    )
    graph.initializer[1].doc_string = "a table"
    for owner in (graph, graph.value_info[0], graph.input[0], graph.initializer[0]):
        _metadata(owner, "graph")
    graph.quantization_annotation.add(tensor_name="j").quant_parameter_tensor_names.add(key="SCALE", value="one")
    functions = []
    for overload in ("", "wide"):
        function = helper.make_function(
            "local",
            "Act",
            ["x"],
            ["y"],
            [helper.make_node("LeakyRelu", ["x"], ["y"], name="leaky", doc_string="in the function")],
            [helper.make_opsetid("", 20)],
            ["label"],
            [helper.make_attribute("slope", 0.1)],
            doc_string="an activation",
        )
        function.node[0].attribute.append(
            AttributeProto(name="alpha", type=AttributeProto.FLOAT, ref_attr_name="slope")
        )
        function.overload = overload
        function.value_info.append(helper.make_tensor_value_info("x", TensorProto.FLOAT, None))
        _metadata(function, "function")
        functions.append(function)
    model = helper.make_model(
        graph,
        functions=functions,
        producer_name="a test",
        producer_version="1.2",
        doc_string="the model",
        ir_version=10,
        opset_imports=[
            helper.make_opsetid("", 20),
            helper.make_opsetid("local", 3),
            helper.make_opsetid("vendor", 7),
            helper.make_opsetid("unused", 1),
        ],
    )
    model.domain, model.model_version = "org.example", 42
    _metadata(model, "model")
    model.training_info.add().initialization.name = "training"
    return model


def _metadata(owner: object, value: str) -> None:
    entry = owner.metadata_props.add()  # type: ignore[attr-defined]
    entry.key, entry.value = "kept", value


def _sparse(name: str) -> onnx.SparseTensorProto:
    return helper.make_sparse_tensor(
        numpy_helper.from_array(np.array([5], np.float32), name), numpy_helper.from_array(np.array([2])), [4]
    )


def _branch(name: str, op: str) -> onnx.GraphProto:
    """A branch that reads the join from around it and stores a tensor of its own; both branches hold a node of one
    name."""
    graph = helper.make_graph(
        [
            helper.make_node("Add", ["j", "own"], ["sum"], name="twin"),
            helper.make_node(op, ["sum"], ["out"], name=f"{name}_node", doc_string=name),
        ],
        name,
        [],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, ["batch", 12])],
        [numpy_helper.from_array(np.ones(12, np.float32), "own")],
        doc_string=f"the branch {name}",
        value_info=[helper.make_tensor_value_info("sum", TensorProto.FLOAT, ["batch", 12])],
    )
    _metadata(graph, name)
    return graph
