"""Log mel filterbank energies."""

from __future__ import annotations

from dataclasses import dataclass

from bochner.speech.frontend.arrays import Array
from bochner.speech.frontend.framing import Framing, all_frames, native


@dataclass(frozen=True, kw_only=True)
class Fbank(Framing):
    """log max(eps, sum_f w_bf |X_t(f)|^2): energies of the mel bands b of frame t, as Kaldi computes them.

    samples [n] -> float32 [T, num_bins], with `energy` [T, 1 + num_bins]: the log energy of the raw frame first.
    O(n log n). By kaldi-native-fbank.

    >>> import numpy as np
    >>> Fbank(rate=8000, num_bins=40)(np.zeros(8000)).shape
    (98, 40)
    """

    energy: bool = False

    @property
    def dim(self) -> int:
        return self.num_bins + self.energy

    def __call__(self, samples: Array) -> Array:
        options = self.configure(native("FbankOptions")())
        options.use_energy = self.energy
        return all_frames(native("OnlineFbank")(options), self.rate, self.scaled(samples))
