"""The commands `optimize` and `dpiframe`.

Exit codes: 0 done; 1 a bad model, or a result that could not be shown to be right; 2 bad usage; 130 interrupted; 143
terminated. An error is one line on stderr (with --debug, after its traceback).
"""

from __future__ import annotations

import io
import json
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, Literal, NoReturn

import typer
import typer.core

from dpiframe import choices
from dpiframe.errors import DPIFrameError, UsageError
from dpiframe.external_data import Mode
from dpiframe.graph_passes.streams import schedule
from dpiframe.progress import Progress, silent

_HELP: dict[str, Any] = {"context_settings": {"help_option_names": ["-h", "--help"]}}
_INTERRUPTED = 128 + signal.SIGINT
# Commands that live in other rooms, imported when they are asked for.
_ROOMS = {"train": "dpiframe.models.cli", "export": "dpiframe.export.cli"}

Model = Annotated[Path, typer.Argument(metavar="MODEL", help="The ONNX file.", show_default=False)]
# A text, since a Path forgets a slash at its end.
Output = Annotated[
    str | None,
    typer.Option("--output", "-o", metavar="FILE", help="Where to write; by default MODEL.opt.onnx beside it."),
]
Provider = Annotated[choices.Provider, typer.Option(help="What the result will run on; auto is what this machine has.")]
BadIds = Annotated[
    choices.BadIds | None,
    typer.Option(help="Ids outside their table: an error (the default), a row of zeros, or the first or last row."),
]
Precision = Annotated[
    choices.Precision | None,
    typer.Option(help="Matrix products on CUDA: as accurate as float32 (the default), or 11 bits of each operand."),
]
Streams = Annotated[
    str, typer.Option(metavar="N|auto|off", help="CUDA streams that independent branches run on: at most N, or one.")
]
Order = Annotated[
    schedule.Order,
    typer.Option(help="How branches on several streams are launched: alternately, or one after the other."),
]
Without = Annotated[
    list[str] | None,
    typer.Option(metavar="PASS", help="Leave out a pass: fuse_lookups, fuse_gemm, fuse_elementwise or assign_streams."),
]
Inputs = Annotated[
    Path | None,
    typer.Option(metavar="FILE.npz", help="Real inputs to verify on as well, an array an input, by its name."),
]
ExternalData = Annotated[
    Mode,
    typer.Option(
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
    bad_ids: BadIds = None,
    precision: Precision = None,
    streams: Streams = "auto",
    order: Order = "breadth",
    without: Without = None,
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

    with _progress(wanted=not (quiet or as_json)) as progress:
        result = run(
            model,
            output,
            provider=provider,
            bad_ids=bad_ids,
            precision=precision,
            streams=streams,
            order=order,
            without=without or (),
            inputs=inputs,
            external_data=external_data,
            custom_op_library=custom_op_library,
            progress=progress,
        )
    if as_json:
        print(json.dumps({"ok": True, **result.to_json()}))
    elif not quiet:
        from dpiframe.report import print_optimized

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
    from dpiframe.verification import verify as run

    with _progress(wanted=not (quiet or as_json)) as progress:
        result = run(
            original,
            optimized,
            provider=provider,
            inputs=inputs,
            custom_op_library=custom_op_library,
            progress=progress,
        )
    if as_json:
        print(json.dumps({"ok": True, **result.to_json()}))
    elif not quiet:
        from dpiframe.report import print_latencies, print_verified

        print_latencies(result)
        print_verified(result)


def tune(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="What `optimize` wrote.", show_default=False)],
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="FILE", help="Where to write; by default MODEL itself.")
    ] = None,
    batch: Annotated[
        list[int] | None, typer.Option(metavar="N", help="A batch size to measure at; may be given several times.")
    ] = None,
    custom_op_library: CustomOpLibrary = None,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Measure on this machine's GPU how many streams and which launch order suit a model, and write that into it.

    Nothing is written unless the result gives the model's answers, and beats one stream.
    """
    from dpiframe.tuner import tune as run

    with _progress(wanted=not (quiet or as_json)) as progress:
        result = run(model, output, batches=batch or (), custom_op_library=custom_op_library, progress=progress)
    if as_json:
        print(json.dumps({"ok": True, **result.to_json()}))
    elif not quiet:
        from dpiframe.tuning_report import print_tuned

        print_tuned(result)


def inspect(
    model: Model,
    provider: Annotated[Literal["cpu", "cuda"], typer.Option(help="What `optimize` would fuse for.")] = "cpu",
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Show a model's fields, tables and branches, and what `optimize` would fuse. Nothing is run or written."""
    from dpiframe.graph_passes.inspection import inspect_model
    from dpiframe.graph_passes.model_io import load
    from dpiframe.inspection_report import print_inspection

    found = inspect_model(load(model), provider)
    if as_json:
        print(json.dumps({"ok": True, **found.to_json()}))
    else:
        print_inspection(found)


def bench(
    model: Model,
    provider: Provider = "auto",
    precision: Precision = None,
    batch: Annotated[
        list[int] | None,
        typer.Option("--batch", "-b", metavar="N", help="Rows a call; may be given several times. 1 to 2048 without."),
    ] = None,
    inputs: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.npz",
            help="Real inputs, whose rows are repeated to each batch size, to measure on (and verify on as well).",
        ),
    ] = None,
    custom_op_library: CustomOpLibrary = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the latencies, as .png, .svg or .pdf.")
    ] = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Measure a model before and after `optimize`, at several batch sizes. Nothing is kept but the plot."""
    from dpiframe.bench import bench as run
    from dpiframe.bench_report import plot_bench, print_bench, require_plot

    if plot is not None:
        require_plot(plot)
    with _progress(wanted=not as_json) as progress:
        result = run(
            model,
            provider=provider,
            precision=precision,
            batches=batch or (),
            inputs=inputs,
            custom_op_library=custom_op_library,
            progress=progress,
        )
    if plot is not None:
        plot_bench(result, plot)
    if as_json:
        print(json.dumps({"ok": True, **result.to_json()}))
    else:
        print_bench(result)


def _progress(*, wanted: bool) -> AbstractContextManager[Progress]:
    if not (wanted and sys.stderr.isatty()):
        return nullcontext(silent)
    from dpiframe.report import TerminalProgress

    return TerminalProgress()


class _Commands(typer.core.TyperGroup):
    """The commands of this module, and those of the other rooms."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [*super().list_commands(ctx), *_ROOMS]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in _ROOMS:
            return super().get_command(ctx, cmd_name)
        app = _app()
        app.command(cmd_name)(_with_our_errors(getattr(import_module(_ROOMS[cmd_name]), cmd_name)))
        return typer.main.get_command(app)


def _with_our_errors(command: Callable[..., None]) -> Callable[..., None]:
    """The rooms raise Python's own errors with one line that says it all."""

    @wraps(command)
    def run(*args: Any, **kwargs: Any) -> None:
        try:
            command(*args, **kwargs)
        except ValueError as error:
            raise UsageError(str(error)) from error
        except RuntimeError as error:
            raise DPIFrameError(str(error)) from error

    return run


def optimize_main() -> NoReturn:
    """The `optimize` command."""
    app = _app()
    app.command(**_HELP)(optimize)
    _main(app, "optimize")


def main() -> NoReturn:
    """The `dpiframe` command."""
    app = _app(cls=_Commands, help="CTR models in ONNX: faster, with the same answers.", no_args_is_help=True, **_HELP)
    app.command()(optimize)
    app.command()(tune)
    app.command()(verify)
    app.command()(inspect)
    app.command()(bench)
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
    _print_whatever_it_is()
    try:
        # typer answers Ctrl-C with 130 itself, click with an Abort.
        code = typer.main.get_command(app).main(prog_name=name, standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):
        code = _INTERRUPTED
    except Exception as error:
        code = _report(error)
    if code == _INTERRUPTED:
        print("interrupted", file=sys.stderr)
    sys.exit(code or 0)


def _print_whatever_it_is() -> None:
    """A name that the terminal's encoding can't hold is printed with escapes, as in `\\xe9`, and is no error."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")


def _terminated(number: int, frame: FrameType | None) -> NoReturn:
    """Leave by way of all the clean-up that a plain end by signal would skip."""
    sys.exit(128 + number)


def _report(error: Exception) -> int:
    if "--debug" in sys.argv:
        traceback.print_exception(error)
    message, code = _explain(error)
    message = " ".join(message.split())
    if not message:
        # `dpiframe` alone: the help has been printed.
        return code
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
        message = error.format_message()
        return f"{message} (--help lists the options)" if message else "", 2
    from dpiframe.graph_passes.model_io import ModelError

    if isinstance(error, ModelError):
        return str(error), 1
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}" if error.filename else str(error), 1
    return f"internal error: {type(error).__name__}: {error} (--debug shows where)", 1
