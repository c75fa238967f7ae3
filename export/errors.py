"""Why a model could not be exported, in one line, with what to change."""

from __future__ import annotations

import re

_LONGEST = 300

# What an exporter's message means for the model's code. The first pattern found gives the advice.
_ADVICE = (
    (
        r"data-dependent|GuardOnDataDependent|nonzero|masked_select|Dynamic shape operator|_local_scalar_dense",
        "the model's control flow or a shape depends on values: use torch.where or a mask in place of if, .item(), "
        "nonzero() and boolean indexing",
    ),
    (
        r"[Cc]onstraints? violated|specializ|was inferred to be a constant",
        "the model fixes the batch size: write -1 or x.shape[0] where it has a number",
    ),
    (
        r"No ONNX function|not supported|unrecognized namespace|[Nn]o decomposition|UnsupportedOperator",
        "replace the operator by ones that ONNX has, or try the other exporter",
    ),
    (
        r"fake ?tensor|FakeTensor|numpy\(\)|data_ptr",
        "the model leaves PyTorch (NumPy, .data_ptr()) in forward: use torch operators only",
    ),
)
_OTHERWISE = "try the other exporter, or simplify the part of forward that it names"


class ExportError(RuntimeError):
    """A model that can't be exported, or whose file doesn't give the model's answers; the message is one line."""


def one_line(text: str) -> str:
    """A message's first line that says something, shortened."""
    lines = (" ".join(line.split()) for line in text.splitlines())
    first = next((line for line in lines if re.search(r"[A-Za-z]{3}", line)), "it gave no reason").rstrip(" .:")
    return first if len(first) <= _LONGEST else first[: _LONGEST - 3] + "..."


def explain(error: BaseException, exporter: str) -> ExportError:
    """The error to raise for an exporter's exception: its innermost reason and what to change in the model."""
    chain = [error]
    while (deeper := chain[-1].__cause__ or chain[-1].__context__) is not None and deeper not in chain:
        chain.append(deeper)
    everything = "\n".join(f"{type(link).__name__}: {link}" for link in chain)
    advice = next((advice for pattern, advice in _ADVICE if re.search(pattern, everything)), _OTHERWISE)
    reason = next((one_line(str(link)) for link in reversed(chain) if str(link).strip()), type(error).__name__)
    return ExportError(f"the {exporter} exporter failed: {reason}; {advice}")
