"""A small training loop: Adam on binary cross entropy, stopped early by the validation AUC."""

from __future__ import annotations

import copy
import time
from dataclasses import dataclass

import numpy as np
import torch
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from torch.nn import functional

from .base import CTRModel
from .data.dataset import Dataset
from .metrics import auc, log_loss


@dataclass(frozen=True)
class TrainResult:
    """What a training run did.

    Attributes:
        auc, log_loss: of the kept weights on the validation rows, the mean over the tasks.
        epochs: passes over the training rows, a fraction where the time ran out within one.
        steps: optimizer steps.
        seconds: wall-clock time, evaluation included.
        stopped: why it ended: "epochs", "time" or "no better".
    """

    auc: float
    log_loss: float
    epochs: float
    steps: int
    seconds: float
    stopped: str


def check_both_classes(data: Dataset, use: str) -> None:
    """Raises ValueError where a task has clicks only or non-clicks only, which no AUC can be taken on.

    Args:
        data: the rows.
        use: what they are for, as the message says it: "validation" or "test".
    """
    if any(labels.min() == labels.max() for labels in data.labels.T):
        raise ValueError(
            f"the {use} rows are all clicks or all non-clicks, so that AUC is undefined; give more rows, "
            "and shuffle them where they are sorted by label"
        )


def predict(model: CTRModel, data: Dataset, batch_size: int = 4096) -> np.ndarray:
    """Probabilities for all rows, float32 [N, T], in evaluation mode."""
    was_training = model.training
    model.eval()
    parts = []
    with torch.no_grad():
        for start in range(0, len(data), batch_size):
            inputs = _inputs(model, data, slice(start, start + batch_size))
            parts.append(model(*inputs).numpy())
    model.train(was_training)
    return np.concatenate(parts)


def score(model: CTRModel, data: Dataset) -> tuple[float, float]:
    """AUC and LogLoss of a model on some rows, the mean over the tasks."""
    probabilities = predict(model, data)
    columns = list(zip(data.labels.T, probabilities.T, strict=True))
    return (
        float(np.mean([auc(labels, values) for labels, values in columns])),
        float(np.mean([log_loss(labels, values) for labels, values in columns])),
    )


def train(
    model: CTRModel,
    data: Dataset,
    validation: Dataset,
    *,
    epochs: int = 10,
    batch_size: int = 2048,
    learning_rate: float = 1e-3,
    seconds: float | None = None,
    evaluations_per_epoch: int = 2,
    patience: int = 2,
    seed: int = 0,
    progress: bool = True,
) -> TrainResult:
    """Trains a model in place and leaves it with the weights of the best validation AUC, in evaluation mode.

    Args:
        model: any registered model.
        data: training rows; shuffled anew each epoch.
        validation: rows for early stopping, never trained on.
        epochs: the most passes over the training rows.
        batch_size: rows a step.
        learning_rate: Adam's.
        seconds: stop after so much wall-clock time, within an epoch if need be; the weights reached are evaluated too.
        evaluations_per_epoch: how often the validation AUC is taken.
        patience: stop when so many evaluations in a row bring nothing better.
        seed: of the order of rows and of dropout. Weights are drawn when the model is made, not here.
        progress: show a progress bar on the terminal.

    Raises:
        ValueError: labels that don't fit the model's tasks, validation labels of one class only, or a batch size
            or number of epochs or evaluations below 1, or no time.
        RuntimeError: the loss is no longer finite.
    """
    if data.tasks != model.tasks or validation.tasks != model.tasks:
        raise ValueError(f"the model has {model.tasks} task(s), but the data has {data.tasks} label(s) a row")
    if batch_size < 1 or epochs < 1 or evaluations_per_epoch < 1:
        raise ValueError("batch size, epochs and evaluations per epoch must be at least 1")
    if seconds is not None and not seconds > 0:
        raise ValueError("seconds must be more than 0")
    check_both_classes(validation, "validation")
    torch.manual_seed(seed)
    shuffle = np.random.default_rng(seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate)
    steps_per_epoch = -(-len(data) // batch_size)
    interval = max(1, steps_per_epoch // evaluations_per_epoch)
    begin = time.monotonic()
    best, best_weights, worse, steps, stopped = (-1.0, 0.0), None, 0, 0, "epochs"

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[status]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, disable=not progress) as bar:
        task = bar.add_task(f"training {model.name}", total=epochs * steps_per_epoch, status="")
        for epoch in range(epochs):
            model.train()
            order = shuffle.permutation(len(data))
            for place in range(steps_per_epoch):
                loss = _step(model, optimizer, data, order[place * batch_size : (place + 1) * batch_size])
                steps += 1
                bar.update(task, advance=1, status=f"epoch {epoch + 1}  loss {loss:.4f}  AUC {max(best[0], 0):.4f}")
                out_of_time = seconds is not None and time.monotonic() - begin > seconds
                if out_of_time or steps % interval == 0 or place == steps_per_epoch - 1:
                    reached = score(model, validation)
                    if reached[0] > best[0]:
                        best, best_weights, worse = reached, copy.deepcopy(model.state_dict()), 0
                    else:
                        worse += 1
                if out_of_time or worse >= patience:
                    stopped = "time" if out_of_time else "no better"
                    break
            if stopped != "epochs":
                break
    if best_weights is not None:
        model.load_state_dict(best_weights)
    model.eval()
    return TrainResult(*best, steps / steps_per_epoch, steps, time.monotonic() - begin, stopped)


def _step(model: CTRModel, optimizer: torch.optim.Optimizer, data: Dataset, rows: np.ndarray) -> float:
    optimizer.zero_grad(set_to_none=True)
    logits = model.logits(*_inputs(model, data, rows))
    loss = functional.binary_cross_entropy_with_logits(logits, torch.from_numpy(data.labels[rows]))
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    value = loss.item()
    if not np.isfinite(value):
        raise RuntimeError("the loss is no longer finite; lower the learning rate or check the numeric fields")
    return value


def _inputs(model: CTRModel, data: Dataset, rows: np.ndarray | slice) -> list[torch.Tensor]:
    ids, dense = torch.from_numpy(data.ids[rows]), torch.from_numpy(data.dense[rows])
    return model.schema.model_inputs(ids, dense)
