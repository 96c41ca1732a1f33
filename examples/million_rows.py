# %% [markdown]
# # A million rows from Parquet
#
# The rows stay on disk: `open_source` reads Parquet files (and CSV, Arrow, LIBSVM and NumPy files) a shard at a time,
# and `memory_budget` bounds the memory of the fit.

# %%
import os
import resource
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bochner import KernelClassifier
from bochner.data import open_source

ROWS = int(os.environ.get("ROWS", "1_000_000"))
NUM_INPUTS, PIECE = 8, 8192

# %% [markdown]
# ## Data
#
# The class of a point is one of three shells around the origin, by four of its eight inputs. Row groups of about 8,192
# rows suit random access.


# %%
def write_rows(path: Path, count: int, *, seed: int) -> None:
    rng, writer = np.random.default_rng(seed), None
    for start in range(0, count, PIECE):
        X = rng.standard_normal((min(PIECE, count - start), NUM_INPUTS), dtype=np.float32)
        shell = np.digitize(np.linalg.norm(X[:, :4], axis=1), [1.5, 2.2])
        table = pa.table({**{f"x{i}": X[:, i] for i in range(NUM_INPUTS)}, "shell": shell})
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table, row_group_size=PIECE)
    writer.close()


directory = tempfile.TemporaryDirectory()
train_path, test_path = (Path(directory.name, f"{part}.parquet") for part in ("train", "test"))
write_rows(train_path, ROWS, seed=0)
write_rows(test_path, ROWS // 10, seed=1)

# %% [markdown]
# ## Fit
#
# A search takes more memory than this budget, hence `preset=None`.

# %%
train, test = (open_source(path, target="shell") for path in (train_path, test_path))
print(f"{sum(train.shard_sizes):,} rows in {len(train.shard_sizes)} shards")
model = KernelClassifier(
    preset=None, n_components=512, random_state=0, solver_params={"memory_budget": "200MB", "max_epochs": 2}
)
model.fit(train)

# %%
truth = np.concatenate([test.read(shard).y.numpy() for shard in range(len(test.shard_sizes))])
print(f"solver {model.solver_}, test accuracy {np.mean(model.predict(test) == truth):.4f}")
print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MiB, libraries included")
directory.cleanup()
