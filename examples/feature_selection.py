# %% [markdown]
# # Random feature selection
#
# Algorithm 1 of May et al. 2019 draws many random features, trains on them and keeps those with large weights. It helps
# if few inputs matter and features depend on few inputs, as for the Laplacian kernel.

# %%
import numpy as np

from bochner import KernelClassifier
from bochner.adaptation.selection import input_weights

rng = np.random.default_rng(0)
X = rng.standard_normal((4000, 10)).astype(np.float32)
y = (X[:, 0] * X[:, 1] > 0).astype(int)  # eight of the ten inputs are noise

# %% [markdown]
# ## With and without selection, at the same number of features

# %%
models = {
    rounds: KernelClassifier(
        preset=None,
        kernel="laplacian",
        selection=rounds,
        n_components=256,
        solver="sgd",
        solver_params={"max_epochs": 5},
        random_state=0,
    ).fit(X[:3000], y[:3000])
    for rounds in (None, 10)
}
for rounds, model in models.items():
    print(f"selection={rounds}: test accuracy {model.score(X[3000:], y[3000:]):.3f}")

# %% [markdown]
# ## Which inputs the selected features use
#
# Weights have mean 1; the two inputs that matter come first.

# %%
weights = input_weights(models[10].model_.feature_map, drop_largest=True)
top = weights.topk(2)
shown = [round(weight, 2) for weight in top.values.tolist()]
print(f"inputs with the largest weights: {sorted(top.indices.tolist())}, weights {shown}")
