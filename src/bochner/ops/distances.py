"""Pairwise distances between rows, and sums of powers of differences."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from bochner.ops.linalg import row_tiles

# Squared distances below this share of a squared length are computed from differences. Above it the relative error of
# the matrix product is at most 2^8 eps, 2e-5 in float32, and less than half a per cent of all pairs lie below it for
# points spread over three dimensions or more.
NEAR = 2.0**-8
# With more near pairs than this, differences of all pairs in one pass take less time than gathering the near ones.
MAX_NEAR_SHARE = 1 / 16
# Numbers in a tile of sums of powers, on a CPU (two of them fit its second-level cache) and on a GPU.
POWER_TILE = (2**17, 2**26)


class Radial(NamedTuple):
    """k(x, y) = p(t) exp(-t) with t = factor (sum_i |x_i - y_i|^norm)^power and p(t) = 1, 1 + t or 1 + t + t^2 / 3 for
    degree 0, 1 or 2: a stationary kernel as a fused product needs it. `error` is the error of the sum that k allows.
    """

    norm: float
    power: float
    factor: float
    degree: int = 0
    error: float = 0.0

    def values(self, squares: Tensor) -> Tensor:
        """k(x, y) for norm 2 and squares ||x - y||^2, in their memory; has no derivatives."""
        if self.norm != 2:
            raise ValueError(f"norm must be 2 for values, got {self.norm}.")
        t = (squares if self.power == 1 else squares.pow_(self.power)).mul_(-self.factor)  # -t
        if self.degree == 0:
            return t.exp_()
        decay = t.exp()
        return decay.mul_(t.neg_().add_(1) if self.degree == 1 else t.square().div_(3).sub_(t).add_(1))

    def slopes(self, squares: Tensor) -> Tensor:
        """g with grad_x k(x, y) = -g (x - y), for norm 2 and squares ||x - y||^2; 0 where they are 0 and k has a kink.

        g = -2 p t q'(t) / squares for k = q(t), p = power.
        """
        if self.norm != 2:
            raise ValueError(f"norm must be 2 for slopes, got {self.norm}.")
        if self.power == 1 and self.degree == 0:
            return squares.mul(-self.factor).exp_().mul_(2 * self.factor)
        t = self.factor * squares.pow(self.power)
        decay = t.neg().exp_()
        if self.degree > 0:  # of Matern kernels, with power 1/2: t^2 / squares = factor^2
            return decay.mul_(self.factor**2) if self.degree == 1 else decay.mul_(1 + t).mul_(self.factor**2 / 3)
        return torch.where(squares > 0, decay.mul_(t).mul_(2 * self.power) / squares, 0.0)


class CenteredRows(NamedTuple):
    """Y [m, d] with what `squared_distances` needs of it: its mean [d], V = Y - mean [m, d] and ||v||^2 [m]."""

    Y: Tensor
    center: Tensor
    V: Tensor
    squares: Tensor

    @classmethod
    def of(cls, Y: Tensor) -> CenteredRows:
        center = Y.mean(dim=0)
        V = Y - center
        return cls(Y, center, V, V.square().sum(dim=1))


def squared_distances(X: Tensor, Y: Tensor | CenteredRows, *, error: float = math.inf) -> Tensor:
    """||x_i - y_j||^2 for X [n, d] and Y [m, d], as [n, m].

    ||x||^2 + ||y||^2 - 2 x.y loses digits when the points lie far from the origin, so the mean of Y is first subtracted
    from both. An error of about eps ||x||^2 remains, too large between clusters that are far apart: rows where it
    exceeds `error` are computed from differences. Cost O(nmd), several times as long for such rows; calls with the same
    Y share its part in `CenteredRows`.

    >>> X = torch.tensor([[0.0], [1e4], [10001.0]])
    >>> squared_distances(X, X, error=1e-3)[1, 2]
    tensor(1.)
    """
    if len(X) == 1 and error < math.inf:  # without a decision that depends on data, for torch.vmap
        return (X - (Y if isinstance(Y, Tensor) else Y.Y)).square().sum(dim=1)[None]
    Y, center, V, V_squares = CenteredRows.of(Y) if isinstance(Y, Tensor) else Y
    U = X - center
    squares = torch.addmm(V_squares, U, V.T, alpha=-2)
    lengths = U.square().sum(dim=1, keepdim=True)
    squares = squares.add_(lengths).clamp_min_(0)
    if error < math.inf:
        far = (lengths.detach()[:, 0] > error / torch.finfo(X.dtype).eps).nonzero()[:, 0]
        if len(far):
            exact = torch.cdist(X[far], Y, compute_mode="donot_use_mm_for_euclid_dist").square()
            squares = squares.index_put((far,), exact)
    return squares


def accurate_squared_distances(X: Tensor, Y: Tensor) -> Tensor:
    """||x_i - y_j||^2 for X [n, d] and Y [m, d], as [n, m], to a small relative error for near points as well.

    The matrix product in `squared_distances` leaves an error of about eps ||x||^2, which is the whole value when x and
    y coincide: a function such as r -> r^0.7 turns 1e-6 into 1e-2. Squared distances below NEAR ||x||^2 are therefore
    recomputed from the differences x - y, exactly 0 for equal rows. Cost O(nmd), two arrays [n, m].

    >>> X = torch.tensor([[0.1, 0.3], [0.1, 0.3], [9.0, 7.0]])
    >>> accurate_squared_distances(X, X)[0, :2]
    tensor([0., 0.])
    """
    if len(X) == 1:  # differences cost no more here; torch.vmap, which has no nonzero(), is used on single rows
        return (X - Y).square().sum(dim=1)[None]
    squares = squared_distances(X, Y)
    lengths = (X - Y.mean(dim=0)).detach().square().sum(dim=1, keepdim=True)
    near = squares.detach() < NEAR * lengths
    if torch.count_nonzero(near) > MAX_NEAR_SHARE * near.numel():
        del squares, near
        return torch.cdist(X, Y, compute_mode="donot_use_mm_for_euclid_dist").square()
    rows, columns = near.nonzero(as_tuple=True)
    # three arrays [pairs, d] at once, together less than one [n, m]
    pairs = max(1, squares.numel() // (4 * X.shape[1]))
    for i, j in zip(rows.split(pairs), columns.split(pairs), strict=True):
        squares = squares.index_put_((i, j), (X[i] - Y[j]).square().sum(dim=1))
    return squares


def power_sums(X: Tensor, Y: Tensor, power: float) -> Tensor:
    """sum_i |x_i - y_i|^power for X [n, d] and Y [m, d], as [n, m], 0 < power <= 2; exactly 0 for equal rows.

    Columns with only two values l < h in Y, such as one-hot columns, take one matrix product: their terms are
    |x_i - l|^power or |x_i - h|^power. The others take one pass each, in tiles that stay in a CPU's second-level cache;
    where X is Y, over half of the pairs. The gradient is computed the same way and holds no array per input;
    |x_i - y_i|^power has derivative 0 where x_i = y_i. Cost O(nmd).

    >>> power_sums(torch.tensor([[0.0, 3.0]]), torch.tensor([[4.0, 3.0], [1.0, 2.0]]), 1.5)
    tensor([[8., 2.]])
    """
    if power == 2:
        return accurate_squared_distances(X, Y)
    if torch.is_grad_enabled() and (X.requires_grad or Y.requires_grad):
        # the gradient of cdist is fast for this power, and slow for others
        return torch.cdist(X, Y, p=1.0) if power == 1 else _PowerSums.apply(X, Y, power)
    if len(X) == 1:  # without a decision that depends on data, for torch.vmap
        return _powers((X - Y).abs(), power).sum(dim=1)[None]
    sums = X.new_zeros(len(X), len(Y))
    if sums.numel() == 0:
        return sums
    binary = BinaryColumns(Y)
    if binary.any:
        from_low, from_high = (_powers(gap.abs(), power) for gap in binary.gaps(X))
        # no term is negative: from_low + (from_high - from_low) is_high in one product would not be 0 for equal rows
        sums = (from_low @ binary.is_low.T).addmm_(from_high, binary.is_high.T)
    rows, columns = X.T[binary.others], Y.T[binary.others]
    if power == 1 and X.device.type == "cuda" and len(rows):
        return sums.add_(torch.cdist(rows.T, columns.T, p=1.0))
    tiles = _tiles(X, Y)
    # one pair of arrays for all passes: allocating them again takes as long as a pass
    gaps, roots = (sums.new_empty(tiles[0].stop, len(Y)) for _ in range(2))
    for tile in tiles:
        width = tile.stop if X is Y else len(Y)
        part = sums[tile, :width]
        shape = part.shape
        gap, root = (array.view(-1)[: part.numel()].view(shape) for array in (gaps, roots))
        for x, y in zip(rows[:, tile], columns[:, :width], strict=True):
            torch.sub(x[:, None], y, out=gap).abs_()
            if power == 1.5:
                part.addcmul_(gap, torch.sqrt(gap, out=root))
            else:
                part += _powers(gap, power)
        if X is Y:
            sums[: tile.start, tile] = part[:, : tile.start].T
    return sums


class _PowerSums(Function):
    """`power_sums` with its gradient, sum_j g_ij power |x_i - y_j|^{power - 1} sign(x_i - y_j)."""

    @staticmethod
    def forward(ctx: Any, X: Tensor, Y: Tensor, power: float) -> Tensor:
        ctx.save_for_backward(X, Y)
        ctx.power = power
        return power_sums(X.detach(), Y.detach(), power)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor | None, None]:
        X, Y = ctx.saved_tensors
        dX, dY = torch.zeros_like(X), torch.zeros_like(Y) if ctx.needs_input_grad[1] else None
        if gradient.numel() == 0:
            return dX, dY, None
        binary = BinaryColumns(Y)
        if binary.any:
            from_low, from_high = (_slopes(gap, ctx.power) for gap in binary.gaps(X))
            dX[:, binary.columns] = from_low * (gradient @ binary.is_low) + from_high * (gradient @ binary.is_high)
            if dY is not None:
                dY[:, binary.columns] = -torch.where(binary.is_high > 0, gradient.T @ from_high, gradient.T @ from_low)
        for tile in _tiles(X, Y):
            for i in binary.others.tolist():
                slopes = _slopes(X[tile, i, None] - Y[:, i], ctx.power).mul_(gradient[tile])
                dX[tile, i] = slopes.sum(dim=1)
                if dY is not None:
                    dY[:, i] -= slopes.sum(dim=0)
        return dX, dY, None


class BinaryColumns:
    """The columns of Y [m, d] with at most two values, which of the two each row has [m, b], and the other columns."""

    def __init__(self, Y: Tensor) -> None:
        low, high = Y.amin(dim=0), Y.amax(dim=0)
        is_high = high == Y
        binary = (is_high | (low == Y)).all(dim=0)
        self.columns, self.others = binary.nonzero()[:, 0], (~binary).nonzero()[:, 0]
        self.any = len(self.columns) > 0
        self.ends = (low[self.columns], high[self.columns])
        self.is_high = is_high[:, self.columns].to(Y.dtype)
        self.is_low = 1 - self.is_high

    def gaps(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Differences [n, b] between those columns of X and the lower and the higher value."""
        x = X[:, self.columns]
        return x - self.ends[0], x - self.ends[1]


def _tiles(X: Tensor, Y: Tensor) -> list[slice]:
    return list(row_tiles(len(X), row_elements=len(Y), tile_elements=POWER_TILE[X.device.type == "cuda"]))


def _powers(gaps: Tensor, power: float) -> Tensor:
    """gaps^power for gaps >= 0; may change them."""
    if power == 1:
        return gaps
    if power == 0.5:
        return gaps.sqrt_()
    if power == 1.5:
        return gaps.mul_(gaps.sqrt())
    return gaps.log2_().mul_(power).exp2_()  # a third of the time of torch.pow


def _slopes(gaps: Tensor, power: float) -> Tensor:
    """power |gaps|^{power - 1} sign(gaps), the derivative of |gaps|^power, and 0 where a gap is 0; may change gaps."""
    signs = gaps.sign()
    # where a gap is 0, a finite number that the sign then turns to 0
    sizes = gaps.abs_().clamp_min_(torch.finfo(gaps.dtype).tiny)
    sizes = sizes.sqrt_() if power == 1.5 else sizes.log2_().mul_(power - 1).exp2_()
    return sizes.mul_(signs).mul_(power)
