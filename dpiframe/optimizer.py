"""`optimize`: a model file in, a verified faster one out, or a clear reason why not."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn, get_args

from dpiframe.child import Child
from dpiframe.choices import BadIds, Precision, Provider, check_choice
from dpiframe.errors import DPIFrameError, UsageError, VerificationError
from dpiframe.external_data import Mode, bring, files_to_bring
from dpiframe.first_difference import first_difference
from dpiframe.graph_passes.functions import program_fields
from dpiframe.graph_passes.model_io import external_files, save
from dpiframe.graph_passes.report import PassReport
from dpiframe.graph_passes.streams.schedule import Order
from dpiframe.model_checks import checker_complaint
from dpiframe.output_file import StagedOutput, check_target, default_output, output_path
from dpiframe.progress import Progress, silent
from dpiframe.sessions import require_onnxruntime
from dpiframe.subject import Subject
from dpiframe.verification import Verifier
from dpiframe.verify_result import Mismatch, VerifyResult

if TYPE_CHECKING:
    from dpiframe.graph_passes.pass_base import Pass
    from dpiframe.graph_passes.pipeline import PipelineResult
    from dpiframe.graph_passes.workbench import Target

    class Options(Target, total=False):
        """The pipeline's."""

        passes: Sequence[type[Pass]]


MAX_STREAMS = 32
FUSIONS = ("fuse_lookups", "fuse_gemm", "fuse_elementwise", "assign_streams")
"""The passes that form ops, by name: each can be left out."""


@dataclass
class OptimizeResult:
    """What `optimize` did.

    provider: what the output is made for. runs_here_on: what this machine can run it on: "cpu", too, where CUDA was
    asked for and there is none. fused: whether anything was; if not, the output is a copy of the input, byte for byte,
    and nothing had to be verified. nodes_before/after: executed nodes. lookups_fused: of lookups_before. reports: each
    pass's changes and refusals.
    """

    input: Path
    output: Path
    provider: Literal["cpu", "cuda"]
    runs_here_on: Literal["cpu", "cuda"]
    fused: bool
    nodes_before: int
    nodes_after: int
    lookups_before: int
    lookups_fused: int
    reports: list[PassReport] = field(default_factory=list)
    verification: VerifyResult | None = None
    notes: list[str] = field(default_factory=list)

    def refusals_by_reason(self) -> dict[str, list[str]]:
        """What was left alone: reason -> nodes, most frequent reason first."""
        counts = Counter(r.reason for report in self.reports for r in report.refusals)
        return {
            reason: [r.node for report in self.reports for r in report.refusals if r.reason == reason]
            for reason, _ in counts.most_common()
        }

    def to_json(self) -> dict[str, Any]:
        """The result as plain JSON values."""
        return {
            "input": str(self.input),
            "output": str(self.output),
            "provider": self.provider,
            "fused": self.fused,
            "nodes": {"before": self.nodes_before, "after": self.nodes_after},
            "lookups": {"total": self.lookups_before, "fused": self.lookups_fused},
            "changes": {report.name: report.changes for report in self.reports if report.changes},
            "refusals": self.refusals_by_reason(),
            "verification": None if self.verification is None else self.verification.to_json(),
            "notes": self.notes,
        }


def optimize(
    path: str | Path,
    output: str | Path | None = None,
    *,
    provider: Provider = "auto",
    bad_ids: BadIds | None = None,
    precision: Precision | None = None,
    streams: int | str = "auto",
    order: Order = "breadth",
    without: Sequence[str] = (),
    inputs: str | Path | None = None,
    external_data: Mode = "reference",
    custom_op_library: str | Path | None = None,
    progress: Progress = silent,
) -> OptimizeResult:
    """Write an optimized form of an ONNX model, after showing that it gives the same answers.

    output: by default model.opt.onnx beside model.onnx. provider: what it will run on; "auto" is what this machine has.
    bad_ids: what a lookup of an id outside its table does, "error" by default. precision: of matrix products on CUDA;
    "fp32" (the default) is no less accurate than float32, "tf32" and "fp16" keep 11 bits of each operand. Of a model
    that is optimized already both stay what they are, and asking for another is an error. streams: on how many CUDA
    streams at most independent branches run, from 1 ("off") to 32. order: how branches are launched, alternately or one
    after the other. without: passes to leave out, of FUSIONS. inputs: an .npz file with an array for each input, to
    verify on besides generated inputs. external_data: whether data files stay where they are, are copied or hard-linked
    to the output's folder. custom_op_library: the library of a model's own operators. The input and its data are never
    written to, and no output is left behind unless all went well.

    Raises ModelError for a file that is no usable model, UsageError for arguments that can't be used, VerificationError
    where the result's answers differ or can't be compared, MissingDependencyError without onnxruntime.
    """
    check_choice("provider", provider, get_args(Provider))
    if bad_ids is not None:
        check_choice("bad_ids", bad_ids, get_args(BadIds))
    if precision is not None:
        check_choice("precision", precision, get_args(Precision))
    check_choice("order", order, get_args(Order))
    most_streams = stream_count(streams)
    if isinstance(without, str):
        raise UsageError(f"without {without!r}: give a list of passes, [{without!r}] for one")
    for name in without:
        check_choice("without", name, FUSIONS)
    check_choice("external_data", external_data, get_args(Mode))
    require_onnxruntime()
    source = Path(path)
    progress("loading", source.name)
    subject = Subject.read(source, inputs=inputs, custom_op_library=custom_op_library)
    # after the model is read: a folder, "." for one, may have no name to make another of
    target = default_output(source) if output is None else output_path(output)
    data = external_files(subject.model)
    check_target(source, target, [source.parent / location for location in data])
    brought = files_to_bring(external_data, source, target, data)
    with StagedOutput(target, own_folder=bool(brought)) as staged, Child() as child:
        # Imported and run while the child starts up.
        from dpiframe.graph_passes import pipeline

        verifier = Verifier(child, subject, provider, progress)
        made_for: Literal["cpu", "cuda"] = "cuda" if verifier.cuda or provider == "cuda" else "cpu"
        options: Options = {
            "provider": made_for,
            "bad_ids": _kept(subject, "--bad-ids", "bad", bad_ids) or "error",
            "precision": _kept(subject, "--precision", "precision", precision) or "fp32",
            "streams": most_streams,
            "launch_order": order,
            "passes": [kind for kind in pipeline.PASSES if kind.name not in without],
        }
        rewritten = _rewrite(subject, target, staged, options, progress)
        with _writing(target):
            bring(external_data, source.parent, staged.folder, brought)
        culprit = _verify(verifier, subject, rewritten, staged, options, progress)
        remedies = []
        while (remedy := _remedy(verifier.result.mismatch, culprit, options)) is not None:
            remedies.append(remedy)
            verifier = Verifier(child, subject, provider, progress)
            rewritten = _rewrite(subject, target, staged, options, progress)
            culprit = _verify(verifier, subject, rewritten, staged, options, progress)
        if verifier.result.mismatch is not None:
            _fail(verifier, subject, culprit)
        result = _result(subject, target, made_for, verifier.result.provider, rewritten)
        result.notes += remedies
        if rewritten.fused:
            result.verification = verifier.result
        with _writing(target):
            staged.publish(brought)
    return result


def _kept(subject: Subject, option: str, keyword: str, wanted: str | None) -> str | None:
    """What is wanted, or else what all of the model's nodes were made with whose programs have this keyword."""
    there = program_fields(subject.model, keyword)
    if wanted is not None and there - {wanted}:
        raise UsageError(
            f"{subject.path}: is optimized already, with {option} {min(there - {wanted})}, which can't be changed; "
            f"optimize the original with {option} {wanted}"
        )
    return wanted or (min(there) if len(there) == 1 else None)


def _rewrite(
    subject: Subject, target: Path, staged: StagedOutput, options: Options, progress: Progress
) -> PipelineResult:
    """Run the passes and write their result to the staged file; where nothing was fused, the input."""
    from dpiframe.graph_passes import pipeline

    rewritten = pipeline.optimize_model(subject.model, **options, on_pass=lambda name: progress("rewriting", name))
    with _writing(target):
        if rewritten.fused:
            save(rewritten.model, staged.path)
        else:
            shutil.copyfile(subject.path, staged.path)
    return rewritten


def _verify(
    verifier: Verifier,
    subject: Subject,
    rewritten: PipelineResult,
    staged: StagedOutput,
    options: Options,
    progress: Progress,
) -> str | None:
    """Compare the answers, if anything was fused. Returns the first pass after which they differ."""
    from dpiframe.graph_passes import pipeline

    if not rewritten.fused:
        return None
    _check_model(verifier, subject, rewritten, staged)
    verifier.run(staged.path, bad_ids=options["bad_ids"], precision=options["precision"])
    if verifier.result.mismatch is None:
        return None
    progress("verifying", "looking for the first pass whose answers differ")
    stages = pipeline.models_after_passes(subject.model, **options)
    return first_difference(verifier, verifier.result.mismatch, stages, staged)


def _remedy(mismatch: Mismatch | None, culprit: str | None, options: Options) -> str | None:
    """Make the pass fuse_elementwise leave alone what may be to blame. Returns the note about it, or None where nothing
    is, or was left alone already."""
    from dpiframe.graph_passes.elementwise.fuse import FuseElementwise

    if mismatch is None or culprit != FuseElementwise.name:
        return None
    if mismatch.rounding and not options.get("exact"):
        # A model that cancels large values shows the last bit of what it adds up.
        options["exact"] = True
        return f"sums and inexact functions are left to ONNX Runtime: a last bit makes {mismatch}"
    if mismatch.nan and not options.get("lose_nan"):
        options["lose_nan"] = True
        return f"ReduceMax and ReduceMin are left to ONNX Runtime, which loses NaN in them: a NaN kept makes {mismatch}"
    return None


def _result(
    subject: Subject,
    target: Path,
    provider: Literal["cpu", "cuda"],
    runs_here_on: Literal["cpu", "cuda"],
    rewritten: PipelineResult,
) -> OptimizeResult:
    result = OptimizeResult(
        input=subject.path,
        output=target,
        provider=provider,
        runs_here_on=runs_here_on,
        fused=rewritten.fused,
        nodes_before=rewritten.nodes_before,
        nodes_after=rewritten.nodes_after if rewritten.fused else rewritten.nodes_before,
        lookups_before=rewritten.lookups_before,
        lookups_fused=rewritten.lookups_fused,
        reports=list(rewritten.reports),
    )
    if not rewritten.fused:
        what = (
            "this model is already optimized"
            if "dpiframe.version" in subject.properties
            else "nothing in this model can be fused"
        )
        result.notes.append(f"{what}: the output is an unchanged copy")
    return result


def stream_count(streams: int | str) -> int:
    """As the passes take it: 0 for as many as branches are worth. Raises UsageError."""
    named = {"auto": 0, "off": 1}
    if streams in named:
        return named[str(streams)]
    count = int(streams) if str(streams).isdecimal() else 0
    if not 1 <= count <= MAX_STREAMS:
        raise UsageError(f"streams {streams!r}: give auto, off, or a number from 1 to {MAX_STREAMS}")
    return count


def _fail(verifier: Verifier, subject: Subject, culprit: str | None) -> NoReturn:
    where = f"they first differ after the pass {culprit}" if culprit else "no single pass is to blame"
    if culprit in FUSIONS:
        where += f" (to leave it out: --without {culprit})"
    mismatch = verifier.result.mismatch
    raise VerificationError(
        f"{subject.path}: the optimized model's answers differ: {mismatch}; {where}; nothing was written",
        verifier.result,
    )


def _check_model(verifier: Verifier, subject: Subject, rewritten: PipelineResult, staged: StagedOutput) -> None:
    folder = subject.path.parent
    complaint = checker_complaint(staged.path, rewritten.model, folder)
    if complaint is None:
        return
    theirs = checker_complaint(subject.path, subject.model, folder)
    if theirs is None:
        raise VerificationError(
            f"{subject.path}: onnx.checker rejects the optimized model: {complaint}; nothing was written",
            verifier.result,
        )
    verifier.result.notes.append(
        f"onnx.checker rejects the model as it came, so the result is not checked with it: {theirs}"
    )


@contextmanager
def _writing(target: Path) -> Iterator[None]:
    """The target is what the user named, whichever temporary file it is that can't be written."""
    try:
        yield
    except OSError as error:
        raise DPIFrameError(f"{target}: can't be written: {error.strerror or error}") from error
