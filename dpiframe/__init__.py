"""DPIFrame: makes a click-through-rate model in ONNX several times faster in ONNX Runtime, with the same answers.

Everything here is imported when it is first used, so that `import dpiframe` costs next to nothing and needs neither
onnxruntime nor torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpiframe.errors import (
        BadIdsError,
        DPIFrameError,
        MissingDependencyError,
        UsageError,
        VerificationError,
    )
    from dpiframe.graph_passes.model_io import ModelError
    from dpiframe.optimizer import OptimizeResult, optimize
    from dpiframe.sessions import (
        InferenceSession,
        bad_ids,
        library_path,
        raise_on_bad_ids,
        reset_bad_ids,
        session_options,
    )
    from dpiframe.tuner import TuneResult, tune
    from dpiframe.verification import verify
    from dpiframe.verify_result import VerifyResult

    __version__: str

_HOMES = {
    "BadIdsError": "errors",
    "DPIFrameError": "errors",
    "InferenceSession": "sessions",
    "MissingDependencyError": "errors",
    "ModelError": "graph_passes.model_io",
    "OptimizeResult": "optimizer",
    "TuneResult": "tuner",
    "UsageError": "errors",
    "VerificationError": "errors",
    "VerifyResult": "verify_result",
    "bad_ids": "sessions",
    "library_path": "sessions",
    "optimize": "optimizer",
    "raise_on_bad_ids": "sessions",
    "reset_bad_ids": "sessions",
    "session_options": "sessions",
    "tune": "tuner",
    "verify": "verification",
}

__all__ = [
    "BadIdsError",
    "DPIFrameError",
    "InferenceSession",
    "MissingDependencyError",
    "ModelError",
    "OptimizeResult",
    "TuneResult",
    "UsageError",
    "VerificationError",
    "VerifyResult",
    "bad_ids",
    "library_path",
    "optimize",
    "raise_on_bad_ids",
    "reset_bad_ids",
    "session_options",
    "tune",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("dpiframe")
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'dpiframe' has no attribute {name!r}")
    return getattr(import_module(f"dpiframe.{home}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
