# %% [markdown]
# # Train in several processes
#
# Each process makes the same calls and takes its share of every batch; the model equals that of one process. Start it
# by `torchrun --standalone --nproc-per-node 2 examples/distributed_training.py`. As a plain script it is one process.

# %%
import logging
import os

import numpy as np

from bochner import KernelClassifier
from bochner.solvers.parallel import joined

logging.getLogger("bochner").setLevel(logging.WARNING)
rng = np.random.default_rng(0)
X = rng.standard_normal((2000, 8), dtype=np.float32)
y = np.digitize(np.linalg.norm(X[:, :4], axis=1), [1.5, 2.2])

# %% [markdown]
# ## Fit
#
# `joined(feature_parallel=2)` would divide the features instead of the rows, for models that exceed one GPU.

# %%
with joined() as group:
    model = KernelClassifier(
        preset=None, solver="sgd", n_components=256, random_state=0, solver_params={"max_epochs": 2, "batch_size": 100}
    ).fit(X, y, group=group)
    if os.environ.get("RANK", "0") == "0":  # torchrun sets the environment of each process
        print(f"{os.environ.get('WORLD_SIZE', 1)} processes, training accuracy {model.score(X, y):.4f}")
