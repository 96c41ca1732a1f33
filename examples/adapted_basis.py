# %% [markdown]
# # Adapted instead of random features
#
# The parameters of a Fourier map are optimised for the kernel (UAB), for alignment with the classes (SAB) or for the
# loss (DAB), at the same number of features.

# %%
import torch
from sklearn.datasets import load_digits
from sklearn.linear_model import RidgeClassifier
from torch import Generator

from bochner.adaptation import BasisSettings, adapt
from bochner.data import ArraySource
from bochner.features import FourierMap
from bochner.kernels import Gaussian

digits = load_digits()
X, y = torch.tensor(digits.data, dtype=torch.float32), torch.tensor(digits.target)
train, test = slice(0, 1297), slice(1297, None)

# %%
kernel = Gaussian().with_bandwidth("median", X[train])
random = FourierMap.draw(kernel, num_inputs=64, num_features=16, form="cosine", generator=Generator().manual_seed(0))
settings = BasisSettings(batches=100, validation_batches=10, max_epochs=2, learning_rate=0.02, seed=0)
bases = {"random": random}
for objective in ("kernel", "alignment", "loss"):
    bases[objective] = adapt(
        random, ArraySource(X[train], y[train]), objective=objective, settings=settings, verbose=False
    )

# %%
for name, basis in bases.items():
    Z = basis(X)
    accuracy = RidgeClassifier(alpha=0.01).fit(Z[train], y[train]).score(Z[test], y[test])
    error = float((basis.approximate(X[test], X[test]) - basis.kernel(X[test])).square().mean().sqrt())
    print(f"{name:10} test accuracy {accuracy:.3f}   kernel error {error:.4f}")
