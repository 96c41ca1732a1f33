"""Rows of every study without measuring: real cells with synthetic results in which every finding holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from bochner.studies.operation_counts import MEMORY, TIME
from bochner.studies.speech_cells import METRICS
from bochner.studies.study import Row, Study, with_seeds

EVEN = [1 / 21] * 21
SEEDS = (0, 1, 2)
EXACT = ("kernel_spectra", "nystrom_theorems", "operation_counts")  # the same for all seeds


def nystrom_rff(cell: Any) -> Row:
    """Ten times the error for RFF, falling as 1 / D; heldout error falls with D, a little lower for Nystrom maps."""
    is_rff, D = cell.map == "rff", cell.num_features
    mse = {"rff": 1.0, "nystrom": 0.1, "k-means nystrom": 0.05}[cell.map] / D
    bias = 0.001 * (-1) ** cell.seed if is_rff else 0.01 + 0.001 * cell.seed
    kinds = {"mse": mse, "bias": bias, "variance": mse, "outliers": 0.0 if is_rff else 0.1}
    row = {prefix + name: value for prefix in ("", "small_", "large_") for name, value in kinds.items()}
    joined = mse if is_rff else 1 / D
    row |= {f"power_{power}": joined ** (power / 2) for power in (2.5, 3.5, 5.5)}
    row |= {"small_histogram": EVEN, "large_histogram": EVEN, "norm_histogram": [1 / 40] * 40}
    norm = 1.01 if is_rff else 1 - 4 / D
    return row | {
        "large_variance": 2 * mse, "norm": norm, "norm_spread": 0.1, "norm_max": norm,
        "memory": D * (10 if is_rff else 10 + D),
        "performance": D**-0.5 * (1 if is_rff else 1 - 4 / D), "loss": 0.5 + 1 / D, "num_pairs": 10, "large_share": 0.5,
    }  # fmt: skip


def spectra(cell: Any) -> Row:
    return {"places": [1, 10, 100], "eigenvalues": [0.5, 0.1, 0.01], "head_ratio": 5.0, "tail_share": 0.2}


def theorems(cell: Any) -> Row:
    return {"left": 1.0, "right": 0.5, "holds": True}


def map_error(cell: Any) -> Row:
    return {
        "family": "Nystrom",
        "kernel": "gaussian",
        "error": (0.5 if cell.map == "orthogonal" else 1) / cell.num_features,
    }


def feature_selection(cell: Any) -> Row:
    gain = {"none": 0.0, "algorithm 1": 0.2, "fobos": 0.1, "sparse random features": 0.1}[cell.selection] * (
        0.5 if cell.kernel == "gaussian" else 1
    )
    losses = {"ce": 1 - gain, "ce_spread": 0.01, "err": 0.3, "err_spread": 0.01, "test_ce": 1.0, "test_err": 0.3}
    means = {"survival": [0.5] * 7, "input_weights": [2.0, 0.5, 0.5]}
    values = {"ce": 1 - gain, **means}
    losses["per_seed"] = {name: [value] * len(cell.seeds) for name, value in values.items()}
    return losses | means | {"num_features": 64, "tuned": [1, 1, 1]}


def lowrank(cell: Any) -> Row:
    place = ("svd", "als", "nystrom", "standard kmeans-nystrom", "meka", "fourier").index(_method(cell.method)) + 1
    row = {
        "spectral": (9 + place) / (cell.rank or 1),
        "seconds": 10 - place,
        "parameters": cell.rank,
        "condition_number": 9.0,
    }
    return row | {
        "stable_rank": 1 / cell.bandwidth,
        "multiple": cell.bandwidth,
        "rmse": 1.0,
        "train_rmse": 1.0,
        "test_rmse": 1.0,
    }


def _method(name: str) -> str:
    if name.startswith("als"):
        return "fourier" if name == "als from random" else "als"
    return name if name in ("svd", "standard kmeans-nystrom", "meka", "fourier") else "nystrom"


def adapted_bases(cell: Any) -> Row:
    place = ("random", "unsupervised", "discriminative", "supervised").index(cell.basis)
    accuracy = 0.9 + 0.01 * place / cell.num_features
    row = {"kernel_error": 0.1 / (1 + place), "alignment": 0.5, "heldout_accuracy": accuracy, "accuracy": accuracy}
    return row | {"transfer_accuracy": accuracy, "epochs": 2, "seconds": 1.0}


def speech(cell: Any) -> Row:
    """The cross-entropy is negatively correlated with the error rate, its sum with the entropy positively."""
    ter = 0.3 - 0.02 * cell.bottleneck - 0.01 * (cell.criterion != "ce") - 0.001 * cell.num_features**0.25
    ter -= {"laplacian": 0.02, "gaussian": 0.001, "sparse-gaussian": 0.005, "network": 0.0}[cell.model] * cell.selection
    ter += 0.01 * abs(cell.depth - 4) * (cell.model == "network")
    metrics = dict.fromkeys(METRICS, 1 - ter) | dict.fromkeys(("erll:1", "capped:0.1", "topk:0.9"), 10 * ter)
    row = {"ce": 1 - ter, "ent": 11 * ter - 1, "erll": 10 * ter, "err": 0.3, "ter": ter}
    perplexity = 5.0 if cell.model == "network" else 4.0
    row |= {"perplexity": perplexity, "perplexity_silence_collapsed": perplexity - 1}
    return row | {"metrics": metrics, "num_states": 100, "seconds": 1.0}


def speech_best(cell: Any) -> Row:
    error = 0.204 if cell.kind == "kernel" else 0.205
    row = {"ce": 1.0, "ent": 0.5, "erll": 1.5, "err": 0.3, "ter": error, "test_ter": error, "tokens": 700_000}
    return row | {"model": f"{cell.kind} of choice", "models": 12}


def speech_bottleneck(cell: Any) -> Row:
    return {"ce": 1.0, "ent": 0.5, "erll": 1.5, "err": 0.3, "ter": 0.3 if cell.rank is None else 0.29, "seconds": 1.0}


def speech_tasks(cell: Any) -> Row:
    system = {"test_ter": 0.2, "spread": 0.01, "seeds": 3, "ter": 0.2, "model": "of choice", "tried": 2, "seconds": 9.0}
    difference = (-0.01, -0.02, 0.001)
    return {
        "systems": dict.fromkeys(("kernel", "network", "combination"), system) | {"gmm": {**system, "seeds": 1}},
        "differences": dict.fromkeys(("kernel", "combination", "gmm"), difference), "test_tokens": 7_000, "budget": 1.0,
    }  # fmt: skip


def operation_counts(cell: Any) -> Row:
    time, memory = TIME[cell.method](cell), MEMORY[cell.method](cell)
    return {"operations": 2 * time, "stored": memory, "time_formula": time, "memory_formula": memory}


MADE = {
    "nystrom_rff": nystrom_rff, "kernel_spectra": spectra, "nystrom_theorems": theorems, "map_error": map_error,
    "feature_selection": feature_selection, "lowrank": lowrank, "adapted_bases": adapted_bases,
    "speech": speech, "speech_best": speech_best, "speech_bottleneck": speech_bottleneck,
    "speech_tasks": speech_tasks, "operation_counts": operation_counts,
}  # fmt: skip


def some_cells(study: Study) -> Sequence[Any]:
    """The cells of size smoke, or of one set at size small if smoke has too few kinds for a finding; three seeds."""
    cells = study.cells("smoke")
    if not cells or study.results == "feature_selection":
        small = study.cells("small")
        cells = [cell for cell in small if cell.data == small[0].data]
    return cells if study.results in EXACT else with_seeds(cells, SEEDS)


def made_rows(study: Study) -> list[Row]:
    return [{**MADE[study.results](cell), **asdict(cell)} for cell in some_cells(study)]
