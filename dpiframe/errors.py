"""What can go wrong, each with one line that names the file, node or argument and says what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpiframe.verify_result import VerifyResult


class DPIFrameError(Exception):
    """Any failure that this package reports.

    exit_code: what the command line exits with: 1 for a bad model or result, 2 for bad usage.
    """

    exit_code = 1


class UsageError(DPIFrameError):
    """An argument that can't be used as it is."""

    exit_code = 2


class MissingDependencyError(DPIFrameError, ImportError):
    """An optional package that this call needs is not installed."""


class VerificationError(DPIFrameError):
    """The optimized model could not be shown to give the original's answers.

    result: what was compared till then.
    """

    def __init__(self, message: str, result: VerifyResult) -> None:
        super().__init__(message)
        self.result = result


class BadIdsError(DPIFrameError):
    """Ids outside their tables were looked up."""
