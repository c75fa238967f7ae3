"""What a pass says about itself: what it changed and, where something looked like a match and was left alone, why."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Refusal:
    """Something that looked like a match and was left alone. `node` is the node's name, or its first output's."""

    node: str
    reason: str


@dataclass
class PassReport:
    """One pass's account. `changes` is one line a rewrite, in the order in which they were made."""

    name: str
    changes: list[str] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)

    def refuse(self, node: str, reason: str) -> None:
        self.refusals.append(Refusal(node, reason))
