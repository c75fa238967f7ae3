"""Running a model and its optimized form on the same inputs, in a child process, and comparing their answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import onnx

from dpiframe.child import Child, Failure, Loadable, Outputs
from dpiframe.compare import difference, largest_difference
from dpiframe.errors import UsageError, VerificationError
from dpiframe.graph_passes.id_ranges import id_ranges
from dpiframe.graph_passes.model_io import load, tensors
from dpiframe.inputs import Case, CaseMaker, Feeds, InputSpec, input_specs, load_user_inputs
from dpiframe.latency import BATCHES, Latency
from dpiframe.progress import Progress, silent
from dpiframe.sessions import library_path, require_onnxruntime

Provider = Literal["auto", "cpu", "cuda"]
Form = Literal["fused", "body"]
_FORMS: dict[Form, str] = {"fused": "with the library", "body": "without the library"}
_HALF = (onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16)


@dataclass(frozen=True)
class CaseResult:
    """One case. skipped: why the original gave no answer to compare with, or None where the answers agree."""

    name: str
    skipped: str | None = None
    largest_difference: float = 0.0


@dataclass(frozen=True)
class Mismatch:
    """The first case whose answers differ. form: whether the library's kernels ran, or the bodies."""

    case: Case
    form: Form
    what: str

    def __str__(self) -> str:
        return f"case '{self.case.name}', {_FORMS[self.form]}: {self.what}"


@dataclass
class VerifyResult:
    """What was run and how it compared.

    provider: where the models ran, "cpu" or "cuda". cases: the comparable ones and those skipped. latencies: paired, by
    batch size. notes: what a reader should know about how this was done. mismatch is None when all is well.
    """

    provider: Literal["cpu", "cuda"]
    cases: list[CaseResult] = field(default_factory=list)
    latencies: list[Latency] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    mismatch: Mismatch | None = None

    @property
    def compared(self) -> list[CaseResult]:
        return [case for case in self.cases if case.skipped is None]

    @property
    def skipped(self) -> list[CaseResult]:
        return [case for case in self.cases if case.skipped is not None]

    @property
    def largest_difference(self) -> float:
        return max((case.largest_difference for case in self.compared), default=0.0)


@dataclass(frozen=True)
class Subject:
    """What is to be verified: the original's file and its protobuf, and what is needed to run it."""

    path: Path
    model: onnx.ModelProto
    custom_ops: Sequence[Path] = ()
    inputs: Path | None = None

    @property
    def specs(self) -> list[InputSpec]:
        return input_specs(self.model)


def verify(
    original: str | Path,
    optimized: str | Path,
    *,
    provider: Provider = "auto",
    inputs: str | Path | None = None,
    custom_op_library: str | Path | None = None,
    progress: Progress = silent,
) -> VerifyResult:
    """Run both models on random and edge-case inputs, and on those of the .npz file `inputs`, and compare the answers.

    The optimized model runs twice: with the library's kernels and, where the library isn't registered, from its
    functions' bodies. Raises VerificationError where answers differ or no case can be compared, ModelError for a file
    that is no valid model, and UsageError for arguments that can't be used.
    """
    require_onnxruntime()
    check_choice("provider", provider, ("auto", "cpu", "cuda"))
    progress("loading", str(original))
    custom_ops = existing_library(custom_op_library)
    subject = Subject(Path(original), load(original), custom_ops, None if inputs is None else Path(inputs))
    load(optimized)
    with Child() as child:
        cuda = provider != "cpu" and cuda_works(child, subject)
        verifier = Verifier(child, subject, cuda=cuda, progress=progress)
        if provider == "cuda" and not cuda:
            verifier.result.notes.append(NO_CUDA)
        verifier.run(Path(optimized))
        if verifier.result.mismatch is not None:
            raise VerificationError(f"{optimized}: {verifier.result.mismatch}", verifier.result)
        return verifier.result


NO_CUDA = (
    "no CUDA here (onnxruntime-gpu or a GPU is missing): "
    "the bodies and the CPU kernels were verified, the CUDA kernels were not"
)


def check_choice(name: str, value: str, choices: Sequence[str]) -> None:
    if value not in choices:
        raise UsageError(f"{name} {value!r}: choose one of {', '.join(choices)}")


def existing_library(path: str | Path | None) -> list[Path]:
    if path is None:
        return []
    if not Path(path).is_file():
        raise UsageError(f"--custom-op-library {path}: no such file")
    return [Path(path).resolve()]


def cuda_works(child: Child, subject: Subject) -> bool:
    """Whether ONNX Runtime gives the original a CUDA session on this machine."""
    child.add("original", Loadable(subject.path, cuda=True, libraries=subject.custom_ops))
    providers = child.load("original")
    return not isinstance(providers, Failure) and "CUDAExecutionProvider" in providers


class Verifier:
    """One comparison. `run` fills `result`; the original's answers stay in `references` for whoever looks for the
    culprit."""

    def __init__(self, child: Child, subject: Subject, *, cuda: bool, progress: Progress) -> None:
        self.result = VerifyResult("cuda" if cuda else "cpu")
        self.references: dict[str, Outputs] = {}
        self.half = _computes_in_half(subject.model)
        self._child = child
        self._subject = subject
        self._cuda = cuda
        self._progress = progress
        self._user = load_user_inputs(subject.inputs, subject.specs) if subject.inputs else None
        self._maker = self._make(equal_sizes=False)

    def run(self, optimized: Path, *, bad_ids: str = "error") -> None:
        """Compare, then measure. Raises VerificationError where the original answers no case."""
        cases = self._answerable_cases()
        self.add("fused", optimized)
        self.add("body", optimized)
        if not self._compare_all("fused", cases):
            return
        self._measure(cases)
        # One model less in memory, which matters where tables are large and on a GPU.
        self._child.drop_all()
        if self._compare_all("body", cases) and bad_ids != "error":
            self._compare_outside()

    def add(self, form: Form, path: Path) -> None:
        """Make a model file the one that runs as `form`."""
        libraries = [*self._subject.custom_ops, *([Path(library_path())] if form == "fused" else [])]
        self._child.add(form, Loadable(path, self._cuda, libraries))

    def compare(self, form: Form, case: Case) -> str | float:
        """What is wrong with a form's answers to a case or, if nothing is, the largest difference."""
        reference = self.references[case.name]
        outputs = self._child.run(form, case.feeds)
        if isinstance(outputs, Failure):
            # With nothing else in memory, it may still run.
            self._child.restart()
            outputs = self._child.run(form, case.feeds)
        if isinstance(outputs, Failure):
            return f"the original runs, the optimized model fails: {outputs.reason}"
        if outputs.names != reference.names:
            return f"the outputs are {outputs.names}, the original's {reference.names}"
        wrong = difference(outputs.names, reference.arrays, outputs.arrays, half=self.half)
        return str(wrong) if wrong else largest_difference(reference.arrays, outputs.arrays)

    def _make(self, *, equal_sizes: bool) -> CaseMaker:
        return CaseMaker(self._subject.specs, id_ranges(self._subject.model), equal_sizes=equal_sizes)

    def _answerable_cases(self) -> list[Case]:
        self._child.add("original", Loadable(self._subject.path, self._cuda, self._subject.custom_ops))
        loaded = self._child.load("original")
        if isinstance(loaded, Failure):
            raise VerificationError(
                f"{self._subject.path}: ONNX Runtime can't load the model itself: {loaded.reason}", self.result
            )
        cases = self._run_original(self._maker.cases())
        if not cases and self._maker.sizes.has_others:
            self.result.cases.clear()
            self._maker = self._make(equal_sizes=True)
            cases = self._run_original(self._maker.cases())
        if self._user:
            cases += self._run_original([self._user])
        if not cases:
            raise VerificationError(
                f"{self._subject.path}: the model itself fails on all {len(self.result.cases)} test inputs "
                f"({self.result.cases[0].skipped}); give real ones with --inputs FILE.npz",
                self.result,
            )
        return cases

    def _run_original(self, cases: Iterable[Case]) -> list[Case]:
        answered = []
        for case in cases:
            self._progress("verifying", f"the original: {case.name}")
            outputs = self._child.run("original", case.feeds)
            if isinstance(outputs, Failure):
                self.result.cases.append(CaseResult(case.name, skipped=outputs.reason))
            else:
                self.references[case.name] = outputs
                answered.append(case)
        return answered

    def _compare_all(self, form: Form, cases: Sequence[Case]) -> bool:
        for i, case in enumerate(cases):
            self._progress("verifying", f"{_FORMS[form]}: {case.name}", i, len(cases))
            outcome = self.compare(form, case)
            if isinstance(outcome, str):
                self.result.mismatch = Mismatch(case, form, outcome)
                return False
            if form == "fused":
                self.result.cases.append(CaseResult(case.name, largest_difference=outcome))
        return True

    def _compare_outside(self) -> None:
        """The original may refuse ids outside its tables; the policy is in the bodies, which the kernels must follow.
        The original may refuse ids outside its tables; the policy is in the bodies, which the kernels must follow."""
        case = self._maker.outside()
        body = self._child.run("body", case.feeds) if case else None
        if case is None or body is None:
            return
        if isinstance(body, Failure):
            self.result.cases.append(CaseResult(case.name, skipped=body.reason))
            return
        self.references[case.name] = body
        self._compare_all("fused", [case])

    def _measure(self, cases: Sequence[Case]) -> None:
        for i, (batch, feeds) in enumerate(self._timing_inputs(cases).items()):
            self._progress("measuring", f"batch {batch}", i, len(BATCHES))
            latency = self._child.time(("original", "fused"), batch, feeds)
            if isinstance(latency, Failure):
                self.result.notes.append(f"latency wasn't measured: at batch {batch}, {latency.reason}")
                return
            self.result.latencies.append(latency)

    def _timing_inputs(self, cases: Sequence[Case]) -> Mapping[int, Feeds]:
        """By batch size: random inputs where the model takes any batch, else those that it is known to run."""
        maker, user = self._maker, self._user
        random_runs = any(case is not user for case in cases)
        if random_runs and maker.sizes.is_dynamic(maker.specs):
            return {batch: maker.random(batch) for batch in BATCHES}
        feeds = cases[-1].feeds
        rows = (feeds[s.name].shape[maker.sizes.batch_axis(s)] for s in maker.specs if feeds[s.name].shape)
        return {next(rows, 1): feeds}


def _computes_in_half(model: onnx.ModelProto) -> bool:
    return any(tensor.data_type in _HALF for tensor in tensors(model)) or any(
        value.type.tensor_type.elem_type in _HALF for value in (*model.graph.input, *model.graph.output)
    )


def to_json(result: VerifyResult) -> dict[str, Any]:
    """The result as plain JSON values."""
    return {
        "provider": result.provider,
        "cases": len(result.compared),
        "skipped": {case.name: case.skipped for case in result.skipped},
        "largest_difference": result.largest_difference,
        "mismatch": None if result.mismatch is None else str(result.mismatch),
        "latency": [asdict(latency) for latency in result.latencies],
        "notes": result.notes,
    }
