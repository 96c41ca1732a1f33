"""Input transformations of kernel models: standardised values, normal scores, both, or robust values."""

from __future__ import annotations

from typing import Self

import torch
from torch import Tensor, nn

from bochner import checks
from bochner.storage import Storable

TRANSFORMS = ["standard", "normal", "both", "robust"]
# Quantiles that normal scores interpolate between. The error of a normal score is then below 0.02 except in the last
# half per cent of each tail, where scores of a sample are uncertain by more than that.
NUM_KNOTS = 257
# Standardised values are bounded, so that one outlier at prediction time does not leave the range of the data.
MAX_STANDARD = 20.0
# The robust transformation is t / sqrt(1 + (t / 3)^2): the identity near 0, bounded by 3.
ROBUST_BOUND = 3.0
NORMAL_IQR = 1.349  # interquartile range of N(0, 1)


class InputTransform(Storable):
    """x -> z, column by column: the inputs that a kernel sees.

    "standard": (x - mean) / std, within +-20. "normal": normal scores, the quantile of x mapped to that of N(0, 1), by
    linear interpolation between 257 quantiles. "both": these two side by side. "robust": t = (x - median) / (IQR /
    1.349), smoothly bounded by 3. Two-valued columns are only centred: for a one-hot column a change of level then
    counts as much as a typical difference of a standardised number, whatever the frequency of the level.

    `kind` is one of TRANSFORMS; `center` and `scale` [d]; `binary` [d] marks two-valued columns; `knots` and `values`
    [k, d] are the quantiles and their scores ("normal" and "both" only).

    >>> X = torch.tensor([[1.0, 0.0], [2.0, 1.0], [30.0, 0.0]])
    >>> InputTransform.fit("normal", X)(X)[:, 0]
    tensor([-0.9674,  0.0000,  0.9674])
    """

    center: Tensor
    scale: Tensor
    binary: Tensor
    knots: Tensor | None
    values: Tensor | None

    def __init__(
        self,
        kind: str,
        center: Tensor,
        scale: Tensor,
        binary: Tensor,
        knots: Tensor | None = None,
        values: Tensor | None = None,
    ) -> None:
        super().__init__()
        checks.one_of("kind", kind, TRANSFORMS)
        self.kind = kind
        shape = center.shape
        if center.ndim != 1 or scale.shape != shape or binary.shape != shape or binary.dtype != torch.bool:
            raise ValueError("center, scale and binary must be vectors with one entry per input.")
        if not bool((scale > 0).all()):
            raise ValueError("scale must be positive.")
        needs_knots = kind in ("normal", "both")
        if needs_knots != (knots is not None) or needs_knots != (values is not None):
            raise ValueError(f"knots and values must be {'given' if needs_knots else 'None'} for kind {kind!r}.")
        if knots is not None and values is not None:
            expected = (len(knots), *shape)
            if knots.shape != expected or values.shape != expected or len(knots) < 2:
                raise ValueError(f"knots and values must have shape [k, {shape[0]}] with k > 1.")
            if bool((knots.diff(dim=0) < 0).any()):
                raise ValueError("knots must not decrease.")
        for name, value in (("center", center), ("scale", scale), ("knots", knots), ("values", values)):
            self.register_buffer(name, value if value is None else checks.finite(name, value))
        self.register_buffer("binary", binary)

    @classmethod
    def fit(cls, kind: str, X: Tensor, binary: Tensor | None = None) -> Self:
        """The transformation for data like X [n, d]; `binary` [d] is determined from X unless given."""
        checks.one_of("kind", kind, TRANSFORMS)
        X = X.double()
        if binary is None:
            binary = ((X.amin(dim=0) == X) | (X.amax(dim=0) == X)).all(dim=0)
        ordered = X.sort(dim=0).values
        quartiles = ordered[_positions(len(X), 5)]
        std = X.std(dim=0, correction=0)
        std = torch.where(std > 1e-7 * X.abs().amax(dim=0), std, 1.0)  # rounding of a constant column is not spread
        if kind == "robust":
            center, width = quartiles[2], (quartiles[3] - quartiles[1]) / NORMAL_IQR
            scale = torch.where(width > 0, width, std)
        else:
            center, scale = X.mean(dim=0), std
        center, scale = torch.where(binary, X.mean(dim=0), center), torch.where(binary, _range(X), scale)
        knots = values = None
        if kind in ("normal", "both"):
            knots = ordered[_positions(len(X), NUM_KNOTS)]
            low = torch.searchsorted(ordered.T.contiguous(), knots.T.contiguous(), right=False)
            high = torch.searchsorted(ordered.T.contiguous(), knots.T.contiguous(), right=True)
            values = torch.special.ndtri((low + high).double().T / (2 * len(X)))
        return cls(kind, center, scale, binary, knots, values)

    @property
    def num_outputs(self) -> int:
        return len(self.center) + (int((~self.binary).sum()) if self.kind == "both" else 0)

    @property
    def sources(self) -> Tensor:
        """The input column of each output column."""
        columns = torch.arange(len(self.center), device=self.binary.device)
        return torch.cat([columns, columns[~self.binary]]) if self.kind == "both" else columns

    def forward(self, X: Tensor) -> Tensor:
        """z [n, num_outputs] for X [n, d], computed in at least X's precision."""
        checks.inputs("X", X, width=len(self.center))
        # differences of large numbers with little spread, such as years or coordinates, need float64
        z = ((X.double() - self.center) / self.scale).to(X.dtype)
        if self.kind == "robust":
            bounded = z / (1 + (z / ROBUST_BOUND).square()).sqrt()
        elif self.kind == "standard":
            bounded = z.clamp(-MAX_STANDARD, MAX_STANDARD)
        else:
            scores = self._normal_scores(X)
            if self.kind == "both":
                return torch.cat([z.clamp(-MAX_STANDARD, MAX_STANDARD), scores[:, ~self.binary]], dim=1)
            bounded = scores
        return torch.where(self.binary, z, bounded)

    def _normal_scores(self, X: Tensor) -> Tensor:
        assert self.knots is not None and self.values is not None
        knots, values = self.knots.T.contiguous(), self.values.T.contiguous()
        x = X.T.double().contiguous()
        right = torch.searchsorted(knots, x, right=True).clamp(1, knots.shape[1] - 1)
        left_knot, right_knot = knots.gather(1, right - 1), knots.gather(1, right)
        left_value, right_value = values.gather(1, right - 1), values.gather(1, right)
        width = right_knot - left_knot
        share = torch.where(width > 0, (x - left_knot) / torch.where(width > 0, width, 1.0), (x >= right_knot).double())
        return (left_value + (right_value - left_value) * share.clamp(0, 1)).T.to(X.dtype)


class TransformedModel(Storable):
    """f(T(x)): a model of transformed inputs."""

    def __init__(self, transform: InputTransform, model: nn.Module) -> None:
        super().__init__()
        self.transform, self.model = transform, model

    def forward(self, X: Tensor) -> Tensor:
        return self.model(self.transform(X))


def _positions(num_rows: int, count: int) -> Tensor:
    """Ranks of `count` evenly spaced quantiles among `num_rows` ordered rows."""
    return torch.linspace(0, num_rows - 1, count, dtype=torch.float64).round().long()


def _range(X: Tensor) -> Tensor:
    width = X.amax(dim=0) - X.amin(dim=0)
    return torch.where(width > 0, width, 1.0)
