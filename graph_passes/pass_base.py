"""The shape of a pass: a small class with a name, checked conditions before and after, and a report of what it did."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

from dpiframe.graph_passes.report import PassReport
from dpiframe.graph_passes.workbench import Workbench

Condition = Callable[[Workbench], str | None]


class ConditionError(AssertionError):
    """A pass found the model in a state that it doesn't accept, or left it in one that it promised not to."""


class Pass(ABC):
    """One rewrite of a model's graph.

    `run` changes `bench.graph` in place and says what it changed; running it again changes nothing. A condition is a
    function of the workbench that returns None, or what is wrong.
    """

    name: ClassVar[str]
    requires: ClassVar[tuple[Condition, ...]] = ()
    ensures: ClassVar[tuple[Condition, ...]] = ()

    @abstractmethod
    def run(self, bench: Workbench) -> PassReport: ...

    def __call__(self, bench: Workbench) -> PassReport:
        self._check(bench, self.requires, "before")
        report = self.run(bench)
        self._check(bench, self.ensures, "after")
        return report

    def _check(self, bench: Workbench, conditions: tuple[Condition, ...], when: str) -> None:
        for condition in conditions:
            if problem := condition(bench):
                raise ConditionError(f"{when} pass {self.name}: {problem}")
