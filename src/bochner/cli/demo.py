"""`bochner demo`: the feature maps at work."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from bochner import checks
from bochner.studies import map_error


def demo(output_dir: Path = Path("out"), num_seeds: int = 3) -> None:
    """Measure the kernel error of every feature map on scikit-learn's digits; print a table, draw a plot.

    Example:

        bochner demo --output_dir out --num_seeds 3

    Args:
        output_dir: Folder for map_error.png and map_error.json.
        num_seeds: Seeds that each figure is averaged over.
    """
    checks.positive_int("num_seeds", num_seeds)
    rows = map_error.run(seeds=range(num_seeds))
    output_dir.mkdir(parents=True, exist_ok=True)
    (output_dir / "map_error.json").write_text(json.dumps([asdict(row) for row in rows], indent=1))
    map_error.plot(rows, output_dir / "map_error.png")
    print(f"\n{map_error.table(rows)}\n\n{map_error.PROTOCOL} 0..{num_seeds - 1}")
    print(f"Plot: {output_dir / 'map_error.png'}   Numbers: {output_dir / 'map_error.json'}")
