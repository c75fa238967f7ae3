"""Streams and launch order of tasks: the paper's Algorithm 2 on two branches, the same on any."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpiframe.graph_passes.streams.schedule import Order, Schedule, Task, find_branches, schedule


def fork(*lengths: int, cost: float = 1.0) -> list[Task]:
    """A task, branches of these lengths after it, and a task after all of them."""
    tasks = [Task(cost)]
    ends = []
    for length in lengths:
        before = 0
        for _ in range(length):
            tasks.append(Task(cost, (before,)))
            before = len(tasks) - 1
        ends.append(before)
    return [*tasks, Task(cost, tuple(sorted(ends)))]


def order_of(plan: Schedule) -> list[int]:
    return [launch.task for launch in plan.launches]


def streams_of(plan: Schedule) -> dict[int, int]:
    return {launch.task: launch.stream for launch in plan.launches}


def test_branches_of_a_fork() -> None:
    assert find_branches(fork(3, 2)) == [[0], [1, 2, 3], [4, 5], [6]]


def test_a_chain_is_one_branch() -> None:
    chain = [Task(1), Task(1, (0,)), Task(1, (1,))]
    assert find_branches(chain) == [[0, 1, 2]]
    plan = schedule(chain, 4)
    assert (plan.streams, plan.makespan, plan.serial) == (1, 3, 3)


def test_a_branch_whose_tasks_all_wait_for_the_fork_too() -> None:
    tasks = [Task(1), Task(3, (0,)), Task(1, (0,)), Task(3, (0, 1)), Task(3, (0, 1, 3)), Task(1, (2, 4))]
    plan = schedule(tasks, 2)
    assert order_of(plan) == [0, 1, 2, 3, 4, 5]
    assert streams_of(plan) == {0: 0, 1: 0, 2: 1, 3: 0, 4: 0, 5: 0}


def test_two_branches_alternate_the_longer_first() -> None:
    plan = schedule(fork(2, 4), 2)
    assert order_of(plan) == [0, 3, 1, 4, 2, 5, 6, 7]


def test_of_equal_branches_the_first_is_first() -> None:
    assert order_of(schedule(fork(2, 2), 2)) == [0, 1, 3, 2, 4, 5]


def test_depth_first_launches_branch_by_branch() -> None:
    assert order_of(schedule(fork(2, 4), 2, "depth")) == [0, 3, 4, 5, 6, 1, 2, 7]


def test_each_branch_has_a_stream_and_the_first_stays_on_the_forks() -> None:
    plan = schedule(fork(2, 4), 2)
    streams = streams_of(plan)
    assert plan.streams == 2
    assert {streams[task] for task in (3, 4, 5, 6)} == {0}
    assert {streams[task] for task in (1, 2)} == {1}
    assert streams[0] == 0
    assert streams[7] == 0, "the join follows the branch that ends last"
    assert (plan.makespan, plan.serial) == (6, 8)


def test_the_costly_branch_chooses_first() -> None:
    """Three branches on two streams: the costly one has its own."""
    tasks = [Task(1), Task(1, (0,)), Task(1, (0,)), Task(5, (0,)), Task(1, (1, 2, 3))]
    streams = streams_of(schedule(tasks, 2))
    assert streams[1] == streams[2] != streams[3]


def test_more_branches_than_streams() -> None:
    plan = schedule(fork(*[1] * 8), 4)
    assert plan.streams == 4
    streams = streams_of(plan)
    assert sorted([streams[task] for task in range(1, 9)].count(stream) for stream in range(4)) == [2, 2, 2, 2]
    assert plan.makespan == 4


def test_one_stream_is_serial() -> None:
    plan = schedule(fork(2, 4), 1)
    assert plan.streams == 1
    assert plan.makespan == plan.serial == 8


def test_nested_forks() -> None:
    """0 forks into 1 and 2; 2 forks into 3 and 4; 5 joins 3 and 4, 6 joins all."""
    tasks = [Task(1), Task(6, (0,)), Task(1, (0,)), Task(2, (2,)), Task(2, (2,)), Task(1, (3, 4)), Task(1, (1, 5))]
    plan = schedule(tasks, 4)
    streams = streams_of(plan)
    assert plan.streams == 3
    assert len({streams[1], streams[3], streams[4]}) == 3
    assert plan.makespan == 8


def test_tasks_without_predecessors_begin_together() -> None:
    plan = schedule([Task(1), Task(1), Task(1, (0, 1))], 2)
    assert plan.streams == 2
    assert plan.makespan == 2


def test_nothing_to_do() -> None:
    assert schedule([], 4) == Schedule((), 0, 0.0, 0)


@st.composite
def graphs(draw: st.DrawFn) -> list[Task]:
    count = draw(st.integers(1, 14))
    return [
        Task(
            draw(st.integers(1, 9)),
            tuple(sorted(draw(st.sets(st.integers(0, index - 1), max_size=3)))) if index else (),
        )
        for index in range(count)
    ]


@pytest.mark.parametrize("order", ["breadth", "depth"])
@given(tasks=graphs(), streams=st.integers(1, 4))
def test_any_graph(order: Order, tasks: list[Task], streams: int) -> None:
    plan = schedule(tasks, streams, order)
    place = {task: index for index, task in enumerate(order_of(plan))}
    assert sorted(place) == list(range(len(tasks))), "each is launched once"
    assert all(place[before] < place[task] for task in place for before in tasks[task].after), "producers first"
    assert 1 <= plan.streams <= streams
    assert all(0 <= launch.stream < streams for launch in plan.launches)
    longest: dict[int, float] = {}
    for index, task in enumerate(tasks):
        longest[index] = task.cost + max((longest[before] for before in task.after), default=0)
    assert max(longest.values()) <= plan.makespan <= plan.serial
    for branch in find_branches(tasks):
        assert len({streams_of(plan)[task] for task in branch}) == 1, "a branch stays on its stream"
