"""Least squares on landmarks by preconditioned SGD in the kernel's space with delayed projections (EigenPro 4)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import torch
from torch import Generator, Tensor

from bochner import checks
from bochner.data.batches import batches
from bochner.data.blocks import BlockSource, Source, num_rows, sample_rows, seeded
from bochner.kernels import Kernel
from bochner.kernels.centers import Centers, KernelBlock, has_blocks
from bochner.models.landmarks import LandmarkModel
from bochner.ops.linalg import Report, top_eigenpairs
from bochner.solvers.rows import read_encoded, summarize

logger = logging.getLogger(__name__)

SAMPLE_ROWS = 2048  # rows that eigenvectors are estimated from
SAMPLES_PER_VECTOR = 16  # of those, for each eigenvector that is corrected
# Rows of a batch, at most, and batches of an epoch, at least.
MAX_BATCH, MIN_BATCHES = 8192, 4
# Numbers of k(batch, landmarks) that are kept between the two products with it, and of k(landmarks, landmarks) between
# projections: 64 MB in float32; on a GPU these parts of its memory.
STORED_ELEMENTS, BLOCK_SHARE, PROJECTION_SHARE = 2**24, 1 / 16, 0.3
PATIENCE = 2  # epochs without improvement
# Between projections: the points then cost about as much as the projections, where k(landmarks, landmarks) is computed
# again in each of their passes, and where it is kept.
ROWS_PER_LANDMARK, KEPT_ROWS_PER_LANDMARK = 2, 1
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
        self.sample, s = sample, len(sample)
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

    def inside(self, products: Tensor) -> Tensor:
        """e_i^T k(S, X) g [q, t] from k(S, X) g [s, t]."""
        return self.vectors.T @ products

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
    centres of f, beside the landmarks. After `batches_per_projection` batches (by default as many rows as landmarks,
    and twice as many where K_mm is not kept) f is projected onto the span of the landmarks: K_mm delta = h for h, the
    values at the landmarks of what was added, which steps have summed up; passes of the same iteration over the
    landmarks solve it to a tenth. The size of batches and the step follow from the eigenvalues.

    `evaluate` is called with the model after every epoch; epochs end when its value, such as the error on other rows,
    has not fallen by the fraction `improvement` twice in a row, and the model of the least value is returned. `report`
    gets the epoch and that value, or without `evaluate` the mean squared error of the epoch's batches before their
    steps. Few epochs do what a penalty does, so that alpha is 0 by default; with one, alpha f is part of the gradient
    and is corrected likewise, for which f is evaluated at the sample in every step.

    kernel on landmarks [m, d]; y numbers [n] or [n, t], or class indices with `num_classes`, one-hot.
    O(n m (d + t)) per epoch and up to three times as much again for points and projections; O(m (d + t)) memory besides
    k(batch, landmarks) and K_mm, which are kept if they have at most 64 MB in float32 (on a GPU a 16th and 0.3 of its
    memory) and computed again otherwise: m may be in the millions.
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
    kept = has_blocks(kernel, landmarks) and len(landmarks) ** 2 <= _stored_elements(landmarks, PROJECTION_SHARE)
    delay = max(1, (KEPT_ROWS_PER_LANDMARK if kept else ROWS_PER_LANDMARK) * len(landmarks) // size)
    if batches_per_projection is not None:
        delay = checks.positive_int("batches_per_projection", batches_per_projection)
    # in random order, consecutive landmarks are a batch of a projection and the first are a sample
    generator = seeded(seed, "eigenpro projections")
    order = torch.randperm(len(landmarks), generator=generator).to(landmarks.device)
    descent = _Descent(
        kernel, landmarks[order], len(bias), correction,
        max_points=min(delay * size, num_rows(source)), keeps_landmarks=kept, alpha=alpha, generator=generator,
    )  # fmt: skip
    mean_weight = summary.total_weight / summary.num_rows
    best: tuple[float, Tensor] | None = None
    waited = 0
    for epoch in range(max_epochs):
        total, added = torch.zeros((), dtype=torch.float64, device=landmarks.device), 0
        for block in batches(source, batch_size=size, seed=seed, epoch=epoch):
            tile = read_encoded(BlockSource(block), 0, num_classes=num_classes)
            weight = (tile.weight / mean_weight).to(landmarks)[:, None]
            total += descent.add(tile.X.to(landmarks), tile.targets.to(landmarks) - bias, weight)
            added += 1
            if added == delay:
                descent.project()
                added = 0
        descent.project()
        coefficients = torch.empty_like(descent.coefficients)
        coefficients[order] = descent.coefficients
        model = LandmarkModel(kernel, landmarks, coefficients, bias)
        value = float(total) / summary.num_rows if evaluate is None else evaluate(model)
        logger.debug("epoch %d: %.4g", epoch + 1, value)
        if report is not None:
            report(epoch + 1, value)
        waited = 0 if best is None or value < (1 - improvement) * best[0] else waited + 1
        if evaluate is None or best is None or value < best[0]:
            best = (value, coefficients)
        if evaluate is not None and waited == PATIENCE:
            break
    assert best is not None
    return LandmarkModel(kernel, landmarks, best[1], bias)


def _stored_elements(like: Tensor, share: float) -> int:
    if not like.is_cuda:
        return STORED_ELEMENTS
    total = torch.cuda.get_device_properties(like.device).total_memory  # needs a GPU
    return int(share * total) // like.element_size()  # needs a GPU


class _Descent:
    """f on landmarks, on the sample of the correction, and on the rows of the batches since the last projection.

    The three are consecutive centres, with their coefficients in one array.
    """

    def __init__(
        self,
        kernel: Kernel,
        landmarks: Tensor,
        num_outputs: int,
        correction: EigenCorrection,
        *,
        max_points: int,
        keeps_landmarks: bool = False,
        alpha: float = 0.0,
        generator: Generator,
    ) -> None:
        m, s = len(landmarks), len(correction.sample)
        self.correction, self.alpha, self.generator = correction, alpha, generator
        self.centers = Centers(kernel, torch.cat([landmarks, correction.sample]), capacity=m + s + max_points)
        self.fixed, self.sample = slice(0, m + s), slice(m, m + s)
        self.weights = landmarks.new_zeros(m + s + max_points, num_outputs)
        self.coefficients, self.sample_coefficients = self.weights[:m], self.weights[self.sample]
        self.added = torch.zeros_like(self.coefficients)  # values at the landmarks of f since the last projection
        # k(landmarks, S) e_i (1 - l / l_i) / (s l_i), by which a correction changes the values at the landmarks
        self.images = kernel.matmul(landmarks, correction.sample, correction.vectors * correction.weights.T)
        limit = max(1, min(MAX_BATCH, m // 2))
        self.inner = EigenCorrection(kernel, landmarks[:SAMPLE_ROWS], max_batch=limit, generator=generator)
        size, keep = self.inner.batch_size, m * m if keeps_landmarks else 0
        self.batches = [slice(start, min(start + size, m)) for start in range(0, m, size)]
        self.blocks = [
            [KernelBlock(self.centers, self.centers.rows(part), columns, keep=keep)
             for columns in (slice(0, m), slice(0, len(self.inner.sample)))]
            for part in self.batches
        ]  # fmt: skip

    @property
    def points(self) -> slice:
        """The places of the rows of batches since the last projection."""
        return slice(self.fixed.stop, self.centers.count)

    def add(self, X: Tensor, targets: Tensor, weight: Tensor) -> Tensor:
        """One step on a batch; the sum of its weighted squared errors before."""
        rows = self.centers.prepare(X)
        K = KernelBlock(self.centers, rows, self.fixed, keep=_stored_elements(X, BLOCK_SHARE))
        errors = K.times(self.weights[self.fixed]) + self._point_values(rows) - targets
        gradient = weight * errors
        decay = len(X) * self.alpha  # of f, relative to the step
        step = 1 / (decay + weight.max().clamp_min(1.0) / self.correction.step(len(X)))
        products = K.adjoint(gradient)  # k(., X) g at landmarks and sample
        inside = self.correction.inside(products[self.sample])
        if decay:
            sample = self.centers.rows(self.sample)
            values = KernelBlock(self.centers, sample, self.fixed).times(self.weights[self.fixed])
            inside += decay * self.correction.inside(values + self._point_values(sample))
            self.weights[: self.centers.count] *= 1 - step * decay
            self.added *= 1 - step * decay
        self.centers.append(rows)
        self.weights[self.centers.count - len(X) : self.centers.count] = -step * gradient
        self.sample_coefficients += step * self.correction.coefficients(inside)
        self.added -= step * (products[: len(self.added)] - self.images @ inside)
        return (gradient * errors).sum(dtype=torch.float64)

    def _point_values(self, rows: Any) -> Tensor:
        """The part of f that is on points, at prepared rows."""
        return KernelBlock(self.centers, rows, self.points).times(self.weights[self.points])

    def project(self) -> None:
        """Replace what was added by landmarks: K_mm delta = h, by EigenPro 2 on the landmarks."""
        if self.points.start == self.points.stop:
            return
        delta, inner = torch.zeros_like(self.coefficients), self.inner
        for _ in range(MAX_PASSES):
            squares = delta.new_zeros(())
            for number in torch.randperm(len(self.batches), generator=self.generator).tolist():
                part, (K, to_sample) = self.batches[number], self.blocks[number]
                residual = K.times(delta) - self.added[part]
                squares += residual.square().sum()
                step = inner.step(len(residual))
                delta[part] -= step * residual
                delta[: len(inner.sample)] += step * inner.coefficients(inner.inside(to_sample.adjoint(residual)))
            if float(squares.sqrt()) <= PROJECTED * float(self.added.norm()):
                break
        self.coefficients += delta
        self.sample_coefficients.zero_()
        self.added.zero_()
        self.centers.count = self.fixed.stop
