"""Hazard: memory of a region that two steps use at once: one step after the other in launch order is not enough, since
their streams run side by side."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.custom_ops import native

ALIGNMENT = 256

pytestmark = native.needs_sources


@dataclass
class Node:
    stream: int
    operands: list[int]
    results: list[int]
    own_bytes: int = 0


@dataclass
class Case:
    inputs: int
    streams: int
    nodes: list[Node]
    outputs: list[int]
    sizes: dict[int, int] = field(default_factory=dict)

    @property
    def values(self) -> int:
        return self.inputs + sum(len(node.results) for node in self.nodes)

    def text(self) -> str:
        lines = ["region 1", f"inputs {self.inputs}", f"streams {self.streams}"]
        for i, node in enumerate(self.nodes):
            words = [*node.operands, ":", *node.results]
            lines += [f"node Any {node.stream} : {' '.join(map(str, words))}", f"name n{i}"]
        return "\n".join([*lines, *(f"output {value}" for value in self.outputs), ""])

    def byte_counts(self) -> list[int]:
        return [self.sizes.get(value, 0) for value in range(self.values)] + [node.own_bytes for node in self.nodes]


@dataclass
class Use:
    """Of some memory: from which step to which, and on which streams."""

    first: int
    last: int
    streams: set[int]


Place = Callable[[Case, int], tuple[list[int], int]]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """Where a case's values and works lie, and the bytes of all blocks, with a gap between these."""
    sources = [f"kernels/region/{name}.cc" for name in ("memory", "plan", "program")]
    function = native.compile_library(tmp_path_factory.mktemp("region"), "region_memory.cc", sources).place_region
    function.restype = ctypes.c_size_t

    def run(case: Case, gap: int) -> tuple[list[int], int]:
        counts = case.byte_counts()
        begins = (ctypes.c_int64 * len(counts))(*[-1] * len(counts))
        sizes = (ctypes.c_size_t * len(counts))(*counts)
        used = function(case.text().encode(), sizes, begins, ctypes.c_size_t(gap))
        return list(begins), used

    return run


def uses(case: Case) -> list[Use | None]:
    """As byte_counts lists them; none for an input."""
    of_values: list[Use | None] = [None] * case.values
    for step, node in enumerate(case.nodes):
        for value in node.operands:
            use = of_values[value]
            if use is not None:
                use.last = step
                use.streams.add(node.stream)
        for value in node.results:
            of_values[value] = Use(step, step, {node.stream})
    return of_values + [Use(step, step, {node.stream}) for step, node in enumerate(case.nodes)]


def check(case: Case, begins: list[int], used: int) -> None:
    placed = []
    for begin, size, use in zip(begins, case.byte_counts(), uses(case), strict=True):
        if begin < 0:
            continue
        assert use is not None
        assert begin % ALIGNMENT == 0
        placed.append((begin, begin + size, use))
    placed.sort(key=lambda one: one[2].first)
    for i, (begin, end, use) in enumerate(placed):
        assert end <= used
        for other_begin, other_end, other in placed[i + 1 :]:
            if begin < other_end and other_begin < end:
                assert use.last < other.first, (use, other)
                assert use.streams == {case.nodes[other.first].stream}, (use, other)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    inputs, streams = draw(st.integers(1, 2)), draw(st.integers(1, 3))
    nodes, made = [], inputs
    sizes = st.sampled_from([0, 1, 255, 256, 257, 700, 1024, 5000, 20000])
    for _ in range(draw(st.integers(1, 14))):
        recent = st.integers(max(0, made - 5), made - 1)
        operands = draw(st.lists(recent, min_size=1, max_size=3))
        results = list(range(made, made + draw(st.integers(1, 2))))
        made += len(results)
        nodes.append(Node(draw(st.integers(0, streams - 1)), operands, results, draw(sizes)))
    outputs = draw(st.lists(st.integers(inputs, made - 1), min_size=1, max_size=2, unique=True))
    return Case(inputs, streams, nodes, outputs, {value: draw(sizes) for value in range(inputs, made)})


@settings(deadline=None, max_examples=500)
@given(case=cases())
def test_no_two_streams_and_no_two_steps_at_once(place: Place, case: Case) -> None:
    begins, used = place(case, 0)
    check(case, begins, used)
    assert place(case, 4096)[1] == used  # a first call's blocks lie anywhere, and tell how much the next one needs


def chain(streams: list[int], own_bytes: int) -> Case:
    nodes = [Node(stream, [i], [i + 1], own_bytes) for i, stream in enumerate(streams)]
    return Case(1, max(streams) + 1, nodes, [len(nodes)])


def test_nodes_of_a_stream_share_memory_for_their_own_work(place: Place) -> None:
    assert place(chain([0] * 10, 1024), 0)[1] == 1024
    assert place(chain([0, 1] * 5, 1024), 0)[1] == 2048


def test_own_work_and_values_share_memory(place: Place) -> None:
    """The first value is dead when the third node works; in pieces, which are put together again."""
    case = chain([0] * 6, 0)
    case.sizes = {1: 4096, 2: 1024, 3: 1024, 4: 2048}
    case.nodes[2].own_bytes = 3072
    assert place(case, 0)[1] == 4096 + 1024
    case.nodes[5].own_bytes = 4096
    assert place(case, 0)[1] == 4096 + 1024


def test_a_value_that_another_stream_reads_is_left_alone(place: Place) -> None:
    nodes = [Node(0, [0], [1]), Node(1, [1], [2]), Node(0, [1], [3]), Node(0, [3, 2], [4]), Node(0, [4], [5])]
    case = Case(1, 2, nodes, [5], dict.fromkeys(range(1, 5), 1000))
    begins, used = place(case, 0)
    assert len({begins[value] for value in (1, 2, 3, 4)}) == 4
    assert used == 4 * 1024
