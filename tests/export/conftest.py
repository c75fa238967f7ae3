"""Makes the many exports of this folder affordable."""

from __future__ import annotations

import functools

import pytest
import torch

# More threads than one only get in each other's way on models this small.
torch.set_num_threads(1)


@pytest.fixture(scope="session", autouse=True)
def one_operator_registry() -> None:
    """The dynamo exporter parses its whole operator library at each call, a third of a small export's time. Where this
    PyTorch has that step under the known name, it is done once.
    """
    try:
        from torch.onnx._internal.exporter._registration import ONNXRegistry

        build = ONNXRegistry.from_torchlib
    except (ImportError, AttributeError):
        return
    ONNXRegistry.from_torchlib = staticmethod(functools.cache(build))
