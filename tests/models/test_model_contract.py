"""What every registered model must do: shapes, gradients, both layouts, one answer a row whatever the batch."""

from __future__ import annotations

import pytest
import torch

from dpiframe.models import FeatureSchema, SparseField, create, names
from tests.models.schemas import ONE_DIM, SMALL, batch, schema, small_model


def test_every_model_is_covered() -> None:
    assert names() == sorted(SMALL)


@pytest.mark.parametrize("name", names())
@pytest.mark.parametrize("rows", [1, 7, 64])
def test_one_probability_a_row_and_task(name: str, rows: int) -> None:
    model = small_model(name).eval()
    answers = model(*batch(model.schema, rows))
    assert answers.shape == (rows, model.tasks)
    assert answers.dtype == torch.float32
    assert ((answers > 0) & (answers < 1)).all()


@pytest.mark.parametrize("name", names())
def test_an_empty_batch_gives_no_rows(name: str) -> None:
    model = small_model(name).eval()
    assert model(*batch(model.schema, 0)).shape == (0, model.tasks)


@pytest.mark.parametrize("name", names())
def test_gradients_reach_every_parameter(name: str) -> None:
    model = small_model(name).train()
    model.logits(*batch(model.schema, 64)).square().sum().backward()
    for parameter_name, parameter in model.named_parameters():
        assert parameter.grad is not None, parameter_name
        assert torch.isfinite(parameter.grad).all(), parameter_name
        assert parameter.grad.abs().max() > 0, parameter_name


@pytest.mark.parametrize("name", names())
def test_a_row_does_not_depend_on_its_batch(name: str) -> None:
    model = small_model(name).eval()
    inputs = batch(model.schema, 9)
    together = model(*inputs)
    alone = torch.cat([model(*(value[row : row + 1] for value in inputs)) for row in range(9)])
    torch.testing.assert_close(together, alone, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", names())
def test_both_layouts_give_the_same_answers_from_the_same_weights(name: str) -> None:
    matrix = small_model(name).eval()
    apart = small_model(name, matrix.schema.with_layout("fields"), seed=1).eval()
    apart.load_state_dict(matrix.state_dict())
    torch.testing.assert_close(matrix(*batch(matrix.schema, 6)), apart(*batch(apart.schema, 6)))


@pytest.mark.parametrize("name", [name for name in names() if name != "din"])
def test_a_schema_without_dense_fields(name: str) -> None:
    fields = FeatureSchema(sparse=(SparseField("user", 5, 4), SparseField("item", 6, 4)))
    model = small_model(name, fields).eval()
    assert model(*batch(fields, 3)).shape == (3, model.tasks)


@pytest.mark.parametrize("name", ONE_DIM)
def test_mixed_dims_are_refused_where_embeddings_are_multiplied(name: str) -> None:
    with pytest.raises(ValueError, match="must have one dim; the schema has 3, 4, 5, 6"):
        create(name, schema(mixed=True))


@pytest.mark.parametrize("name", ["dcnv2", "dcnv2_mix"])
def test_stacked_and_parallel_structures_differ(name: str) -> None:
    parallel = create(name, schema(), structure="parallel", **SMALL[name])
    stacked = create(name, schema(), structure="stacked", **SMALL[name]).eval()
    assert stacked.head.in_features == SMALL[name]["hidden"][-1]
    assert parallel.head.in_features > stacked.head.in_features
    assert stacked(*batch(schema(), 4)).shape == (4, 1)


@pytest.mark.parametrize(
    ("name", "hyper", "message"),
    [
        (
            "deepfn",
            {},
            "unknown model 'deepfn'; choose one of dcn, dcnv2, dcnv2_mix, deepfm, din, dlrm, mmoe, wide_deep",
        ),
        ("dcn", {"cross_layer": 3}, "DCN has no hyperparameter 'cross_layer'; it has cross_layers, hidden, dropout"),
        ("dcnv2", {"structure": "serial"}, "structure is 'serial'"),
        ("wide_deep", {"crosses": (("user", "tags"),)}, "'tags', which is no sparse field"),
    ],
)
def test_bad_arguments_are_named(name: str, hyper: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        create(name, schema(), **hyper)


def test_din_says_what_its_schema_lacks() -> None:
    with pytest.raises(ValueError, match="no sequence field"):
        create("din", FeatureSchema(sparse=(SparseField("user", 5, 4),)))


def test_names_may_be_written_in_any_case() -> None:
    assert type(create("DeepFM", schema(mixed=False))).__name__ == "DeepFM"


def test_a_schema_without_lookups_is_refused() -> None:
    with pytest.raises(ValueError, match="no field to look up"):
        create("dcn", FeatureSchema(dense=("price",)))
