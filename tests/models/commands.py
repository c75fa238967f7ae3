"""Runs a command function as the front door does."""

from __future__ import annotations

from typing import Any

import typer
from typer.testing import CliRunner


def command(function: Any, *arguments: object) -> str:
    """Gives what it prints, on one line; lets its exception through."""
    app = typer.Typer(add_completion=False)
    app.command()(function)
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return " ".join(result.output.split())
