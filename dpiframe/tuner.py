"""`dpiframe tune`: how many streams and which launch order suit an optimized model, measured on this machine's GPU."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import geometric_mean
from typing import TYPE_CHECKING, Any, Protocol, get_args

from dpiframe.child import Child, Failure, Loadable
from dpiframe.errors import DPIFrameError, UsageError, VerificationError
from dpiframe.external_data import files_to_bring
from dpiframe.graph_passes.model_io import external_files, save
from dpiframe.graph_passes.streams.schedule import Order
from dpiframe.input_specs import input_specs
from dpiframe.inputs import CaseMaker, Feeds
from dpiframe.output_file import StagedOutput, check_target, output_path
from dpiframe.progress import Progress, silent
from dpiframe.sessions import library_path, require_onnxruntime
from dpiframe.subject import Subject
from dpiframe.verification import Verifier
from dpiframe.verify_result import VerifyResult

if TYPE_CHECKING:
    import onnx

BATCHES = (64, 256, 1024, 2048)
STREAMS = (1, 2, 3, 4)
LEAST_GAIN = 0.02
"""Over one stream: less may be noise."""


@dataclass(frozen=True)
class Plan:
    """At most so many streams, and the order in which branches are launched."""

    streams: int
    order: Order

    def __str__(self) -> str:
        return "one stream" if self.streams == 1 else f"{self.streams} streams, {self.order}-first"


@dataclass
class Tried:
    """A plan and, by batch size, its milliseconds a run and how many times as fast as one stream in turn with it."""

    plan: Plan
    ms: dict[int, float] = field(default_factory=dict)
    ratio: dict[int, float] = field(default_factory=dict)

    @property
    def gain(self) -> float:
        """The geometric mean of the ratios."""
        return geometric_mean(self.ratio.values()) if self.ratio else 1.0

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {"streams": self.plan.streams, "order": self.plan.order, "ms": self.ms, "ratio": self.ratio}


@dataclass
class TuneResult:
    """What `tune` measured and wrote.

    tried: plans that differ for this model, one stream first. best: the one that the output has.
    """

    input: Path
    output: Path
    tried: list[Tried]
    best: Plan
    verification: VerifyResult

    def to_json(self) -> dict[str, Any]:
        """The result as plain JSON values."""
        return {
            "input": str(self.input),
            "output": str(self.output),
            "best": {"streams": self.best.streams, "order": self.best.order},
            "tried": [tried.to_json() for tried in self.tried],
            "verification": self.verification.to_json(),
        }


class Timer(Protocol):
    """Milliseconds a run of each of some model files, by name, on the same inputs. Raises DPIFrameError."""

    def __call__(self, files: Mapping[str, Path], feeds: Feeds) -> Mapping[str, float]: ...


def tune(
    path: str | Path,
    output: str | Path | None = None,
    *,
    batches: Sequence[int] = (),
    custom_op_library: str | Path | None = None,
    progress: Progress = silent,
) -> TuneResult:
    """Measure an optimized model with one to four streams and both launch orders, and write the fastest.

    output: by default the model's own file, which is replaced in one step. batches: the sizes to measure at, 1 and
    more; by default BATCHES. Plans are compared by the geometric mean over all sizes of how many times as fast as one
    stream they are; one that gains less than LEAST_GAIN loses to it. custom_op_library: the library of a model's own
    operators. The answers of what is written are compared with the model's first.

    Raises ModelError for a file that is no usable model, UsageError for one that isn't optimized for CUDA or arguments
    that can't be used, DPIFrameError without a GPU or where a plan can't run, VerificationError where answers differ,
    MissingDependencyError without onnxruntime.
    """
    return _tune(path, output, batches, custom_op_library, progress, timer=None)


def _tune(
    path: str | Path,
    output: str | Path | None,
    batches: Sequence[int],
    custom_op_library: str | Path | None,
    progress: Progress,
    *,
    timer: Timer | None,
) -> TuneResult:
    """timer: for tests on machines without a GPU, where answers are compared on the CPU; None measures on the card."""
    require_onnxruntime()
    source = Path(path)
    # a link stays one
    target = Path(os.path.realpath(source)) if output is None else output_path(output)
    progress("loading", source.name)
    subject = Subject.read(source, custom_op_library=custom_op_library)
    _require_optimized(subject)
    data = external_files(subject.model)
    if output is not None:
        check_target(source, target, [source.parent / location for location in data])
    files_to_bring("reference", source, target, data)
    feeds = _feeds(subject, batches)
    with StagedOutput(target, own_folder=False) as staged, Child() as child:
        verifier = Verifier(child, subject, "cpu" if timer else "cuda", progress)
        if timer is None:
            if not verifier.cuda:
                raise DPIFrameError(
                    f"{source}: tuning measures on a GPU, and ONNX Runtime finds none here: run it on the machine that "
                    "will serve the model, with onnxruntime-gpu"
                )
            timer = _OnCard(child, subject.custom_ops)
        plans = _distinct_plans(subject.model, progress)
        files = {str(plan): staged.scratch(str(i)) for i, plan in enumerate(plans)}
        for plan, model in plans.items():
            save(model, files[str(plan)])
        one, *others = (Tried(plan) for plan in plans)
        for i, other in enumerate(others):
            # two models at a time: each has the tables on the card
            child.drop_all()
            pair = {name: files[name] for name in (str(one.plan), str(other.plan))}
            for batch, given in feeds.items():
                progress("measuring", f"{other.plan}, batch {batch}", i, len(others))
                first, second = timer(pair, given).values()
                one.ms.setdefault(batch, first)
                other.ms[batch], other.ratio[batch] = second, first / second
        best = max(others, key=lambda tried: tried.gain, default=one)
        if best.gain < 1 + LEAST_GAIN:
            best = one
        save(plans[best.plan], staged.path)
        child.drop_all()
        verifier.run(staged.path, precision=subject.precision)
        if verifier.result.mismatch is not None:
            raise VerificationError(
                f"{source}: with {best.plan}, the answers differ: {verifier.result.mismatch}; nothing was written",
                verifier.result,
            )
        staged.publish([])
    return TuneResult(source, target, [one, *others], best.plan, verifier.result)


class _OnCard:
    def __init__(self, child: Child, custom_ops: Sequence[Path]) -> None:
        self._child = child
        self._libraries = [*custom_ops, Path(library_path())]

    def __call__(self, files: Mapping[str, Path], feeds: Feeds) -> Mapping[str, float]:
        for name, path in files.items():
            self._child.add(name, Loadable(path, True, self._libraries))
        times = self._child.race([*files], feeds)
        if isinstance(times, Failure):
            raise DPIFrameError(f"the model can't be measured: {times.reason}")
        return times


def _require_optimized(subject: Subject) -> None:
    if "dpiframe.version" not in subject.properties:
        raise UsageError(f"{subject.path}: is not optimized; run `optimize --provider cuda` first, and tune its output")
    if subject.properties.get("dpiframe.provider") != "cuda":
        raise UsageError(f"{subject.path}: is optimized for CPUs; run `optimize --provider cuda`, and tune its output")


def _feeds(subject: Subject, batches: Sequence[int]) -> dict[int, Feeds]:
    """Random inputs by batch size."""
    from dpiframe.graph_passes.id_ranges import id_ranges

    for batch in batches:
        if batch < 1:
            raise UsageError(f"batch {batch}: give 1 or more")
    maker = CaseMaker(input_specs(subject.path, subject.model), id_ranges(subject.model))
    rows = maker.only_batch()
    if rows is not None and set(batches) - {rows}:
        raise UsageError(f"batch {', '.join(map(str, batches))}: the model takes batches of {rows} alone")
    sizes = dict.fromkeys(batches or BATCHES) if rows is None else (rows,)
    return {batch: maker.random(batch) for batch in sizes}


def _distinct_plans(model: onnx.ModelProto, progress: Progress) -> dict[Plan, onnx.ModelProto]:
    from dpiframe.graph_passes.streams.replan import replan

    orders = get_args(Order)
    found: dict[Plan, onnx.ModelProto] = {}
    for streams in STREAMS:
        for order in orders if streams > 1 else orders[:1]:
            plan = Plan(streams, order)
            progress("rewriting", str(plan))
            result = replan(model, streams, order)
            if all(result.graph.node != other.graph.node for other in found.values()):
                found[plan] = result
    return found
