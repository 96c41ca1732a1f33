"""A model: a feature map and a head on it."""

from __future__ import annotations

from torch import Tensor

from bochner.features import FeatureMap
from bochner.learn.heads import Head
from bochner.storage import Storable


class FeatureModel(Storable):
    """logits(x) = head(z(x)), with z computed on the fly and never stored for the whole set.

    >>> import torch
    >>> from bochner.features import FourierMap
    >>> from bochner.kernels import Gaussian
    >>> from bochner.learn.heads import LinearHead
    >>> z = FourierMap.draw(Gaussian(), num_inputs=3, num_features=64, generator=torch.Generator().manual_seed(0))
    >>> FeatureModel(z, LinearHead.zeros(num_features=64, num_outputs=5))(torch.ones(2, 3)).shape
    torch.Size([2, 5])
    """

    def __init__(self, feature_map: FeatureMap, head: Head) -> None:
        super().__init__()
        self.feature_map = feature_map
        self.head = head

    def forward(self, X: Tensor) -> Tensor:
        return self.head(self.feature_map(X))
