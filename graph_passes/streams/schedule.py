"""Which stream each task of a region runs on, and in which order they are launched. Knows nothing of graphs.

The paper's Algorithm 2 is for two branches; this is the same for any: branches are launched alternately, one operator
of each a round, the one with more operators first, each on a stream of its own as far as there are streams.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

Order = Literal["breadth", "depth"]


@dataclass(frozen=True)
class Task:
    """cost: in any one unit. after: the tasks, by index, that it waits for; all of them stand before it."""

    cost: float
    after: tuple[int, ...] = ()


@dataclass(frozen=True)
class Launch:
    task: int
    stream: int


@dataclass(frozen=True)
class Schedule:
    """launches: in order. streams: how many are used. makespan: when the last task ends if all streams are as fast as
    one alone; serial: when it ends on one stream."""

    launches: tuple[Launch, ...]
    streams: int
    makespan: float
    serial: float


def schedule(tasks: Sequence[Task], streams: int, order: Order = "breadth") -> Schedule:
    """Streams by branch, the costly ones first; the launch order by `order`: alternating, or branch by branch."""
    tasks = _without_shortcuts(tasks)
    branches = find_branches(tasks)
    placed, makespan = _place(tasks, branches, streams)
    ordered = _alternate(tasks, branches) if order == "breadth" else _one_by_one(tasks, branches)
    launches = tuple(Launch(task, placed[task]) for task in ordered)
    return Schedule(launches, len(set(placed.values())), makespan, sum(task.cost for task in tasks))


def find_branches(tasks: Sequence[Task]) -> list[list[int]]:
    """Chains of tasks in which each waits for the one before it alone and no other task does, in order of their
    heads."""
    followers = _followers(tasks)
    branches: list[list[int]] = []
    inside: dict[int, list[int]] = {}
    for index, task in enumerate(tasks):
        before = task.after[0] if len(task.after) == 1 else None
        if before is not None and followers[before] == [index]:
            branch = inside[before]
        else:
            branch = []
            branches.append(branch)
        branch.append(index)
        inside[index] = branch
    return branches


def _without_shortcuts(tasks: Sequence[Task]) -> list[Task]:
    """The same tasks, each waiting only for those that no other one of its own waits for: the layers of a cross
    network, which all read its input too, are a branch."""
    # by task, as bits: all that it waits for, and all that those wait for
    before: list[int] = []
    reduced = []
    for task in tasks:
        behind = 0
        for other in task.after:
            behind |= before[other]
        reduced.append(Task(task.cost, tuple(other for other in task.after if not behind >> other & 1)))
        before.append(behind | sum(1 << other for other in task.after))
    return reduced


def _followers(tasks: Sequence[Task]) -> list[list[int]]:
    followers: list[list[int]] = [[] for _ in tasks]
    for index, task in enumerate(tasks):
        for before in task.after:
            followers[before].append(index)
    return followers


def _place(tasks: Sequence[Task], branches: list[list[int]], streams: int) -> tuple[dict[int, int], float]:
    """Each task's stream: a branch goes where it ends first, on its predecessor's stream if that is no later. Of those
    that can start at the same time, the costly one chooses first. Returns when all is done, too."""
    free = [0.0] * streams
    done: dict[int, float] = {}
    stream_of: dict[int, int] = {}
    waiting = list(branches)
    while waiting:
        ready = [branch for branch in waiting if all(before in done for before in tasks[branch[0]].after)]
        starts = {id(b): max((done[before] for before in tasks[b[0]].after), default=0.0) for b in ready}
        costs = {id(b): sum(tasks[task].cost for task in b) for b in ready}
        branch = min(ready, key=lambda b: (starts[id(b)], -costs[id(b)]))
        near = {stream_of[before] for before in tasks[branch[0]].after}
        start = starts[id(branch)]
        stream = min(range(streams), key=lambda s: (max(free[s], start), s not in near, s))
        time = max(free[stream], start)
        for task in branch:
            time += tasks[task].cost
            done[task], stream_of[task] = time, stream
        free[stream] = time
        waiting.remove(branch)
    return stream_of, max(free, default=0.0)


def _alternate(tasks: Sequence[Task], branches: list[list[int]]) -> list[int]:
    """Rounds: one task of every branch that has begun, branches with more tasks first."""
    launched: set[int] = set()
    waiting, order = list(branches), []
    active: list[Iterator[int]] = []
    while waiting or active:
        begun = [b for b in waiting if launched.issuperset(tasks[b[0]].after)]
        waiting = [b for b in waiting if not any(b is other for other in begun)]
        active += [iter(b) for b in sorted(begun, key=len, reverse=True)]
        going = []
        for branch in active:
            task = next(branch, None)
            if task is not None:
                order.append(task)
                launched.add(task)
                going.append(branch)
        active = going
    return order


def _one_by_one(tasks: Sequence[Task], branches: list[list[int]]) -> list[int]:
    """Branch by branch, the longest of those that can begin first."""
    launched: set[int] = set()
    waiting, order = list(branches), []
    while waiting:
        branch = max((b for b in waiting if launched.issuperset(tasks[b[0]].after)), key=len)
        order += branch
        launched.update(branch)
        waiting = [b for b in waiting if b is not branch]
    return order
