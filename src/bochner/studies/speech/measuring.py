"""What is measured of a model: heldout metrics, and the token error rate on dev."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean

from bochner.acoustic.contest import ACOUSTIC, Contest
from bochner.acoustic.model import MODULE
from bochner.acoustic.results import Row
from bochner.acoustic.run import results_of
from bochner.models.criteria import Criterion
from bochner.solvers.step import evaluate
from bochner.storage import load
from bochner.studies.ledger import Result
from bochner.studies.speech.cells import NETWORK, BestCell, Cell, all_cells
from bochner.studies.speech.metrics import HELDOUT, METRICS
from bochner.studies.speech.models import settings_of
from bochner.studies.study import with_seeds


def measure(cell: Cell, contest: Contest) -> Result:
    """Train, measure on heldout frames, decode dev."""
    row = contest.model(settings_of(cell, contest), cell.seed)
    return {
        **{name: row.heldout[name] for name in HELDOUT},
        "ter": row.dev["ter"],
        "metrics": metrics_of(row, contest),
        "num_states": contest.aligned.num_states,
        "seconds": row.seconds,
    }


def metrics_of(row: Row, contest: Contest) -> dict[str, float]:
    """The heldout metrics that might have driven the training, by name."""
    module = load(contest.stages.root / row.folder / ACOUSTIC / MODULE, device=contest.device)
    scores = evaluate(module, contest.heldout, loss="softmax")
    return {name: Criterion.parse(name).of(scores) for name in METRICS}


def measure_best(cell: BestCell, contest: Contest) -> Result:
    """The least value of each metric over the ablation's models of the kind, as in the papers' table of the best.

    The model of least error on dev alone reads test. Values are means over seeds.
    """
    rows = [contest.model(settings_of(one, contest), one.seed) for one in _ablation(cell)]
    chosen = [contest.tested(row) for row in results_of(contest.recipe, contest.aligned, rows).chosen(cell.kind)]
    tested = [row.test for row in chosen if row.test]
    return {name: _least(rows, lambda row, name=name: row.heldout[name]) for name in HELDOUT} | {
        "ter": _least(rows, lambda row: row.dev["ter"]),
        "test_ter": fmean(one["ter"] for one in tested),
        "tokens": tested[0]["tokens"],
        "model": chosen[0].model,
        "models": len({row.model for row in rows}),
    }


def _ablation(cell: BestCell) -> list[Cell]:
    kind = [
        one for one in all_cells(cell.effort)
        if one.data == cell.data and (one.model == NETWORK) == (cell.kind == NETWORK)
    ]  # fmt: skip
    return with_seeds(kind, cell.seeds)


def _least(rows: Sequence[Row], value: Callable[..., float]) -> float:
    """Over models, of the mean over seeds."""
    found: dict[str, list[float]] = {}
    for row in rows:
        found.setdefault(row.model, []).append(value(row))
    return min(map(fmean, found.values()))
