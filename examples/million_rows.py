"""Train on a million rows that stay on disk, within a memory budget.

The rows are generated here, a piece at a time; `open_source` reads Parquet, CSV, LIBSVM and NumPy files in the same
way. Run `python examples/million_rows.py --rows 1000000`.
"""

import resource
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from jsonargparse import auto_cli

from bochner import KernelClassifier
from bochner.data import cache_to_disk, open_source

PIECE = 50_000
NUM_INPUTS = 8


def generate_rows(count: int, *, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Pieces of X [n, 8] and y [n]: which of three shells around the origin a point is in, by four of its inputs."""
    rng = np.random.default_rng(seed)
    for start in range(0, count, PIECE):
        X = rng.standard_normal((min(PIECE, count - start), NUM_INPUTS), dtype=np.float32)
        yield X, np.digitize(np.linalg.norm(X[:, :4], axis=1), [1.5, 2.2])


def main(*, rows: int = 1_000_000, n_components: int = 512, memory_budget: str = "200MB") -> None:
    """Args:
    rows: Number of training rows.
    n_components: Number of random features.
    memory_budget: Memory that a fit may allocate besides the data.
    """
    with tempfile.TemporaryDirectory() as directory:
        cache_to_disk(generate_rows(rows, seed=0), Path(directory, "train"))
        cache_to_disk(generate_rows(rows // 10, seed=1), Path(directory, "test"))
        train, test = (open_source(Path(directory, part)) for part in ("train", "test"))
        print(f"{sum(train.shard_sizes):,} rows in {len(train.shard_sizes)} shards")
        model = KernelClassifier(
            preset=None,  # a search takes more memory than this budget
            n_components=n_components,
            random_state=0,
            solver_params={"memory_budget": memory_budget, "max_epochs": 2},
        )
        model.fit(train)
        truth = np.concatenate([test.read(shard).y.numpy() for shard in range(len(test.shard_sizes))])
        print(f"solver {model.solver_}, test accuracy {np.mean(model.predict(test) == truth):.4f}")
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MiB, libraries included")


if __name__ == "__main__":
    auto_cli(main)
