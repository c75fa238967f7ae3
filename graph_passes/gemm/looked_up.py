"""Outputs of a lookup that hold the same rows as part of a wider output of it: a field for itself, and in a join."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from functools import lru_cache

from dpiframe.graph_passes.functions import LOOKUP, op_of
from dpiframe.graph_passes.gemm.parts import MAX_LEFT_AXES, Part
from dpiframe.graph_passes.lookups.program import Block, parse_program


def in_the_join(part: Part) -> Part:
    """The same values in the widest output of the lookup that gives them; the part itself where there is none."""
    tensor = part.source
    producer = tensor.inputs[0] if tensor.inputs else None
    if producer is None or op_of(producer) != LOOKUP:
        return part
    # of a lookup's rows: rows of a piece of one lie elsewhere in a wider output than further on in this one
    rows = _parsed(producer.attrs["program"]).rows
    if part.leading < rows or any(size != 1 for size in tensor.shape[rows : part.leading]):
        return part
    index = next(i for i, output in enumerate(producer.outputs) if output is tensor)
    wider, begin = _wider_outputs(producer.attrs["program"]).get(index, (index, 0))
    join = producer.outputs[wider]
    same_rows = join.shape is not None and list(join.shape[: part.leading]) == list(tensor.shape[: part.leading])
    if not same_rows or not part.leading < len(join.shape) <= part.leading + MAX_LEFT_AXES:
        return part
    return Part(join, part.leading, begin + part.begin)


_parsed = lru_cache(maxsize=4)(parse_program)


@lru_cache(maxsize=4)
def _wider_outputs(program: str) -> dict[int, tuple[int, int]]:
    """By output: the widest other output that holds its blocks, and the column there where they begin."""
    outputs: dict[int, list[Block]] = defaultdict(list)
    for block in _parsed(program).blocks:
        outputs[block.output].append(block)
    widths = {output: sum(block.width for block in blocks) for output, blocks in outputs.items()}
    places = {output: {(_anywhere(block), block.column) for block in blocks} for output, blocks in outputs.items()}
    widest_first = sorted(widths, key=lambda output: widths[output], reverse=True)
    wider: dict[int, tuple[int, int]] = {}
    for output in outputs:
        for other in widest_first:
            if widths[other] <= widths[output]:
                break
            begin = _shift(places[output], places[other])
            if begin is not None:
                wider[output] = other, begin
                break
    return wider


def _anywhere(block: Block) -> Block:
    return replace(block, output=0, column=0)


def _shift(blocks: set[tuple[Block, int]], among: set[tuple[Block, int]]) -> int | None:
    """By how many columns blocks lie further on among others, if they are all there."""
    first, column = min(blocks, key=lambda place: place[1])
    shifts = sorted(other - column for block, other in among if block == first)
    return next((s for s in shifts if all((block, column + s) in among for block, column in blocks)), None)
