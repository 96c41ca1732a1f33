"""Linear discriminant analysis: the directions in which classes of frames differ most."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import eigh

from bochner import checks
from bochner.speech.frontend.arrays import Array, frames_of


class ClassMoments:
    """Counts [C], means [C, d] and the scatter [d, d] of frames, gathered from any number of batches.

    `within` and `between` are covariances over all N frames: their sum is that of all frames without regard to class.
    O(N d^2) time, O(C d + d^2) memory.

    >>> moments = ClassMoments(2, 1)
    >>> moments.add(np.array([[0.0], [2.0], [9.0], [11.0]]), np.array([0, 0, 1, 1]))
    >>> float(moments.within[0, 0]), float(moments.between[0, 0])
    (1.0, 20.25)
    """

    def __init__(self, num_classes: int, dim: int) -> None:
        self.counts = np.zeros(checks.positive_int("num_classes", num_classes))
        self.dim = checks.positive_int("dim", dim)
        self._origin: Array | None = None  # near the mean, so that squares do not cancel
        self._sums = np.zeros((num_classes, dim))
        self._squares = np.zeros((dim, dim))

    def add(self, frames: Array, classes: Array) -> None:
        """Frames [n, d] and their classes [n], integers from 0."""
        X, y = frames_of(frames).astype(np.float64), self._classes(classes, len(frames))
        if X.shape[1] != self.dim:
            raise ValueError(f"frames must have {self.dim} columns, got {X.shape[1]}.")
        if self._origin is None:
            self._origin = X.mean(0)
        X -= self._origin
        self.counts += np.bincount(y, minlength=len(self.counts))
        np.add.at(self._sums, y, X)
        self._squares += X.T @ X

    @property
    def num_frames(self) -> float:
        return float(self.counts.sum())

    @property
    def within(self) -> Array:
        means = self._sums / np.maximum(self.counts, 1)[:, None]
        return (self._squares - (means.T * self.counts) @ means) / self._checked_count()

    @property
    def between(self) -> Array:
        mean = self._sums.sum(0) / self._checked_count()
        centred = self._sums / np.maximum(self.counts, 1)[:, None] - mean
        return (centred.T * self.counts) @ centred / self._checked_count()

    def _checked_count(self) -> float:
        if not self.num_frames:
            raise ValueError("frames must be added before their moments are asked for, got none.")
        return self.num_frames

    def _classes(self, classes: Any, num_frames: int) -> Array:
        y = np.asarray(classes)
        if y.shape != (num_frames,) or y.dtype.kind not in "iu":
            raise ValueError(f"classes must be integers [{num_frames}], one a frame, got {y.dtype} {list(y.shape)}.")
        if y.size and not 0 <= y.min() <= y.max() < len(self.counts):
            raise ValueError(f"classes must lie in 0 ... {len(self.counts) - 1}, got {y.min()} ... {y.max()}.")
        return y


def lda(moments: ClassMoments, *, dim: int) -> Array:
    """The `dim` rows a that maximise (a B a^T) / (a W a^T), best first, scaled so that A W A^T = I: [dim, d].

    W and B are the covariances within and between classes. At most C - 1 directions part C classes; the rows beyond
    them only whiten. The sign of a row is that which makes its largest entry positive. O(d^3).
    Source: Fisher, 1936; Haeb-Umbach and Ney, 1992, for speech.

    >>> generator = np.random.default_rng(0)
    >>> y = generator.integers(3, size=900)
    >>> X = generator.standard_normal((900, 5))
    >>> X[:, 2] += 10 * y  # only this input tells the classes apart
    >>> moments = ClassMoments(3, 5)
    >>> moments.add(X, y)
    >>> int(np.abs(lda(moments, dim=1)).argmax())
    2
    """
    if not 1 <= checks.positive_int("dim", dim) <= moments.dim:
        raise ValueError(f"dim must be at most the {moments.dim} columns of the frames, got {dim}.")
    try:
        _, vectors = eigh(moments.between, moments.within)
    except np.linalg.LinAlgError as error:
        raise ValueError(
            f"the covariance within classes must have full rank {moments.dim}; {moments.num_frames:.0f} frames "
            f"do not give it: add frames, or take out columns that are constant or repeat others."
        ) from error
    rows: Array = vectors[:, ::-1].T[:dim]
    return rows * np.sign(rows[np.arange(dim), np.abs(rows).argmax(1)])[:, None]
