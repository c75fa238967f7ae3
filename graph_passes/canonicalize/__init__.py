"""Bring what different exporters write for the same thing into one form, so that fusing passes have one form to
match."""

from __future__ import annotations

from dpiframe.graph_passes.canonicalize.bag_shapes import shape_bags
from dpiframe.graph_passes.canonicalize.batch_first import put_batch_first
from dpiframe.graph_passes.canonicalize.branches import decide_branches
from dpiframe.graph_passes.canonicalize.columns import use_rows
from dpiframe.graph_passes.canonicalize.common_nodes import share_common_nodes
from dpiframe.graph_passes.canonicalize.constants import constant_nodes, fold_constants
from dpiframe.graph_passes.canonicalize.dimensions import unify_dimensions
from dpiframe.graph_passes.canonicalize.einsums import name_products
from dpiframe.graph_passes.canonicalize.flat_splits import pick_split_rows
from dpiframe.graph_passes.canonicalize.last_bags import close_last_bags
from dpiframe.graph_passes.canonicalize.picks import pick_in_place
from dpiframe.graph_passes.canonicalize.regular_bags import pool_regular_bags
from dpiframe.graph_passes.canonicalize.shape_plumbing import fix_shapes
from dpiframe.graph_passes.canonicalize.simplify import remove_no_ops
from dpiframe.graph_passes.canonicalize.stacks import turn_stacks
from dpiframe.graph_passes.canonicalize.transposes import compute_unturned
from dpiframe.graph_passes.conditions import SOUND, constants_are_initializers
from dpiframe.graph_passes.pass_base import Pass
from dpiframe.graph_passes.report import PassReport
from dpiframe.graph_passes.workbench import Workbench

__all__ = ["Canonicalize"]

# Nodes without effect go before constants are folded: folding an Identity would store a table twice.
_STEPS = (
    unify_dimensions,
    constant_nodes,
    fix_shapes,
    remove_no_ops,
    fold_constants,
    decide_branches,
    name_products,
    use_rows,
    turn_stacks,
    compute_unturned,
    put_batch_first,
    pick_in_place,
    pick_split_rows,
    pool_regular_bags,
    close_last_bags,
    shape_bags,
    share_common_nodes,
)
_REVEAL_NOTHING = {remove_no_ops, share_common_nodes}
"""Steps after which inference can't find more shapes than before."""
_MAX_ROUNDS = 64


class Canonicalize(Pass):
    """One form for what the two exporters and the libraries write differently.

    1. Input dimensions that joins need to be equal get one symbol.
    2. Constant nodes become initializers; nodes of small constants are folded. Tables and external data are never read.
    3. Shapes computed at run time become constants, as far as only one dimension is unknown.
    4. An If whose condition follows is replaced by its branch.
    5. Casts, views, Expand, Slice, Dropout, `x + 0`, `x * 1` without effect go.
    6. An Einsum that is a matrix product becomes one, and products written for column vectors become those of rows.
       Parts of an axis that are stacked, such as attention's heads, are a view and a Transpose.
    7. Elementwise nodes between a Transpose and its opposite are computed without either. Whatever else has the batch
       behind another axis, such as attention written sequence first, is computed with the batch in front.
    8. Elements that are picked behind a batch axis which is moved away for it are picked where they are.
    9. A matrix that is split after it was laid out flat is picked from by row.
    10. A loop over bags of rows that are all equally long becomes a Gather and a reduction; of others, the last bag
        ends as the others do, and the result gets a shape.
    11. Repeated nodes are computed once.

    Left alone: nodes that give a graph's output, random operators, and whatever would make the file grow.
    """

    name = "canonicalize"
    ensures = (*SOUND, constants_are_initializers)

    def run(self, bench: Workbench) -> PassReport:
        report = PassReport(self.name)
        bench.tidy()
        revealed = True
        for _ in range(_MAX_ROUNDS):
            if revealed:
                bench.infer_shapes()
            changed = {step for step in _STEPS if step(bench, report.changes)}
            if not changed:
                break
            revealed = not changed <= _REVEAL_NOTHING
            bench.tidy()
        return report
