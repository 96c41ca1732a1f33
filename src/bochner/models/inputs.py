"""Input transformations of kernel models: standardised values, normal scores, both, or robust values."""

from __future__ import annotations

from typing import Self

import torch
from torch import Tensor, nn

from bochner import checks
from bochner.ops import row_tiles
from bochner.storage import Storable

TRANSFORMS = ["standard", "normal", "both", "robust"]
# Quantiles that normal scores interpolate between, evenly spaced in scores: for 100,000 rows two of them are 0.017
# apart, which bounds the error of a score by 0.04 whatever the distribution of the column, also in its tails.
NUM_KNOTS = 512  # a power of 2, of which a bisection in an ONNX graph makes full use
# Standardised values are bounded, so that one outlier at prediction time does not leave the range of the data.
MAX_STANDARD = 20.0
# The robust transformation is t / sqrt(1 + (t / 3)^2): the identity near 0, bounded by 3.
ROBUST_BOUND = 3.0
MAX_ROBUST = 1e6  # larger t give 3 to all digits, and their squares overflow in float32
NORMAL_IQR = 1.349  # interquartile range of N(0, 1)
# Numbers in one block of rows: the temporaries of a block, in float64, stay in a CPU's cache.
BLOCK_ELEMENTS = 2**16


class InputTransform(Storable):
    """x -> z, column by column: the inputs of a kernel.

    "standard": (x - mean) / std, within +-20. "normal": normal scores, the quantile of x mapped to that of N(0, 1), by
    linear interpolation between 512 quantiles. "both": these two concatenated. "robust": t = (x - median) / (IQR /
    1.349), smoothly bounded by 3. Two-valued columns are only centred: for a one-hot column a change of level then
    counts as much as a typical difference of a standardised number, whatever the frequency of the level. Values outside
    the range of the data have the score of its end; NaN stays NaN.

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
            if value is not None and not value.is_floating_point():
                raise ValueError(f"{name} must hold floats, got dtype {value.dtype}.")
            self.register_buffer(name, value if value is None else checks.finite(name, value))
        self.register_buffer("binary", binary)

    @classmethod
    def fit(cls, kind: str, X: Tensor, binary: Tensor | None = None) -> Self:
        """The transformation for data like X [n, d]; `binary` [d] is determined from X unless given.

        In float64 and O(d n log n): columns are sorted.
        """
        checks.one_of("kind", kind, TRANSFORMS)
        columns = checks.inputs("X", X).T.double().contiguous()
        if X.numel() == 0:
            raise ValueError(f"X must have rows and columns, got shape {tuple(X.shape)}.")
        least, most = columns.aminmax(dim=1)
        width = most - least
        if not bool(width.isfinite().all()):
            column = int((~width.isfinite()).nonzero()[0, 0])
            raise ValueError(f"X must be finite with differences below 1.8e308, but column {column} is not.")
        if binary is None:
            binary = ((columns == least[:, None]) | (columns == most[:, None])).all(dim=1)
        width = torch.where(width > 0, width, 1.0)
        # moments of numbers in [0, 1], whose squares neither overflow nor vanish
        std, mean = torch.std_mean((columns - least[:, None]) / width[:, None], dim=1, correction=0)
        center, scale = least + mean * width, torch.where(most > least, std * width, 1.0)
        knots = values = None
        if kind != "standard":
            columns = columns.sort(dim=1).values
        if kind == "robust":
            first, middle, third = columns[:, _positions(torch.tensor([0.25, 0.5, 0.75]), len(X))].T
            spread = (third - first) / NORMAL_IQR
            center, scale = torch.where(binary, center, middle), torch.where(spread > 0, spread, scale)
        elif kind != "standard":
            knots = _knots(columns)
            values = torch.special.ndtri(sum(_counts(columns, knots)) / (2 * len(X))).T
            knots = knots.T
        return cls(kind, center, torch.where(binary, width, scale), binary, knots, values)

    @property
    def num_outputs(self) -> int:
        return len(self.center) + (int((~self.binary).sum()) if self.kind == "both" else 0)

    @property
    def sources(self) -> Tensor:
        """The input column of each output column."""
        columns = torch.arange(len(self.center), device=self.binary.device)
        return torch.cat([columns, columns[~self.binary]]) if self.kind == "both" else columns

    def forward(self, X: Tensor) -> Tensor:
        """z [n, num_outputs] for X [n, d], computed in float64 and returned in X's dtype."""
        checks.inputs("X", X, width=len(self.center))
        Z = X.new_empty(len(X), self.num_outputs)
        knots = None if self.knots is None else self._interpolation()
        for tile in row_tiles(len(X), row_elements=X.shape[1], tile_elements=BLOCK_ELEMENTS):
            # differences of large numbers with little spread, such as years or coordinates, need float64
            rows = X[tile].double()
            t = (rows - self.center) / self.scale
            bounded = t.clamp(-MAX_STANDARD, MAX_STANDARD)
            if self.kind == "robust":
                t = t.clamp_(-MAX_ROBUST, MAX_ROBUST)
                bounded = torch.where(self.binary, bounded, t / (1 + (t / ROBUST_BOUND).square()).sqrt())
            Z[tile, : X.shape[1]] = bounded.to(X.dtype)
            if knots is not None:
                scores = _interpolate(rows[:, ~self.binary].T.contiguous(), *knots).T.to(X.dtype)
                if self.kind == "both":
                    Z[tile, X.shape[1] :] = scores
                else:
                    Z[tile, ~self.binary] = scores
        return Z

    def _interpolation(self) -> tuple[Tensor, Tensor, Tensor]:
        """Knots, values and slopes [columns, k] of the columns that are not two-valued."""
        assert self.knots is not None
        assert self.values is not None
        knots, values = (part[:, ~self.binary].T.double().contiguous() for part in (self.knots, self.values))
        return knots, values, knot_slopes(knots, values)


def knot_slopes(knots: Tensor, values: Tensor) -> Tensor:
    """The slope to the right of each knot [.., k], 0 at the last one and between equal knots."""
    width = knots.diff(dim=-1)
    slopes = torch.where(width > 0, values.diff(dim=-1) / torch.where(width > 0, width, 1.0), 0.0)
    slopes = slopes.clamp(*(torch.finfo(slopes.dtype).min, torch.finfo(slopes.dtype).max))  # for widths below 1e-300
    return torch.cat([slopes, torch.zeros_like(slopes[..., :1])], dim=-1)


def _interpolate(x: Tensor, knots: Tensor, values: Tensor, slopes: Tensor) -> Tensor:
    """Values at x [columns, n], linear between knots and constant beyond."""
    x = torch.minimum(torch.maximum(x, knots[:, :1]), knots[:, -1:])
    left = torch.searchsorted(knots, x, right=True).sub_(1).clamp_(0, knots.shape[1] - 1)
    return values.gather(1, left) + slopes.gather(1, left) * (x - knots.gather(1, left))


class TransformedModel(Storable):
    """f(T(x)): a model of transformed inputs."""

    def __init__(self, transform: InputTransform, model: nn.Module) -> None:
        super().__init__()
        self.transform, self.model = transform, model

    def forward(self, X: Tensor) -> Tensor:
        return self.model(self.transform(X))


def _positions(shares: Tensor, num_rows: int) -> Tensor:
    """The places of quantiles among ordered rows, of which row i is at (i + 1/2) / n."""
    return (shares.double() * num_rows - 0.5).round().long().clamp_(0, num_rows - 1)


def _knots(columns: Tensor) -> Tensor:
    """Knots [d, k > 1] for ordered columns [d, n]: quantiles that are evenly spaced in normal scores.

    Of several equal quantiles, at a value that many rows have, the last moves to the next larger value and the first
    to the next smaller one: the score jumps there, and values close by must not be interpolated across the jump.
    """
    n = columns.shape[1]
    end = float(torch.special.ndtri(torch.tensor(1 - 0.5 / n, dtype=torch.float64)))
    scores = torch.linspace(-end, end, NUM_KNOTS, dtype=torch.float64)
    positions = _positions(torch.special.ndtr(scores), n).unique()
    knots = columns[:, positions if len(positions) > 1 else positions.repeat(2)].contiguous()
    smaller, up_to = _counts(columns, knots)
    equal = nn.functional.pad(knots.diff(dim=1) == 0, (1, 2))  # to the knot before; False at both ends
    before, after, second = equal[:, :-2], equal[:, 1:-1], equal[:, 2:]
    next_larger = columns.gather(1, up_to.clamp(max=n - 1))
    next_smaller = columns.gather(1, (smaller - 1).clamp(min=0))
    moved = torch.where(before & ~after, next_larger, knots)
    moved = torch.where(~before & after & second, next_smaller, moved)
    return moved.sort(dim=1).values  # of two such values side by side, a knot of each has moved to the other


def _counts(columns: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """How many entries of ordered columns [d, n] are smaller than x [d, k], and how many are at most x."""
    return torch.searchsorted(columns, x), torch.searchsorted(columns, x, right=True)
