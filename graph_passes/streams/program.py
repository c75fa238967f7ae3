"""The program of a ParallelRegion: its nodes in launch order, each with its stream. docs/ops/parallel-region.md defines
it."""

from __future__ import annotations

from dataclasses import dataclass, field

FORMAT_VERSION = 1
INDENT = "  "


@dataclass(frozen=True)
class RegionNode:
    """One fused node: its op (without the number of its body), its stream, the values that it reads and makes, its
    name and its own program."""

    op: str
    stream: int
    operands: tuple[int, ...]
    results: tuple[int, ...]
    name: str
    program: str

    def __str__(self) -> str:
        head = " ".join(
            ["node", self.op, str(self.stream), ":", *map(str, self.operands), ":", *map(str, self.results)]
        )
        lines = [head, f"name {self.name}", *(INDENT + line for line in self.program.splitlines())]
        return "\n".join(lines)


@dataclass
class RegionProgram:
    """inputs: values 0 ... inputs - 1 are the node's inputs. The nodes make the others; `outputs` are values."""

    inputs: int
    streams: int
    nodes: list[RegionNode] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [f"region {FORMAT_VERSION}", f"inputs {self.inputs}", f"streams {self.streams}", *map(str, self.nodes)]
        lines += [f"output {value}" for value in self.outputs]
        return "\n".join(lines) + "\n"
