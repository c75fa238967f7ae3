"""`optimize`: a model file in, a verified faster one out, or a clear reason why not."""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import onnx

from dpiframe import verification
from dpiframe.child import Child
from dpiframe.errors import DPIFrameError, VerificationError
from dpiframe.external_data import Mode, bring, files_to_bring
from dpiframe.first_difference import first_difference
from dpiframe.graph_passes import pipeline
from dpiframe.graph_passes.model_io import ModelError, external_files, load, save
from dpiframe.graph_passes.report import PassReport
from dpiframe.model_checks import checker_complaint, unknown_domains
from dpiframe.output_file import StagedOutput, check_target, default_output
from dpiframe.progress import Progress, silent
from dpiframe.sessions import require_onnxruntime
from dpiframe.verification import Subject, Verifier, VerifyResult

BadIds = Literal["error", "zero", "clamp"]


@dataclass
class OptimizeResult:
    """What `optimize` did.

    fused: whether anything was; if not, the output is a copy of the input, byte for byte, and nothing had to be
    verified. nodes_before/after: executed nodes. lookups_fused: of lookups_before. reports: each pass's changes and
    refusals.
    """

    input: Path
    output: Path
    provider: Literal["cpu", "cuda"]
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


def optimize(
    path: str | Path,
    output: str | Path | None = None,
    *,
    provider: verification.Provider = "auto",
    bad_ids: BadIds = "error",
    inputs: str | Path | None = None,
    external_data: Mode = "reference",
    custom_op_library: str | Path | None = None,
    progress: Progress = silent,
) -> OptimizeResult:
    """Write an optimized form of an ONNX model, after showing that it gives the same answers.

    output: by default model.opt.onnx beside model.onnx. provider: what it will run on; "auto" is what this machine has.
    bad_ids: what a lookup of an id outside its table does. inputs: an .npz file with an array for each input, to verify
    on besides generated inputs. external_data: whether data files stay where they are, are copied or hard-linked to the
    output's folder. custom_op_library: the library of a model's own operators. The input and its data are never written
    to, and no output is left behind unless all went well.

    Raises ModelError for a file that is no usable model, UsageError for arguments that can't be used, VerificationError
    where the result's answers differ or can't be compared, MissingDependencyError without onnxruntime.
    """
    verification.check_choice("provider", provider, ("auto", "cpu", "cuda"))
    verification.check_choice("bad_ids", bad_ids, ("error", "zero", "clamp"))
    verification.check_choice("external_data", external_data, ("reference", "copy", "link"))
    require_onnxruntime()
    source = Path(path)
    target = default_output(source) if output is None else Path(output)
    custom_ops = verification.existing_library(custom_op_library)
    # The child starts up while this process loads and rewrites.
    with Child() as child:
        progress("loading", source.name)
        model = load(source)
        data = external_files(model)
        check_target(source, target, [source.parent / location for location in data])
        brought = files_to_bring(external_data, source, target, data)
        if not custom_ops:
            _check_domains(source, model)
        subject = Subject(source, model, custom_ops, None if inputs is None else Path(inputs))
        with StagedOutput(target, own_folder=bool(brought)) as staged:
            run = _Run(child, subject, staged, progress)
            result = run.rewrite(provider, bad_ids)
            bring(external_data, source.parent, staged.folder, brought)
            if result.fused:
                run.prove(bad_ids)
            _publish(staged, brought)
    return result


class _Run:
    """One optimization, from the loaded model to the staged and verified file."""

    def __init__(self, child: Child, subject: Subject, staged: StagedOutput, progress: Progress) -> None:
        self._child = child
        self._subject = subject
        self._staged = staged
        self._progress = progress

    def rewrite(self, provider: verification.Provider, bad_ids: BadIds) -> OptimizeResult:
        """Run the passes and write the staged file: the result or, if nothing was fused, the input's own bytes."""
        subject, staged = self._subject, self._staged
        self._has_cuda = provider != "cpu" and verification.cuda_works(self._child, subject)
        target: Literal["cpu", "cuda"] = "cuda" if self._has_cuda or provider == "cuda" else "cpu"
        self._rewritten = pipeline.optimize_model(
            subject.model, provider=target, bad_ids=bad_ids, on_pass=lambda name: self._progress("rewriting", name)
        )
        done = self._rewritten
        self.result = OptimizeResult(
            input=subject.path,
            output=staged.target,
            provider=target,
            fused=done.fused,
            nodes_before=done.nodes_before,
            nodes_after=done.nodes_after if done.fused else done.nodes_before,
            lookups_before=done.lookups_before,
            lookups_fused=done.lookups_fused,
            reports=list(done.reports),
        )
        if done.fused:
            save(done.model, staged.path)
        else:
            is_done = any(entry.key == "dpiframe.version" for entry in subject.model.metadata_props)
            what = "this model is already optimized" if is_done else "nothing in this model can be fused"
            self.result.notes.append(f"{what}: the output is an unchanged copy")
            shutil.copyfile(subject.path, staged.path)
        return self.result

    def prove(self, bad_ids: BadIds) -> None:
        """Check the staged file and compare its answers. Raises VerificationError where it can't be shown to be right.
        Check the staged file and compare its answers. Raises VerificationError where it can't be shown to be right."""
        verifier = Verifier(self._child, self._subject, cuda=self._has_cuda, progress=self._progress)
        if self.result.provider == "cuda" and not self._has_cuda:
            verifier.result.notes.append(verification.NO_CUDA)
        self._check_model(verifier.result)
        verifier.run(self._staged.path, bad_ids=bad_ids)
        self.result.verification = verifier.result
        mismatch = verifier.result.mismatch
        if mismatch is None:
            return
        self._progress("verifying", "looking for the first pass whose answers differ")
        culprit = first_difference(verifier, mismatch, self._rewritten.stages, self._staged)
        where = f"they first differ after the pass {culprit}" if culprit else "no single pass is to blame"
        raise VerificationError(
            f"{self._subject.path}: the optimized model's answers differ: {mismatch}; {where}; nothing was written",
            verifier.result,
        )

    def _check_model(self, result: VerifyResult) -> None:
        folder = self._subject.path.parent
        complaint = checker_complaint(self._staged.path, self._rewritten.model, folder)
        if complaint is None:
            return
        if theirs := checker_complaint(self._subject.path, self._subject.model, folder):
            result.notes.append(
                f"onnx.checker rejects the model as it came, so the result is not checked with it: {theirs}"
            )
            return
        raise VerificationError(
            f"{self._subject.path}: onnx.checker rejects the optimized model: {complaint}; nothing was written", result
        )


def _check_domains(source: Path, model: onnx.ModelProto) -> None:
    for domain, operator in unknown_domains(model).items():
        raise ModelError(
            f"{source}: operator {domain}::{operator} is not ONNX Runtime's own; "
            "name its library with --custom-op-library FILE"
        )


def _publish(staged: StagedOutput, brought: list[str]) -> None:
    try:
        staged.publish(brought)
    except OSError as error:
        raise DPIFrameError(f"{staged.target}: can't be written: {error.strerror}") from error


def to_json(result: OptimizeResult) -> dict[str, Any]:
    """The result as plain JSON values."""
    proof = result.verification
    return {
        "ok": True,
        "input": str(result.input),
        "output": str(result.output),
        "provider": result.provider,
        "fused": result.fused,
        "nodes": {"before": result.nodes_before, "after": result.nodes_after},
        "lookups": {"total": result.lookups_before, "fused": result.lookups_fused},
        "changes": {r.name: r.changes for r in result.reports if r.changes},
        "refusals": result.refusals_by_reason(),
        "verification": None if proof is None else verification.to_json(proof),
        "notes": result.notes,
    }
