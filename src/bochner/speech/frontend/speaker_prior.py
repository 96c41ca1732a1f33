"""Maximum a posteriori moments of a speaker, from recordings too short for their plain mean and variance."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from bochner import checks
from bochner.speech.frames import Array
from bochner.speech.frontend.postprocess import Moments, group_moments, smoothed
from bochner.speech.hmm.mixtures import Mixtures, accumulate, split, update
from bochner.speech.text_files import FilePath
from bochner.storage import read_tensors, write_tensors

NUM_GAUSSIANS = 64
MAX_FRAMES = 20_000  # evenly spaced, from which the mixture and the moments of a speaker are estimated
EM_ITERATIONS = 12  # after each doubling of the mixture
PRIOR_FRAMES = 20  # weight of the average speaker; the errors of 5 to 50 on spoken digits are alike
ASSIGNMENT_PRIOR_FRAMES = 100  # the same where recordings are compared; 20 to 100 were tried
ITERATIONS = 8  # of EM for the moments of a speaker; further ones change little
VERSION = 1


@dataclass(frozen=True, eq=False)
class SpeakerPrior:
    """The average speaker of train, and a mixture of Gaussians that the normalised frames of all speakers follow.

    The mean of a recording of one word is that of its phones more than that of its speaker and microphone. The mixture
    explains the phones: the moments of a speaker are those after which the frames fit it best.

    `average` has mean and standard deviation [d] of the average speaker, `mixtures` one pdf of normalised frames
    [T, d], and `statistics` [5, d] are those of `_statistics` per frame of train.
    """

    average: Moments
    mixtures: Mixtures
    statistics: Array

    @classmethod
    def fit(cls, average: Moments, frames: Iterable[Array]) -> SpeakerPrior:
        """The prior with a mixture of up to 64 Gaussians of `frames`, arrays [T, d] normalised by speaker. O(T d).

        >>> generator = np.random.default_rng(0)
        >>> frames = generator.standard_normal((1000, 2))
        >>> SpeakerPrior.fit(Moments(1000, np.zeros(2), np.ones(2)), [frames]).mixtures.num_gaussians
        50
        """
        X = _thinned(list(frames))
        generator, pdfs = np.random.default_rng(0), np.zeros(len(X), dtype=np.int64)
        mixtures = Mixtures(np.ones(1, dtype=np.int64), np.ones(1), X.mean(0)[None], X.var(0)[None] + 1e-3)
        for doublings in range(1, NUM_GAUSSIANS.bit_length()):
            mixtures = split(mixtures, counts=np.array([len(X)]), num_gaussians=2**doublings, generator=generator)
            for _ in range(EM_ITERATIONS):
                mixtures = update(mixtures, accumulate(mixtures, X, pdfs))
        return cls(average, mixtures, _statistics(mixtures, X, X) / len(X))

    def moments(self, frames: Iterable[Array]) -> Moments:
        """The moments of the speaker of `frames`, arrays [T, d] of cepstra before normalisation.

        The plain moments of T frames, smoothed by those of `fitted` with the weight of 100 frames: a word is normalised
        by the mixture, and a minute of speech, in which all phones occur, by its own mean and variance.
        """
        arrays = list(frames)
        plain = group_moments(("", array) for array in arrays)[""]
        return smoothed(plain, self.fitted(arrays))

    def fitted(self, frames: Sequence[Array], *, prior_frames: float = PRIOR_FRAMES) -> Moments:
        """The moments after which the frames fit the mixture best.

        With z the frames normalised by the average speaker, y = a z + c maximises

            N log a - 1/2 sum_t sum_k p(k | y_t) (y_t - m_k)^2 / v_k

        in each dimension, for Gaussians k of means m and variances v, by EM with the maximum in closed form. The sums
        include `prior_frames` frames with the statistics of train, so that few frames give moments near the average.
        O(iterations T d) for T up to 20,000; of more, evenly spaced frames are used.

        Source: Gales 1998 (diagonal constrained transforms); Gauvain & Lee 1994 (priors as counts).
        """
        scale = self._scale
        z = (_thinned(frames) - self.average.mean) / scale
        a, c = np.ones(z.shape[1]), np.zeros(z.shape[1])
        for _ in range(ITERATIONS):
            (a, c), _ = self.best_affine(_statistics(self.mixtures, z, a * z + c), len(z), prior_frames=prior_frames)
        return Moments(sum(map(len, frames)), self.average.mean - scale * c / a, scale / a)

    def affine_statistics(self, frames: Array) -> Array:
        """The sums [5, d] over frames [T, d] from which `best_affine` computes the moments of several recordings.

        Gaussians are chosen by moments near the average speaker: those of one word would explain it by other phones.
        """
        moments = self.fitted([frames], prior_frames=ASSIGNMENT_PRIOR_FRAMES)
        z = (_thinned([frames]) - self.average.mean) / self._scale
        y = (z * self._scale + self.average.mean - moments.mean) / moments.std
        return _statistics(self.mixtures, z, y) * (len(frames) / len(z))

    def best_affine(
        self, statistics: Array, num_frames: Array | int, *, prior_frames: float = PRIOR_FRAMES
    ) -> tuple[tuple[Array, Array], Array]:
        """a and c [..., d] of `fitted` given sums [..., 5, d] over frames [...], and the maximum [...]."""
        weight = checks.positive_float("prior_frames", prior_frames)
        sums, N = statistics + weight * self.statistics, np.asarray(num_frames)[..., None] + weight
        a, c = _best_affine(sums, N)
        L, Lz, Lzz, M, Mz = np.moveaxis(sums, -2, 0)
        maximum = N * np.log(a) - (a * a * Lzz + 2 * a * c * Lz + c * c * L) / 2 + a * Mz + c * M
        return (a, c), maximum.sum(axis=-1)

    @cached_property
    def _scale(self) -> Array:
        return np.where(self.average.std > 0, self.average.std, 1.0)

    def of_speaker(self, moments: Moments) -> SpeakerPrior:
        """The prior of recordings of a known speaker."""
        return SpeakerPrior(moments, self.mixtures, self.statistics)

    def save(self, path: FilePath) -> None:
        arrays = {
            "mean": self.average.mean, "std": self.average.std, "weights": self.mixtures.weights,
            "means": self.mixtures.means, "variances": self.mixtures.variances, "statistics": self.statistics,
        }  # fmt: skip
        tensors = {name: torch.from_numpy(np.ascontiguousarray(array, np.float64)) for name, array in arrays.items()}
        write_tensors(path, tensors, {"version": VERSION, "num_frames": self.average.num_frames})

    @classmethod
    def load(cls, path: FilePath) -> SpeakerPrior:
        tensors, header = read_tensors(path)
        try:
            arrays: dict[str, Any] = {name: tensor.numpy() for name, tensor in tensors.items()}
            mean, std, weights = (arrays.pop(name) for name in ("mean", "std", "weights"))
            mixtures = Mixtures(np.array([len(weights)]), weights, arrays["means"], arrays["variances"])
            return cls(Moments(header["num_frames"], mean, std), mixtures, arrays["statistics"])
        except (KeyError, ValueError) as error:
            raise ValueError(f"{path} does not hold the prior of a speaker: {error!r}.") from error


def _thinned(arrays: Sequence[Array]) -> Array:
    """At most 20,000 evenly spaced rows of all arrays, float64."""
    step = max(1, -(-sum(map(len, arrays)) // MAX_FRAMES))
    return np.concatenate(arrays)[::step].astype(np.float64)


def _statistics(mixtures: Mixtures, z: Array, y: Array) -> Array:
    """Sums over t of L, L z, L z^2, M and M z, with L = sum_k p(k | y_t) / v_k and M = sum_k p(k | y_t) m_k / v_k."""
    scores = mixtures.component_log_likelihoods(y, slice(None)).astype(np.float64)
    posteriors = np.exp(scores - scores.max(axis=1, keepdims=True))
    posteriors /= posteriors.sum(axis=1, keepdims=True)
    L, M = posteriors @ (1 / mixtures.variances), posteriors @ (mixtures.means / mixtures.variances)
    return np.stack([part.sum(axis=0) for part in (L, L * z, L * z * z, M, M * z)])


def _best_affine(sums: Array, num_frames: Array) -> tuple[Array, Array]:
    """a > 0 and c that maximise N log a - sum_t (L_t (a z_t + c)^2 / 2 - M_t (a z_t + c)), from sums [..., 5, d].

    c = (sum M - a sum L z) / sum L; then N / a - a A + B = 0, whose positive root is the maximum.
    """
    L, Lz, Lzz, M, Mz = np.moveaxis(sums, -2, 0)
    A, B = Lzz - Lz**2 / L, Mz - M * Lz / L
    varies = 1e-10 * num_frames < A
    a = np.where(varies, (B + np.sqrt(B * B + 4 * A * num_frames)) / (2 * np.where(varies, A, 1.0)), 1.0)
    return a, (M - a * Lz) / L
