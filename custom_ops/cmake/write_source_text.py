"""Write a source file as a C++ string literal, to be included: `write_source_text.py FILE OUT`."""

from __future__ import annotations

import sys
from pathlib import Path


def main(source: Path, out: Path) -> None:
    # a text that is compiled on its own has no use for the line
    text = source.read_text().replace("#pragma once\n", "")
    text = f'R"source({text})source"\n'
    out.parent.mkdir(parents=True, exist_ok=True)
    # an unchanged file keeps its time, and nothing is compiled again
    if not out.is_file() or out.read_text() != text:
        out.write_text(text)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
