# %% [markdown]
# # A custom kernel
#
# The rational quadratic kernel k(x, y) = (1 + ||x - y||^2 / 2 b^2)^-1 as a class of values and frequencies. It can
# then be used wherever a kernel can. `docs/kernels.md` explains each part.

# %%
import torch
from sklearn.datasets import load_digits
from torch import Generator, Tensor

from bochner import KernelClassifier
from bochner.features import FourierMap
from bochner.kernels import Stationary
from bochner.ops import squared_distances


class RationalQuadratic(Stationary):
    """k(x, y) = 1 / (1 + ||x - y||^2 / 2 b^2), b = bandwidth; frequencies sqrt(Exponential(1)) Normal(0, I) / b."""

    isotropic = True

    def _evaluate(self, U: Tensor, V: Tensor) -> Tensor:
        return 1 / (1 + squared_distances(U, V) / (2 * self.bandwidth**2))

    def _temporaries(self) -> int:
        return 2

    def num_uniforms(self, num_inputs: int) -> int:
        return num_inputs + 1

    def frequencies(self, uniforms: Tensor, num_inputs: int) -> Tensor:
        gamma = -uniforms[:, num_inputs].log()
        return torch.special.ndtri(uniforms[:, :num_inputs]).T * gamma.sqrt() / self.bandwidth


# %% [markdown]
# ## Check
#
# By Bochner's theorem random features reproduce the kernel.

# %%
X = torch.randn(50, 4, generator=Generator().manual_seed(0))
kernel = RationalQuadratic(bandwidth=2.0)
z = FourierMap.draw(kernel, num_inputs=4, num_features=20_000, generator=Generator().manual_seed(0))
print(f"largest error of 20,000 features: {float((z.approximate(X, X) - kernel(X)).abs().max()):.3f}")

# %% [markdown]
# ## Use

# %%
digits, labels = load_digits(return_X_y=True)
model = KernelClassifier(
    preset=None, kernel=RationalQuadratic(), bandwidth="median", n_components=512, solver="sgd", random_state=0
)
model.fit(digits[:1297], labels[:1297])
print(f"{model.kernel_}, test accuracy {model.score(digits[1297:], labels[1297:]):.3f}")
