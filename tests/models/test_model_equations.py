"""Each model's own layer against its paper's formula, written out as loops in NumPy float64."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import torch
from torch import nn

from dpiframe.models.dcn import VectorCross
from dpiframe.models.dcnv2 import MatrixCross, MixtureCross
from dpiframe.models.deepfm import DeepFM, pairwise_products
from dpiframe.models.din import Attention, Dice
from dpiframe.models.dlrm import DLRM
from dpiframe.models.embedding import split_inputs
from dpiframe.models.mmoe import MMoE
from dpiframe.models.wide_deep import CrossProducts
from tests.models.schemas import batch, schema, small_model

ROWS, WIDTH = 5, 6


def numbers(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().numpy().astype(np.float64)


def close(actual: torch.Tensor, expected: np.ndarray) -> None:
    np.testing.assert_allclose(numbers(actual), expected, rtol=1e-5, atol=1e-5)


def softmax(values: np.ndarray) -> np.ndarray:
    raised = np.exp(values - values.max())
    return raised / raised.sum()


def sigmoid(values: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-values))


@pytest.fixture
def pair() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(1)
    return torch.randn(ROWS, WIDTH), torch.randn(ROWS, WIDTH)


def test_dcn_cross_layer_is_the_outer_product_times_w(pair: tuple[torch.Tensor, torch.Tensor]) -> None:
    layer = VectorCross(WIDTH)
    nn.init.normal_(layer.bias)
    w, b = numbers(layer.weight.weight)[0], numbers(layer.bias)
    expected = [np.outer(x0, x) @ w + b + x for x0, x in zip(*map(numbers, pair), strict=True)]
    close(layer(*pair), np.array(expected))


def test_dcnv2_cross_layer(pair: tuple[torch.Tensor, torch.Tensor]) -> None:
    layer = MatrixCross(WIDTH)
    w, b = numbers(layer.weight.weight), numbers(layer.weight.bias)
    expected = [x0 * (w @ x + b) + x for x0, x in zip(*map(numbers, pair), strict=True)]
    close(layer(*pair), np.array(expected))


def test_dcnv2_mixture_of_low_rank_experts(pair: tuple[torch.Tensor, torch.Tensor]) -> None:
    layer = MixtureCross(WIDTH, experts=3, rank=2)
    nn.init.normal_(layer.bias)
    expected = []
    for x0, x in zip(*map(numbers, pair), strict=True):
        gates = softmax(numbers(layer.gate.weight) @ x)
        experts = [
            x0 * (numbers(u.weight) @ np.tanh(numbers(c.weight) @ np.tanh(numbers(v.weight) @ x)) + numbers(layer.bias))
            for v, c, u in zip(layer.v, layer.c, layer.u, strict=True)
        ]
        expected.append(sum(gate * expert for gate, expert in zip(gates, experts, strict=True)) + x)
    close(layer(*pair), np.array(expected))


def test_factorization_machine_sums_all_pairs() -> None:
    factors = torch.randn(ROWS, 4, 3, generator=torch.Generator().manual_seed(2))
    expected = [[sum(a @ b for a, b in combinations(row, 2))] for row in numbers(factors)]
    close(pairwise_products(factors), np.array(expected))


def test_deepfm_second_order_part_includes_dense_fields() -> None:
    model = small_model("deepfm").eval()
    assert isinstance(model, DeepFM)
    assert model.dense_vectors is not None
    inputs = batch(model.schema, ROWS)
    ids, dense = split_inputs(model.schema, tuple(inputs))
    rows = [numbers(value) for value in model.embedding(ids).values()]
    vectors = numbers(model.dense_vectors)
    factors = np.stack([*rows, *(numbers(dense)[:, [i]] * vectors[i] for i in range(len(vectors)))], axis=1)
    second = np.array([[sum(a @ b for a, b in combinations(row, 2))] for row in factors])
    deep = model.deep(torch.from_numpy(factors.reshape(ROWS, -1)).float())
    close(model.logits(*inputs), numbers(model.linear(ids, dense)) + second + numbers(deep))


def test_dlrm_takes_each_pair_of_vectors_once() -> None:
    model = small_model("dlrm").eval()
    assert isinstance(model, DLRM)
    assert model.bottom is not None
    inputs = batch(model.schema, ROWS)
    ids, dense = split_inputs(model.schema, tuple(inputs))
    bottom = numbers(model.bottom(dense))
    vectors = np.stack([bottom, *(numbers(value) for value in model.embedding(ids).values())], axis=1)
    products = np.array([[a @ b for a, b in combinations(row, 2)] for row in vectors])
    top = model.top(torch.from_numpy(np.concatenate([bottom, products], axis=1)).float())
    close(model.logits(*inputs), numbers(top))


def test_din_attention_sums_valid_behaviours_without_a_softmax() -> None:
    torch.manual_seed(3)
    layer = Attention(4, (5,)).eval()
    candidate, behaviours = torch.randn(ROWS, 4), torch.randn(ROWS, 3, 4)
    valid = torch.tensor([[True, True, True], [True, False, False], [False] * 3, [False, True, True], [True] * 3])
    expected = np.zeros((ROWS, 4))
    for row in range(ROWS):
        for place in range(3):
            if valid[row, place]:
                q, k = candidate[row], behaviours[row, place]
                weight = layer.unit(torch.cat([q, k, q - k, q * k])[None])
                expected[row] += weight.item() * numbers(k)
    close(layer(candidate, behaviours, valid), expected)


def test_dice_mixes_by_the_standardized_value() -> None:
    torch.manual_seed(4)
    layer = Dice(3).train()
    nn.init.normal_(layer.alpha)
    s = torch.randn(50, 3) * 2 + 1
    values, alpha = numbers(s), numbers(layer.alpha)
    p = sigmoid((values - values.mean(0)) / np.sqrt(values.var(0) + 1e-8))
    close(layer(s), p * values + (1 - p) * alpha * values)


def test_mmoe_gates_experts_for_each_task() -> None:
    model = small_model("mmoe").eval()
    assert isinstance(model, MMoE)
    inputs = batch(model.schema, ROWS)
    ids, dense = split_inputs(model.schema, tuple(inputs))
    x = torch.cat([*model.embedding(ids).values(), dense], dim=1)
    expected = np.zeros((ROWS, model.tasks))
    for row in range(ROWS):
        experts = [numbers(expert(x[row])) for expert in model.experts]
        for task in range(model.tasks):
            weights = softmax(numbers(model.gates[task](x[row])))
            mixed = sum(weight * expert for weight, expert in zip(weights, experts, strict=True))
            expected[row, task] = model.towers[task](torch.from_numpy(mixed).float()).item()
    close(model.logits(*inputs), expected)


def test_cross_products_give_each_pair_of_values_its_bucket() -> None:
    layer = CrossProducts(schema(), [("user", "item"), ("item", "shop")], buckets=7)
    ids = {"user": torch.tensor([0, 10, 3]), "item": torch.tensor([12, 0, 5]), "shop": torch.tensor([4, 4, 0])}
    user_item, item_shop = (numbers(table.weight)[:, 0] for table in layer.tables)
    expected = [
        [user_item[(user * 13 + item) % 7] + item_shop[(item * 5 + shop) % 7]]
        for user, item, shop in zip(*(ids[name].tolist() for name in ("user", "item", "shop")), strict=True)
    ]
    close(layer(ids), np.array(expected))
