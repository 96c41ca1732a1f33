"""Train on a million rows that stay on disk, within a budget of memory.

The rows are made here, a piece at a time; yours would come from a Parquet, CSV, LIBSVM or NumPy file by the same
`open_source`. Run `python examples/million_rows.py --rows 1000000`.
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


def made_rows(count: int, *, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Pieces of X [n, 8] and y [n]: which of three shells around the origin a point is in, by four of its inputs."""
    rng = np.random.default_rng(seed)
    for start in range(0, count, PIECE):
        X = rng.standard_normal((min(PIECE, count - start), NUM_INPUTS), dtype=np.float32)
        yield X, np.digitize(np.linalg.norm(X[:, :4], axis=1), [1.5, 2.2])


def main(*, rows: int = 1_000_000, num_features: int = 512, memory_budget: str = "200MB") -> None:
    """Args:
    rows: Training rows.
    num_features: Random features.
    memory_budget: What a fit may take beside the data.
    """
    with tempfile.TemporaryDirectory() as folder:
        cache_to_disk(made_rows(rows, seed=0), Path(folder, "train"))
        cache_to_disk(made_rows(rows // 10, seed=1), Path(folder, "test"))
        train, test = (open_source(Path(folder, part)) for part in ("train", "test"))
        print(f"{sum(train.shard_sizes):,} rows in {len(train.shard_sizes)} shards")
        model = KernelClassifier(
            n_components=num_features, random_state=0, solver_params={"memory_budget": memory_budget, "max_epochs": 2}
        )
        model.fit(train)
        truth = np.concatenate([test.read(shard).y.numpy() for shard in range(len(test.shard_sizes))])
        print(f"solver {model.solver_}, test accuracy {np.mean(model.predict(test) == truth):.4f}")
    print(f"at most {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MiB of memory, libraries included")


if __name__ == "__main__":
    auto_cli(main)
