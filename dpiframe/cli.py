"""The commands `optimize` and `dpiframe`.

Exit codes: 0 done; 1 a bad model, or a result that could not be shown to be right; 2 bad usage; 130 interrupted. An
error is one line on stderr (with --debug, after its traceback).
"""

from __future__ import annotations

import json
import signal
import sys
import traceback
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, NoReturn

import typer

from dpiframe.errors import DPIFrameError

_HELP: dict[str, Any] = {"no_args_is_help": True, "context_settings": {"help_option_names": ["-h", "--help"]}}

Model = Annotated[Path, typer.Argument(metavar="MODEL", help="The ONNX file.", show_default=False)]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="Where to write; by default MODEL.opt.onnx beside it."),
]
Provider = Annotated[
    str, typer.Option(metavar="auto|cpu|cuda", help="What the result will run on; auto is what this machine has.")
]
BadIds = Annotated[
    str,
    typer.Option(
        metavar="error|zero|clamp",
        help="Ids outside their table: an error, a row of zeros, or the table's first or last row.",
    ),
]
Inputs = Annotated[
    Path | None,
    typer.Option(metavar="FILE.npz", help="Real inputs to verify on as well, an array an input, by its name."),
]
ExternalData = Annotated[
    str,
    typer.Option(
        metavar="reference|copy|link",
        help="External data files: leave them in place (the output must lie beside them), copy or hard-link them.",
    ),
]
CustomOpLibrary = Annotated[
    Path | None, typer.Option(metavar="FILE", help="The library of the model's own custom operators.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show a traceback with errors.")]


def optimize(
    model: Model,
    output: Output = None,
    provider: Provider = "auto",
    bad_ids: BadIds = "error",
    inputs: Inputs = None,
    external_data: ExternalData = "reference",
    custom_op_library: CustomOpLibrary = None,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Write a faster form of a CTR model in ONNX, verified to give the same answers.

    The input is never changed, and nothing is written unless original and result agree on generated inputs.
    """
    from dpiframe.optimizer import optimize as run
    from dpiframe.optimizer import to_json
    from dpiframe.report import TerminalProgress, print_optimized

    with TerminalProgress(enabled=not (quiet or as_json)) as progress:
        result = run(
            model,
            output,
            provider=provider,  # type: ignore[arg-type]
            bad_ids=bad_ids,  # type: ignore[arg-type]
            inputs=inputs,
            external_data=external_data,  # type: ignore[arg-type]
            custom_op_library=custom_op_library,
            progress=progress,
        )
    if as_json:
        print(json.dumps(to_json(result)))
    elif not quiet:
        print_optimized(result)


def verify(
    original: Annotated[Path, typer.Argument(metavar="ORIGINAL", help="The model as it came.", show_default=False)],
    optimized: Annotated[Path, typer.Argument(metavar="OPTIMIZED", help="Its optimized form.", show_default=False)],
    provider: Provider = "auto",
    inputs: Inputs = None,
    custom_op_library: CustomOpLibrary = None,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Compare the answers and the latency of a model and its optimized form."""
    from dpiframe.report import TerminalProgress, print_latencies, print_verified
    from dpiframe.verification import to_json
    from dpiframe.verification import verify as run

    with TerminalProgress(enabled=not (quiet or as_json)) as progress:
        result = run(
            original,
            optimized,
            provider=provider,  # type: ignore[arg-type]
            inputs=inputs,
            custom_op_library=custom_op_library,
            progress=progress,
        )
    if as_json:
        print(json.dumps({"ok": True, **to_json(result)}))
    elif not quiet:
        print_latencies(result)
        print_verified(result)


def optimize_main() -> NoReturn:
    """The `optimize` command."""
    app = _app()
    app.command(**_HELP)(optimize)
    _main(app, "optimize")


def main() -> NoReturn:
    """The `dpiframe` command."""
    app = _app(help="Makes CTR models in ONNX faster, with the same answers.", **_HELP)
    app.command()(optimize)
    app.command()(verify)
    app.callback()(_dpiframe)
    _main(app, "dpiframe")


def _dpiframe(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=lambda on: _version(on))
    ] = False,
) -> None:
    pass


def _version(wanted: bool) -> None:
    if wanted:
        import dpiframe

        print(dpiframe.__version__)
        raise typer.Exit


def _app(**settings: Any) -> typer.Typer:
    return typer.Typer(add_completion=False, pretty_exceptions_enable=False, **settings)


def _main(app: typer.Typer, name: str) -> NoReturn:
    signal.signal(signal.SIGTERM, _terminated)
    try:
        code = typer.main.get_command(app).main(prog_name=name, standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):
        code = 130
    except Exception as error:
        code = _report(error)
    sys.exit(code or 0)


def _terminated(number: int, frame: FrameType | None) -> NoReturn:
    """Leave by way of all the clean-up that a plain end by signal would skip."""
    sys.exit(128 + number)


def _report(error: Exception) -> int:
    if "--debug" in sys.argv:
        traceback.print_exception(error)
    message, code = _explain(error)
    message = " ".join(message.split())
    if "--json" in sys.argv:
        print(json.dumps({"ok": False, "error": message}))
    print(f"error: {message}", file=sys.stderr)
    return code


def _explain(error: Exception) -> tuple[str, int]:
    """One line and the exit code."""
    if isinstance(error, DPIFrameError):
        return str(error), error.exit_code
    # typer's usage errors, which have been other classes in other releases.
    if hasattr(error, "format_message"):
        return f"{error.format_message()} (--help lists the options)", 2
    from dpiframe.graph_passes.model_io import ModelError

    if isinstance(error, ModelError):
        return str(error), 1
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}" if error.filename else str(error), 1
    return f"internal error: {type(error).__name__}: {error} (--debug shows where)", 1
