"""What a verification found."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from dpiframe.compare import Difference
from dpiframe.inputs import Case
from dpiframe.latency import Latency

Form = Literal["fused", "body"]
FORMS: dict[Form, str] = {"fused": "with the library", "body": "without the library"}


@dataclass(frozen=True)
class CaseResult:
    """One case. skipped: why the original gave no answer to compare with, or None where the answers agree."""

    name: str
    skipped: str | None = None
    largest_difference: float = 0.0


@dataclass(frozen=True)
class Mismatch:
    """The first case whose answers differ. form: whether the library's kernels ran, or the bodies. what: the
    difference, or why there is nothing to compare."""

    case: Case
    form: Form
    what: Difference | str

    @property
    def rounding(self) -> bool:
        """By so little that it may be rounding."""
        return isinstance(self.what, Difference) and self.what.rounding

    @property
    def nan(self) -> bool:
        """By a NaN where the original has none."""
        return isinstance(self.what, Difference) and self.what.nan

    def __str__(self) -> str:
        return f"case '{self.case.name}', {FORMS[self.form]}: {self.what}"


@dataclass
class VerifyResult:
    """What was run and how it compared.

    provider: where the models ran, "cpu" or "cuda". cases: the comparable ones and those skipped. latencies: paired, by
    batch size. notes: what a reader should know about how this was done. mismatch is None when all is well.
    """

    provider: Literal["cpu", "cuda"]
    cases: list[CaseResult] = field(default_factory=list)
    latencies: list[Latency] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    mismatch: Mismatch | None = None

    @property
    def compared(self) -> list[CaseResult]:
        return [case for case in self.cases if case.skipped is None]

    @property
    def skipped(self) -> list[CaseResult]:
        return [case for case in self.cases if case.skipped is not None]

    @property
    def largest_difference(self) -> float:
        return max((case.largest_difference for case in self.compared), default=0.0)

    def to_json(self) -> dict[str, Any]:
        """The result as plain JSON values."""
        return {
            "provider": self.provider,
            "cases": len(self.compared),
            "skipped": {case.name: case.skipped for case in self.skipped},
            "largest_difference": self.largest_difference,
            "mismatch": None if self.mismatch is None else str(self.mismatch),
            "latency": [asdict(latency) for latency in self.latencies],
            "notes": self.notes,
        }
