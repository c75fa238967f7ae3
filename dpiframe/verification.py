"""Running a model and its optimized form on the same inputs, in a child process, and comparing their answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NoReturn, get_args

from dpiframe.child import Child, Failure, Loadable, Outputs
from dpiframe.choices import Provider, check_choice
from dpiframe.compare import FLOAT16_BOUND, FLOAT32_BOUND, REDUCED_BOUND, Difference, difference, largest_difference
from dpiframe.errors import UsageError, VerificationError
from dpiframe.input_specs import input_differences, input_specs
from dpiframe.inputs import Case, CaseMaker, Feeds
from dpiframe.latency import BATCHES
from dpiframe.progress import Progress, silent
from dpiframe.sessions import library_path, may_have_cuda, require_onnxruntime
from dpiframe.subject import Subject
from dpiframe.verify_result import FORMS, CaseResult, Form, Mismatch, VerifyResult

NO_CUDA = "no CUDA here (onnxruntime-gpu or a GPU is missing)"


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
    that is no valid model, and UsageError for arguments that can't be used, two models with other inputs among them.
    """
    require_onnxruntime()
    check_choice("provider", provider, get_args(Provider))
    progress("loading", str(original))
    subject = Subject.read(original, inputs=inputs, custom_op_library=custom_op_library)
    result = Subject.read(optimized, custom_op_library=custom_op_library)
    differing = input_differences(input_specs(subject.path, subject.model), input_specs(result.path, result.model))
    if differing:
        raise UsageError(f"{optimized}: its inputs are not those of {original}: {'; '.join(differing)}")
    with Child() as child:
        verifier = Verifier(child, subject, provider, progress)
        verifier.run(result.path, precision=result.precision)
    if verifier.result.mismatch is not None:
        raise VerificationError(f"{optimized}: {verifier.result.mismatch}", verifier.result)
    return verifier.result


class Verifier:
    """One comparison: `run` fills `result`. The original's answers stay, for whoever looks for the culprit.

    cuda: whether the models run on CUDA, which is known from the beginning.
    """

    def __init__(self, child: Child, subject: Subject, provider: Provider, progress: Progress) -> None:
        self._child = child
        self._subject = subject
        self._progress = progress
        self._references: dict[str, Outputs] = {}
        self._precision = "fp32"
        self.cuda = provider != "cpu" and may_have_cuda() and self._cuda_works()
        self.result = VerifyResult("cuda" if self.cuda else "cpu")
        if provider == "cuda" and not self.cuda:
            self.result.notes.append(
                f"{NO_CUDA}: the bodies and the CPU kernels were verified, the CUDA kernels were not"
            )

    def run(self, optimized: Path, *, bad_ids: str = "error", precision: str = "fp32") -> None:
        """Compare, then measure. Raises VerificationError where the original answers no case.

        bad_ids, precision: what the optimized model was made with.
        """
        # Imported while the child starts up.
        from dpiframe.graph_passes.id_ranges import id_ranges

        self._precision = precision
        specs = input_specs(self._subject.path, self._subject.model)
        self._maker = CaseMaker(specs, id_ranges(self._subject.model))
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
        self._child.add(form, Loadable(path, self.cuda, libraries))

    def compare(self, form: Form, case: Case) -> Difference | str | float:
        """What is wrong with a form's answers to a case or, if nothing is, the largest difference."""
        reference = self._references[case.name]
        outputs = self._child.run(form, case.feeds)
        if isinstance(outputs, Failure):
            # With nothing else in memory, it may still run.
            self._child.restart()
            outputs = self._child.run(form, case.feeds)
        if isinstance(outputs, Failure):
            return f"the original runs, the optimized model fails: {outputs.reason}"
        if outputs.names != reference.names:
            return f"the outputs are {outputs.names}, the original's {reference.names}"
        wrong = difference(outputs.names, reference.arrays, outputs.arrays, bound=self._bound(form))
        return wrong or largest_difference(reference.arrays, outputs.arrays)

    def _bound(self, form: Form) -> float:
        bound = FLOAT16_BOUND if self._subject.computes_in_half else FLOAT32_BOUND
        # only the kernels on CUDA compute with fewer bits: bodies and CPU kernels don't
        if form == "fused" and self.cuda and self._precision != "fp32":
            bound = max(bound, REDUCED_BOUND)
        return bound

    def _cuda_works(self) -> bool:
        self._add_original(cuda=True)
        providers = self._child.load("original")
        return not isinstance(providers, Failure) and "CUDAExecutionProvider" in providers

    def _add_original(self, *, cuda: bool) -> None:
        self._child.add("original", Loadable(self._subject.path, cuda, self._subject.custom_ops))

    def _answerable_cases(self) -> list[Case]:
        if not self.cuda:
            self._add_original(cuda=False)
        loaded = self._child.load("original")
        if isinstance(loaded, Failure):
            self._fail(f"ONNX Runtime can't load the model itself: {loaded.reason}")
        cases = self._run_original(self._maker.cases())
        if not cases and self._maker.sizes.has_others:
            self.result.cases.clear()
            self._maker = CaseMaker(self._maker.specs, self._maker.ranges, equal_sizes=True)
            cases = self._run_original(self._maker.cases())
        if self._subject.user:
            cases += self._run_original([self._subject.user])
        if not cases:
            failed = self.result.cases
            self._fail(
                f"the model itself fails on all {len(failed)} test inputs ({failed[0].skipped}); "
                "give real ones with --inputs FILE.npz"
            )
        return cases

    def _fail(self, why: str) -> NoReturn:
        raise VerificationError(f"{self._subject.path}: {why}", self.result)

    def _run_original(self, cases: Iterable[Case]) -> list[Case]:
        answered = []
        for case in cases:
            self._progress("verifying", f"the original: {case.name}")
            outputs = self._child.run("original", case.feeds)
            if isinstance(outputs, Failure):
                self.result.cases.append(CaseResult(case.name, skipped=outputs.reason))
            else:
                self._references[case.name] = outputs
                answered.append(case)
        return answered

    def _compare_all(self, form: Form, cases: Sequence[Case]) -> bool:
        for i, case in enumerate(cases):
            self._progress("verifying", f"{FORMS[form]}: {case.name}", i, len(cases))
            outcome = self.compare(form, case)
            if not isinstance(outcome, float):
                self.result.mismatch = Mismatch(case, form, outcome)
                return False
            if form == "fused":
                self.result.cases.append(CaseResult(case.name, largest_difference=outcome))
        return True

    def _compare_outside(self) -> None:
        """Kernels against bodies, which spell the policy out: the original may refuse ids outside its tables."""
        case = self._maker.outside()
        if case is None:
            return
        body = self._child.run("body", case.feeds)
        if isinstance(body, Failure):
            self.result.cases.append(CaseResult(case.name, skipped=body.reason))
            return
        self._references[case.name] = body
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
        maker = self._maker
        generated_run = any(case is not self._subject.user for case in cases)
        if generated_run and maker.sizes.is_dynamic(maker.specs):
            return {batch: maker.random(batch) for batch in BATCHES}
        feeds = cases[-1].feeds
        rows = (feeds[s.name].shape[maker.sizes.batch_axis(s)] for s in maker.specs if feeds[s.name].shape)
        return {next(rows, 1): feeds}
