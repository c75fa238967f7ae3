"""A model's latency before and after `optimize`, at the batch sizes that its user has."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from dpiframe.child import Child, Failure, Loadable
from dpiframe.choices import Precision, Provider
from dpiframe.errors import DPIFrameError, UsageError
from dpiframe.graph_passes.model_io import external_files
from dpiframe.input_specs import input_specs
from dpiframe.inputs import CaseMaker, Feeds
from dpiframe.latency import Latency
from dpiframe.optimizer import optimize
from dpiframe.progress import Progress, silent
from dpiframe.repeated_rows import repeated_rows
from dpiframe.sessions import library_path
from dpiframe.subject import Subject
from dpiframe.verification import NO_CUDA

BATCHES = (1, 16, 64, 512, 2048)


@dataclass
class BenchResult:
    """Latencies by batch size. provider: where both forms ran. notes: what could not be measured, and why."""

    model: Path
    provider: Literal["cpu", "cuda"]
    latencies: list[Latency] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """The result as plain JSON values."""
        return {
            "model": str(self.model),
            "provider": self.provider,
            "latency": [asdict(latency) for latency in self.latencies],
            "notes": self.notes,
        }


def bench(
    path: str | Path,
    *,
    provider: Provider = "auto",
    precision: Precision | None = None,
    batches: Sequence[int] = (),
    inputs: str | Path | None = None,
    custom_op_library: str | Path | None = None,
    progress: Progress = silent,
) -> BenchResult:
    """Optimize a model into a temporary file, which verifies it, and measure both forms in turn in a child process.

    Nothing is left behind. batches: rows a call, BATCHES without; ids and dense values are random ones, or the rows of
    the .npz file `inputs`, repeated. provider, precision, custom_op_library: as for `optimize`. A batch size that the
    model can't run is a note.

    Raises UsageError for batch sizes that no model or not this one takes, or a model with external data in a folder
    that can't be written to, and whatever `optimize` raises.
    """
    if batches and min(batches) < 1:
        raise UsageError(f"batch sizes {', '.join(map(str, batches))}: give numbers from 1 on")
    source = Path(path)
    subject = Subject.read(source, inputs=inputs, custom_op_library=custom_op_library)
    feeds = _Feeds(subject)
    if feeds.only_batch is not None and set(batches) - {feeds.only_batch}:
        raise UsageError(f"{source}: takes batches of {feeds.only_batch} only; leave --batch out")
    batches = batches or (BATCHES if feeds.only_batch is None else (feeds.only_batch,))
    with _temporary_folder(subject) as folder, Child() as child:
        output = Path(folder, "optimized.onnx")
        optimized = optimize(
            source,
            output,
            provider=provider,
            precision=precision,
            inputs=inputs,
            external_data="link",
            custom_op_library=custom_op_library,
            progress=progress,
        )
        runs_on = optimized.runs_here_on
        result = BenchResult(source, runs_on, notes=list(optimized.notes))
        if runs_on != optimized.provider:
            result.notes.append(f"{NO_CUDA}: both forms were measured on the CPU")
        cuda = runs_on == "cuda"
        child.add("original", Loadable(source, cuda, subject.custom_ops))
        child.add("fused", Loadable(output, cuda, [*subject.custom_ops, Path(library_path())]))
        for done, batch in enumerate(batches):
            progress("measuring", f"batch {batch}", done, len(batches))
            latency = child.time(("original", "fused"), batch, feeds.of(batch))
            if isinstance(latency, Failure):
                result.notes.append(f"batch {batch}: {latency.reason}")
            else:
                result.latencies.append(latency)
    if not result.latencies:
        raise DPIFrameError(f"{source}: no batch size could be measured: {result.notes[-1]}")
    return result


def _temporary_folder(subject: Subject) -> tempfile.TemporaryDirectory[str]:
    """Beside a model with external data: this is linked, and links stay on one file system. Else with other temporary
    files: the model's folder may be a read-only one."""
    if not external_files(subject.model):
        return tempfile.TemporaryDirectory(prefix="dpiframe-bench-")
    parent = subject.path.parent
    try:
        return tempfile.TemporaryDirectory(prefix=".dpiframe-bench-", dir=parent)
    except OSError as error:
        raise UsageError(
            f"{subject.path}: no temporary folder can be made in {parent} ({error.strerror}), where the optimized form "
            "finds the model's external data; copy model and data to a folder that can be written to"
        ) from None


class _Feeds:
    """Inputs of any batch size. only_batch: the one that the model takes, where it is fixed. Raises UsageError for
    inputs of the user's without rows."""

    def __init__(self, subject: Subject) -> None:
        from dpiframe.graph_passes.id_ranges import id_ranges

        specs = input_specs(subject.path, subject.model)
        self._maker = CaseMaker(specs, id_ranges(subject.model))
        self._user = subject.user
        sizes = self._maker.sizes
        for spec in specs:
            given = None if self._user is None else self._user.feeds[spec.name]
            if given is not None and given.ndim and not given.shape[sizes.batch_axis(spec)]:
                raise UsageError(f"--inputs: '{spec.name}' has no rows; give at least one, which is then repeated")
        self.only_batch = self._maker.only_batch()

    def of(self, batch: int) -> Feeds:
        if self._user is None:
            return self._maker.random(batch)
        return repeated_rows(self._user.feeds, batch, self._maker)
