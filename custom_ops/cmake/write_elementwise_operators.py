"""Write the table of FusedElementwise's operators as a C++ include file: `write_elementwise_operators.py OUT`."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

TABLE = Path(__file__).parents[1] / "elementwise_operators.py"
TYPE_BITS = {"f32": 1, "f16": 2, "f64": 4, "i32": 8, "i64": 16, "bool": 32}
"""As in 1 << int(ScalarType)."""


def main(out: Path) -> None:
    lines = []
    for operator in runpy.run_path(str(TABLE))["OPERATORS"]:
        types = sum(TYPE_BITS[name] for name in operator.types)
        fields = f'k{operator.name.capitalize()}, "{operator.name}", {operator.arity}, {types}'
        lines.append(f"DPIFRAME_OPERATOR({fields}, {str(operator.gives_bool).lower()}, ({operator.code}))\n")
    out.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(lines)
    # an unchanged file keeps its time, and nothing is compiled again
    if not out.is_file() or out.read_text() != text:
        out.write_text(text)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
