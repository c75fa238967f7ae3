"""From a PyTorch module to an ONNX file that is checked, compared with the module and ready for `dpiframe.optimize`.

Each name is imported when it is first used, so that `import dpiframe.export` needs no PyTorch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .errors import ExportError
    from .model import ExportResult, export_model

_HOMES = {"ExportError": "errors", "ExportResult": "model", "export_model": "model"}

__all__ = ["ExportError", "ExportResult", "export_model"]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{home}", __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
