"""The papers' whole TIMIT job on one GPU: feature selection, then training to the end of its schedule."""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Generator

from benchmarks.ceilings import ceilings, shown
from benchmarks.step_problem import TIMIT, make_problem
from bochner.adaptation.selection import select_features
from bochner.data import ArraySource
from bochner.features import FourierMap
from bochner.kernels import Gaussian
from bochner.models.heads import FeatureModel, LinearHead
from bochner.solvers.optimizers import SGDSettings
from bochner.solvers.sgd import train

HELDOUT = 100_000
QUICK = replace(TIMIT, num_features=2048, num_rows=20_000)


def main() -> None:
    options = _parser().parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    shape = QUICK if options.quick else TIMIT
    rows, heldout = (shape.num_rows, HELDOUT) if not options.quick else (shape.num_rows, 2000)
    epochs = 2 if options.quick else 100
    recipe = SGDSettings(learning_rate=shape.rate, precision=options.precision, max_epochs=epochs)
    print("ceilings:", shown(ceilings(device, size=512 if options.quick else None)), flush=True)
    problem = make_problem(shape, num_rows=rows + heldout, device=device)
    X, y = problem.X.cpu(), problem.y.cpu()  # rows in host memory, as for a user
    del problem
    source, heldout_source = ArraySource(X[:rows], y[:rows]), ArraySource(X[rows:], y[rows:])
    generator = Generator(device).manual_seed(0)
    kernel = Gaussian(bandwidth=(2 * shape.num_inputs) ** 0.5)

    def draw(num_features: int, generator: Generator) -> FourierMap:
        return FourierMap.draw(kernel, num_inputs=shape.num_inputs, num_features=num_features, generator=generator)

    def make_head(num_features: int, generator: Generator) -> LinearHead:
        return LinearHead.zeros(num_features=num_features, num_outputs=shape.num_classes).to(device)

    begin = time.perf_counter()
    chosen = select_features(
        draw, make_head, source, recipe,
        num_features=shape.num_features, rounds=options.rounds, rows_per_round=options.rows,
        generator=generator, verbose=False,
    )  # fmt: skip
    middle = time.perf_counter()
    model = FeatureModel(chosen.feature_map, make_head(shape.num_features, generator)).to(device)
    history = train(model, source, heldout_source, recipe, verbose=False, callbacks=[_say])
    end = time.perf_counter()
    record: dict[str, Any] = {
        "precision": recipe.precision,
        "rounds": options.rounds,
        "rows_per_round": options.rows,
        "selection_seconds": middle - begin,
        "training_seconds": end - middle,
        "seconds": end - begin,
        "epochs": len(history),
        "ce": history[-1]["ce"],
        "history": history,
    }
    print(json.dumps({name: value for name, value in record.items() if name != "history"}, indent=1), flush=True)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(record, indent=1) + "\n")


def _say(record: dict[str, Any]) -> None:
    print(f"epoch {record['epoch']:3} rate {record['rate']:.3g} CE {record['ce']:.4f} {record['decision']}", flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="tiny sizes, for a smoke test")
    parser.add_argument("--rounds", type=int, default=50, help="T of the selection")
    parser.add_argument("--rows", type=int, default=2_000_000, help="R of the selection: rows per round")
    parser.add_argument("--precision", default="bf16")
    parser.add_argument("--out", type=Path, default=Path("out/benchmarks/job.json"))
    return parser


if __name__ == "__main__":
    main()
