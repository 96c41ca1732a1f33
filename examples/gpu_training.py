# %% [markdown]
# # Train on a GPU
#
# `device="auto"`, the default, uses a GPU if there is one. On NVIDIA GPUs `precision="bf16"` runs the fused training
# step with float32 weights; a set that fits stays on the GPU.

# %%
import time

import numpy as np
import torch

from bochner import KernelClassifier

on_gpu = torch.cuda.is_available()
num_rows, num_features = (1_000_000, 50_000) if on_gpu else (5_000, 512)
rng = np.random.default_rng(0)
X = rng.standard_normal((num_rows, 8), dtype=np.float32)
y = np.digitize(np.linalg.norm(X[:, :4], axis=1), [1.5, 2.2])

# %%
model = KernelClassifier(
    preset=None,
    solver="sgd",
    n_components=num_features,
    random_state=0,
    solver_params={
        "device": "cuda" if on_gpu else "cpu",
        "precision": "bf16" if on_gpu else "float32",
        "max_epochs": 3,
    },
)
start = time.perf_counter()
model.fit(X, y)
seconds = time.perf_counter() - start

# %%
test = rng.standard_normal((2000, 8), dtype=np.float32)
truth = np.digitize(np.linalg.norm(test[:, :4], axis=1), [1.5, 2.2])
name = torch.cuda.get_device_name() if on_gpu else "CPU"
print(f"{name}: {len(model.history_)} epochs of {num_rows:,} rows and {num_features:,} features in {seconds:.1f} s")
print(f"test accuracy {model.score(test, truth):.3f}")
