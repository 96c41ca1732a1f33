"""Least squares on landmarks by preconditioned SGD in the kernel's space with delayed projections (EigenPro 4)."""

from __future__ import annotations

import logging
from collections.abc import Callable

import torch
from torch import Generator, Tensor

from bochner import checks
from bochner.data.batches import batches
from bochner.data.blocks import BlockSource, Source, num_rows, sample_rows, seeded
from bochner.kernels import Kernel
from bochner.models.landmarks import LandmarkModel
from bochner.ops.linalg import Report, top_eigenpairs
from bochner.solvers.landmarks import Block, ImplicitBlock, scores
from bochner.solvers.rows import read_encoded, summarize

logger = logging.getLogger(__name__)

SAMPLE_ROWS = 2048  # rows that eigenvectors are estimated from
SAMPLES_PER_VECTOR = 16  # of those, for each eigenvector that is corrected
# Rows of a batch, at most, and batches of an epoch, at least.
MAX_BATCH, MIN_BATCHES = 8192, 4
# Numbers of k(batch, landmarks) that are stored between the two products with it: 64 MB in float32.
STORED_ELEMENTS = 2**24
PATIENCE = 2  # epochs without improvement
ROWS_PER_LANDMARK = 2  # between projections: these then cost about as much as the steps
STEP = 1.5  # of the largest steps, 2, that converge where the eigenvalues are exact
# Projections end when the residual has fallen to this part, or after so many passes over the landmarks.
PROJECTED, MAX_PASSES = 0.1, 4


class EigenCorrection:
    """The top of the spectrum of k from a sample S [s, d] of rows, to be removed from gradients.

    With eigenpairs (s l_i, e_i) of K_SS and l = l_{q+1}, a gradient sum_j k(., x_j) g_j becomes

        sum_j k(., x_j) g_j - sum_i k(., S) e_i (1 - l / l_i) / (s l_i) e_i^T k(S, X) g,

    in which the first q eigendirections are as short as the next one. SGD on batches of m rows then converges for steps
    up to 2 / (b + (m - 1) l), b = max k(x, x), and gains from larger batches up to m = b / l. As many directions are
    corrected as make this `max_batch`, at most one for 16 rows of the sample.
    Source: Ma & Belkin 2019 (EigenPro 2).
    """

    def __init__(self, kernel: Kernel, sample: Tensor, *, max_batch: int, generator: Generator) -> None:
        self.kernel, self.sample = kernel, sample
        s = len(sample)
        K = checks.finite("k(x, x)", kernel(sample.double()))
        values, vectors = top_eigenpairs(K, 1 + s // SAMPLES_PER_VECTOR, generator=generator)
        self.largest = float(K.diagonal().max())
        self.next = max(float(values[-1]) / s, self.largest / max_batch)
        kept = values > s * self.next
        values = values[kept]
        self.vectors = vectors[:, kept].to(sample)
        self.weights = ((1 - s * self.next / values) / values).to(sample)[:, None]

    @property
    def batch_size(self) -> int:
        """The largest batch that pays: b / l."""
        return max(1, int(self.largest / self.next))

    def step(self, batch_size: int) -> float:
        return STEP / (self.largest + (batch_size - 1) * self.next)

    def inside(self, X: Tensor, gradient: Tensor) -> Tensor:
        """e_i^T k(S, X) g [q, t]."""
        return self.vectors.T @ self.kernel.matmul(self.sample, X, gradient)

    def coefficients(self, inside: Tensor) -> Tensor:
        """What is subtracted, as coefficients of k(., S) [s, t]."""
        return self.vectors @ (self.weights * inside)


def fit_eigenpro(
    kernel: Kernel,
    landmarks: Tensor,
    source: Source,
    *,
    alpha: float = 0.0,
    num_classes: int | None = None,
    max_epochs: int = 10,
    evaluate: Callable[[LandmarkModel], float] | None = None,
    improvement: float = 0.003,
    batches_per_projection: int | None = None,
    seed: int = 0,
    report: Report | None = None,
) -> LandmarkModel:
    """f = sum_j k(., l_j) a_j + b with b the mean of y, moved by SGD towards the minimum of `fit_landmark_ridge`.

    A step on a batch of rows X [m, d] with errors g = f(X) - y moves f against the gradient sum_j k(., x_j) g_j, less
    its part along the top eigenvectors (`EigenCorrection`, from 2,048 rows). That adds the rows of the batch to the
    centres of f, beside the landmarks. After `batches_per_projection` batches (by default twice as
    many rows as landmarks) f is projected onto the span of the landmarks: K_mm delta = h for h, the values at the
    landmarks of what was added, which steps have summed up; passes of the same iteration over the landmarks solve it
    to a tenth. The size of batches and the step follow from the eigenvalues.

    `evaluate` is called with the model after every epoch; epochs end when its value, such as the error on other rows,
    has not fallen by the fraction `improvement` twice in a row, and the model of the least value is returned. `report`
    gets the epoch and that value, or without `evaluate` the mean squared error of the epoch's batches before their
    steps. Few epochs do what a penalty does, so that alpha is 0 by default; with one, alpha f is part of the gradient
    and is corrected likewise, for which f is evaluated at the sample in every step.

    kernel on landmarks [m, d]; y numbers [n] or [n, t], or class indices with `num_classes`, one-hot.
    O(n m (d + t)) per epoch and as much again for projections; O(m (d + t)) memory beside one block k(batch, landmarks)
    of at most 64 MB in float32: no [m, m] matrix, so that m may be in the millions.
    Source: Abedsoltan, Ma, Pandit & Belkin 2025 (delayed projections); Ma & Belkin 2019.

    >>> from bochner.kernels import Laplacian; from bochner.data import ArraySource
    >>> X = torch.linspace(-2, 2, 500)[:, None]
    >>> model = fit_eigenpro(Laplacian(), X[::10], ArraySource(X, X[:, 0].sin()))
    >>> bool((model.decision(X) - X.sin()).abs().max() < 0.1)
    True
    """
    checks.nonnegative_float("alpha", alpha)
    checks.positive_int("max_epochs", max_epochs)
    checks.nonnegative_float("improvement", improvement)
    checks.finite("landmarks", checks.inputs("landmarks", landmarks, width=source.num_inputs))
    summary = summarize(source, num_classes=num_classes)
    bias = summary.mean.to(landmarks)
    rows = sample_rows(source, SAMPLE_ROWS, generator=seeded(seed, "eigenpro rows")).X.to(landmarks)
    limit = max(1, min(MAX_BATCH, num_rows(source) // MIN_BATCHES))
    correction = EigenCorrection(kernel, rows, max_batch=limit, generator=seeded(seed, "eigenpro"))
    size = correction.batch_size
    delay = max(1, ROWS_PER_LANDMARK * len(landmarks) // size)
    if batches_per_projection is not None:
        delay = checks.positive_int("batches_per_projection", batches_per_projection)
    descent = _Descent(kernel, landmarks, len(bias), correction, alpha=alpha, seed=seed)
    mean_weight = summary.total_weight / summary.num_rows
    best: tuple[float, Tensor] | None = None
    waited = 0
    for epoch in range(max_epochs):
        total, added = 0.0, 0
        for block in batches(source, batch_size=size, seed=seed, epoch=epoch):
            tile = read_encoded(BlockSource(block), 0, num_classes=num_classes)
            weight = (tile.weight / mean_weight).to(landmarks)[:, None]
            total += descent.add(tile.X.to(landmarks), tile.targets.to(landmarks) - bias, weight)
            added += 1
            if added == delay:
                descent.project()
                added = 0
        descent.project()
        model = LandmarkModel(kernel, landmarks, descent.coefficients, bias)
        value = total / summary.num_rows if evaluate is None else evaluate(model)
        logger.debug("epoch %d: %.4g", epoch + 1, value)
        if report is not None:
            report(epoch + 1, value)
        waited = 0 if best is None or value < (1 - improvement) * best[0] else waited + 1
        if evaluate is None or best is None or value < best[0]:
            best = (value, descent.coefficients.clone())
        if evaluate is not None and waited == PATIENCE:
            break
    assert best is not None
    return LandmarkModel(kernel, landmarks, best[1], bias)


class _Descent:
    """f on landmarks, on the sample of the correction, and on the rows of the batches since the last projection."""

    def __init__(
        self,
        kernel: Kernel,
        landmarks: Tensor,
        num_outputs: int,
        correction: EigenCorrection,
        *,
        alpha: float = 0.0,
        seed: int,
    ) -> None:
        self.kernel, self.landmarks, self.correction, self.alpha = kernel, landmarks, correction, alpha
        self.coefficients = landmarks.new_zeros(len(landmarks), num_outputs)
        # k(landmarks, S) e_i (1 - l / l_i) / (s l_i), by which a correction changes the values at the landmarks
        self.images = kernel.matmul(landmarks, correction.sample, correction.vectors * correction.weights.T)
        self.generator = seeded(seed, "eigenpro projections")
        chosen = torch.randperm(len(landmarks), generator=self.generator)[:SAMPLE_ROWS].to(landmarks.device)
        limit = max(1, min(MAX_BATCH, len(landmarks) // 2))
        inner = EigenCorrection(kernel, landmarks[chosen], max_batch=limit, generator=self.generator)
        self.chosen, self.inner = chosen, inner
        self._reset()

    def _reset(self) -> None:
        self.points, self.point_coefficients = self.landmarks[:0], self.coefficients[:0].clone()
        self.sample_coefficients = torch.zeros_like(self.coefficients[:1]).repeat(len(self.correction.sample), 1)
        self.added = torch.zeros_like(self.coefficients)  # values at the landmarks of f since the last projection

    def add(self, X: Tensor, targets: Tensor, weight: Tensor) -> float:
        """One step on a batch; the sum of its weighted squared errors before."""
        stored = len(X) * len(self.landmarks) <= STORED_ELEMENTS
        K: Block = self.kernel(X, self.landmarks) if stored else ImplicitBlock(self.kernel, X, self.landmarks)
        errors = self._values(X, K) - targets
        gradient = weight * errors
        decay = len(X) * self.alpha  # of f, relative to the step
        step = 1 / (decay + max(1.0, float(weight.max())) / self.correction.step(len(X)))
        inside = self.correction.inside(X, gradient)
        if decay:
            sample = self.correction.sample
            values = self._values(sample, ImplicitBlock(self.kernel, sample, self.landmarks))
            inside += decay * self.correction.vectors.T @ values
            for part in (self.coefficients, self.sample_coefficients, self.added, self.point_coefficients):
                part *= 1 - step * decay
        self.points = torch.cat([self.points, X])
        self.point_coefficients = torch.cat([self.point_coefficients, -step * gradient])
        self.sample_coefficients += step * self.correction.coefficients(inside)
        self.added -= step * ((gradient.T @ K).T - self.images @ inside)
        return float((gradient * errors).sum(dtype=torch.float64))

    def _values(self, X: Tensor, K: Block) -> Tensor:
        """f(X) [n, t], with K = k(X, landmarks)."""
        f = scores(K, self.coefficients.T.contiguous())
        f = f + self.kernel.matmul(X, self.correction.sample, self.sample_coefficients)
        return f + self.kernel.matmul(X, self.points, self.point_coefficients)

    def project(self) -> None:
        """Replace what was added by landmarks: K_mm delta = h, by EigenPro 2 on the landmarks."""
        if not len(self.points):
            return
        delta, size = torch.zeros_like(self.coefficients), self.inner.batch_size
        start = float(self.added.norm())
        for _ in range(MAX_PASSES):
            squares = 0.0
            order = torch.randperm(len(self.landmarks), generator=self.generator).to(self.landmarks.device)
            for part in order.split(size):
                Z = self.landmarks[part]
                residual = self.kernel.matmul(Z, self.landmarks, delta) - self.added[part]
                squares += float(residual.square().sum())
                step = self.inner.step(len(part))
                delta[part] -= step * residual
                delta[self.chosen] += step * self.inner.coefficients(self.inner.inside(Z, residual))
            if squares**0.5 <= PROJECTED * start:
                break
        self.coefficients += delta
        self._reset()
