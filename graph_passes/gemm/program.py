"""The program of a FusedGemm: the product's form, and the steps that follow it. docs/ops/fused-gemm.md defines it."""

from __future__ import annotations

from dataclasses import dataclass

from dpiframe.graph_passes.lookups.program import float_text

FORMAT_VERSION = 1
MAX_STEPS = 16
MAX_RUNS = 128


@dataclass(frozen=True)
class Step:
    """One operation on every element: op, then an operand or a number, where it takes one.

    kind: scalar, vector, column or matrix. input: the operand's; inputs 0 and 1 are the left operand and the weight.
    """

    op: str
    kind: str = ""
    input: int = 0
    number: float | None = None

    def __str__(self) -> str:
        if self.kind:
            return f"step {self.op} {self.kind} {self.input}"
        return f"step {self.op}" if self.number is None else f"step {self.op} {float_text(self.number)}"


@dataclass(frozen=True)
class GemmProgram:
    """precision: fp32, tf32 or fp16. layout: of the weight, `nk` for [N, K] or `kn` for [K, N]. left_axes: how many of
    the left operand's last axes make up a row. row: values of a row, 0 for K. begins: N is divided into as many runs of
    columns, each of which multiplies the K values of a row from there on."""

    precision: str
    layout: str
    k: int
    n: int
    steps: tuple[Step, ...] = ()
    left_axes: int = 1
    row: int = 0
    begins: tuple[int, ...] = (0,)

    @property
    def row_size(self) -> int:
        return self.row or self.k

    @property
    def takes_parts(self) -> bool:
        """Whether a product is one of parts of rows."""
        return self.row_size != self.k or self.begins != (0,)

    def __str__(self) -> str:
        lines = [f"gemm {FORMAT_VERSION}", f"precision {self.precision}", f"weight {self.layout}"]
        lines.append(f"size {self.k} {self.n}")
        if self.left_axes > 1:
            lines.append(f"left {self.left_axes}")
        if self.takes_parts:
            lines.append(f"runs {self.row_size} {' '.join(map(str, self.begins))}")
        lines += map(str, self.steps)
        return "\n".join(lines) + "\n"
