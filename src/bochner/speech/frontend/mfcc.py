"""Mel-frequency cepstra."""

from __future__ import annotations

from dataclasses import dataclass

from bochner import checks
from bochner.speech.frontend.arrays import Array
from bochner.speech.frontend.framing import Framing, all_frames, native


@dataclass(frozen=True, kw_only=True)
class Mfcc(Framing):
    """The cosine transform of the log mel energies, liftered by 1 + (lifter / 2) sin(pi k / lifter), as Kaldi does it.

    samples [n] -> float32 [T, num_cepstra]. With `energy` the first is the log energy of the raw frame, else C0.
    O(n log n). By kaldi-native-fbank. Source: Davis and Mermelstein, 1980.

    >>> import numpy as np
    >>> Mfcc(rate=16000)(np.zeros(16000)).shape
    (98, 13)
    """

    num_cepstra: int = 13
    lifter: float = 22.0
    energy: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.nonnegative_float("lifter", self.lifter)
        if checks.positive_int("num_cepstra", self.num_cepstra) > self.num_bins:
            raise ValueError(f"num_cepstra must be at most num_bins, {self.num_bins}, got {self.num_cepstra}.")

    @property
    def dim(self) -> int:
        return self.num_cepstra

    def __call__(self, samples: Array) -> Array:
        options = self.configure(native("MfccOptions")())
        options.num_ceps = self.num_cepstra
        options.cepstral_lifter = self.lifter
        options.use_energy = self.energy
        return all_frames(native("OnlineMfcc")(options), self.rate, self.scaled(samples))
