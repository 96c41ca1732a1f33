"""Perceptual linear prediction."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bochner import checks
from bochner.speech.frontend.arrays import Array
from bochner.speech.frontend.framing import Framing, all_frames, native

FLOOR = float(np.finfo(np.float32).eps)  # of band energies: digital silence has none, and no logarithm


@dataclass(frozen=True, kw_only=True)
class Plp(Framing):
    """Cepstra of an all-pole model of the loudness spectrum, by Kaldi's recipe.

        band energies e_b -> (e_b l(f_b))^compression          l: equal loudness at the centre f_b of band b
        -> cosine transform: autocorrelations r_0 ... r_order  the first and last band count twice
        -> Levinson-Durbin: predictors a_1 ... a_order
        -> cepstra c_k = -a_k - sum_{j<k} (k - j) a_j c_{k-j} / k, liftered as those of `Mfcc`

    samples [n] -> float32 [T, num_cepstra]. With `energy` the first is the log energy of the raw frame, else the log of
    the prediction error. O(n log n + T order (num_bins + order)). Source: Hermansky, 1990; Kaldi's feature-plp.

    >>> generator = np.random.default_rng(0)
    >>> Plp(rate=16000)(generator.standard_normal(16000) / 100).shape
    (98, 13)
    """

    num_cepstra: int = 13
    order: int = 12
    compression: float = 0.33333
    lifter: float = 22.0
    energy: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.positive_float("compression", self.compression)
        checks.nonnegative_float("lifter", self.lifter)
        if checks.positive_int("num_cepstra", self.num_cepstra) > checks.positive_int("order", self.order) + 1:
            raise ValueError(f"num_cepstra must be at most order + 1 = {self.order + 1}, got {self.num_cepstra}.")

    @property
    def dim(self) -> int:
        return self.num_cepstra

    def __call__(self, samples: Array) -> Array:
        options = self.configure(native("FbankOptions")())
        options.use_energy, options.use_log_fbank = True, False
        raw = all_frames(native("OnlineFbank")(options), self.rate, self.scaled(samples)).astype(np.float64)
        log_energy, bands = raw[:, 0], np.maximum(raw[:, 1:], FLOOR)
        loudness = (bands * equal_loudness(self.centres)) ** self.compression
        predictors, error = levinson_durbin(autocorrelations(loudness, self.order))
        first = log_energy if self.energy else np.log(error)
        rest = cepstra_of(predictors)[:, : self.num_cepstra - 1] * self._lifters()
        return np.column_stack([first, rest]).astype(np.float32)

    @property
    def centres(self) -> Array:
        """Hz of the middle of each band [num_bins]: evenly spaced on the mel scale 1127 log(1 + f / 700)."""
        low, high = np.log1p(np.array([self.low, self.top]) / 700)
        return 700 * np.expm1(np.linspace(low, high, self.num_bins + 2)[1:-1])

    def _lifters(self) -> Array:
        k = np.arange(1, self.num_cepstra)
        return 1 + self.lifter / 2 * np.sin(np.pi * k / self.lifter) if self.lifter else np.ones(len(k))


def equal_loudness(frequency: Array) -> Array:
    """How loud a tone of `frequency` Hz sounds against others of its power, up to a factor (Hermansky, 1990).

    >>> equal_loudness(np.array([300.0, 1000.0, 4000.0])).round(3)
    array([0.02 , 0.171, 0.668])
    """
    square = np.asarray(frequency, np.float64) ** 2
    return (square / (square + 1.6e5)) ** 2 * (square + 1.44e6) / (square + 9.61e6)


def autocorrelations(spectrum: Array, order: int) -> Array:
    """r_0 ... r_order [T, order + 1] of the even spectrum [T, B], whose first and last points are doubled."""
    padded = np.concatenate([spectrum[:, :1], spectrum, spectrum[:, -1:]], axis=1)
    last = padded.shape[1] - 1
    angles = np.pi / last * np.outer(np.arange(last + 1), np.arange(order + 1))
    weights = np.full(last + 1, 1 / last)
    weights[[0, last]] /= 2
    return padded @ (weights[:, None] * np.cos(angles))


def levinson_durbin(autocorrelation: Array) -> tuple[Array, Array]:
    """Predictors a [T, p] with sum_k a_k r_|j-k| = -r_j, j = 1 ... p, and the prediction error [T]; r is [T, p + 1].

    O(T p^2). A reflection coefficient of size 1 is kept off 1, as in Kaldi, so that the error stays positive.

    >>> levinson_durbin(np.array([[2.0, 1.0, 0.0]]))
    (array([[-0.66666667,  0.33333333]]), array([1.33333333]))
    """
    error = autocorrelation[:, 0].copy()
    a = np.zeros((len(error), 0))
    for i in range(1, autocorrelation.shape[1]):
        r = autocorrelation[:, i] + (a * autocorrelation[:, i - 1 : 0 : -1]).sum(1)
        reflection = (r / error)[:, None]
        a = np.hstack([a - reflection * a[:, ::-1], -reflection])
        error *= np.maximum(1 - reflection[:, 0] ** 2, 1e-5)
    return a, error


def cepstra_of(predictors: Array) -> Array:
    """Cepstra c_1 ... c_p [T, p] of 1 / (1 + sum_k a_k z^-k), for a [T, p]. O(T p^2).

    >>> cepstra_of(np.array([[-0.5, 0.0]]))
    array([[0.5  , 0.125]])
    """
    cepstra = np.zeros_like(predictors)
    for k in range(1, predictors.shape[1] + 1):
        earlier = np.arange(1, k)
        carried = ((k - earlier) * predictors[:, earlier - 1] * cepstra[:, k - earlier - 1]).sum(1)
        cepstra[:, k - 1] = -predictors[:, k - 1] - carried / k
    return cepstra
