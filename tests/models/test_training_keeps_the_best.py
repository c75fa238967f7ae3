"""Training learns what is there, keeps the best weights and not the last, and is the same for the same seed."""

from __future__ import annotations

import time

import numpy as np
import pytest
import torch

from dpiframe.models import auc as measure_auc
from dpiframe.models import create, log_loss, predict, train
from dpiframe.models import training as training_module
from dpiframe.models.data import Dataset, generate


@pytest.fixture(scope="module")
def parts() -> list[Dataset]:
    return generate(8000, scale=1e-6, dim=4, seed=1).split(0.7, 0.15, 0.15)


def small(data: Dataset, seed: int = 0) -> training_module.CTRModel:
    torch.manual_seed(seed)
    return create("deepfm", data.schema, hidden=(16,))


def test_it_learns_and_reports_what_it_reached(parts: list[Dataset]) -> None:
    data, validation, test = parts
    model = small(data)
    untrained = measure_auc(test.labels, predict(model, test))
    result = train(model, data, validation, epochs=4, batch_size=128, learning_rate=5e-3, patience=99, progress=False)
    assert not model.training
    assert measure_auc(test.labels, predict(model, test)) > untrained + 0.08
    assert result.auc == measure_auc(validation.labels, predict(model, validation))
    assert result.log_loss == log_loss(validation.labels, predict(model, validation))
    assert (result.stopped, result.steps, result.epochs) == ("epochs", 4 * 44, 4.0)


def test_same_seed_same_weights(parts: list[Dataset]) -> None:
    data, validation, _ = parts
    states = []
    for seed in (5, 5, 6):
        model = small(data)
        train(model, data, validation, epochs=1, batch_size=512, seed=seed, progress=False)
        states.append(predict(model, validation))
    np.testing.assert_array_equal(states[0], states[1])
    assert not np.array_equal(states[0], states[2])


def test_the_best_weights_are_restored_and_training_stops(
    parts: list[Dataset], monkeypatch: pytest.MonkeyPatch
) -> None:
    data, validation, _ = parts
    model = small(data)
    aucs = iter([0.6, 0.7, 0.65, 0.64, 0.99])
    seen: list[np.ndarray] = []

    def scripted(network: training_module.CTRModel, rows: Dataset) -> tuple[float, float]:
        seen.append(predict(network, rows))
        return next(aucs), 0.5

    monkeypatch.setattr(training_module, "score", scripted)
    result = train(
        model, data, validation, epochs=9, batch_size=512, evaluations_per_epoch=1, patience=2, progress=False
    )
    assert (result.auc, result.stopped, result.epochs) == (0.7, "no better", 4.0)
    np.testing.assert_array_equal(predict(model, validation), seen[1])


def test_the_time_budget_holds_and_what_was_reached_counts(parts: list[Dataset]) -> None:
    data, validation, _ = parts
    begin = time.monotonic()
    result = train(small(data), data, validation, epochs=100_000, seconds=0.5, patience=10**9, progress=False)
    assert result.stopped == "time"
    assert result.auc > 0
    assert time.monotonic() - begin < 20


def test_two_tasks_train_together() -> None:
    data, validation = generate(3000, scale=1e-6, dim=4, tasks=2, seed=2).split(0.8, 0.2)
    model = create("mmoe", data.schema, tasks=2, experts=2, expert_hidden=(8,), tower_hidden=(4,))
    result = train(model, data, validation, epochs=1, batch_size=256, progress=False)
    each = [measure_auc(validation.labels[:, task], predict(model, validation)[:, task]) for task in (0, 1)]
    assert result.auc == pytest.approx(sum(each) / 2)


def test_labels_that_do_not_fit_the_tasks_are_an_error(parts: list[Dataset]) -> None:
    model = create("mmoe", parts[0].schema, tasks=2)
    with pytest.raises(ValueError, match=r"2 task\(s\), but the data has 1 label"):
        train(model, parts[0], parts[1], progress=False)


def test_validation_rows_of_one_class_are_an_error(parts: list[Dataset]) -> None:
    data, validation, _ = parts
    clicks = validation.take(np.flatnonzero(validation.labels[:, 0] == 1))
    with pytest.raises(ValueError, match="AUC is undefined"):
        train(small(data), data, clicks, progress=False)


def test_a_loss_that_is_not_finite_stops_the_training(parts: list[Dataset]) -> None:
    data, validation, _ = parts
    broken = Dataset(data.schema, data.ids, np.full_like(data.dense, np.nan), data.labels)
    with pytest.raises(RuntimeError, match="no longer finite"):
        train(small(data), broken, validation, progress=False)


@pytest.mark.parametrize("argument", ["batch_size", "epochs", "evaluations_per_epoch"])
def test_counts_below_one_are_an_error(parts: list[Dataset], argument: str) -> None:
    with pytest.raises(ValueError, match="must be at least 1"):
        train(small(parts[0]), parts[0], parts[1], progress=False, **{argument: 0})


@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
def test_no_time_is_an_error(parts: list[Dataset], seconds: float) -> None:
    with pytest.raises(ValueError, match="seconds must be more than 0"):
        train(small(parts[0]), parts[0], parts[1], progress=False, seconds=seconds)
