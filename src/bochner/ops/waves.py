"""Cosines and sines in place."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from torch import Tensor

from bochner.ops.tiles import row_tiles

# On a CPU NumPy's float32 cosine takes half the time of torch's; below this size starting its threads costs more.
LARGE = 2**22
# Rows of a part that stays in a core's own cache from the sine to the cosine to the product.
CACHED = 2**17


def write_waves(angles: Tensor, amplitude: float, *, sines: Tensor | None = None) -> None:
    """angles <- amplitude cos(angles), and sines <- amplitude sin(angles) if given; [n, P] each, no gradients.

    >>> angles, sines = torch.tensor([[0.0, torch.pi]]), torch.empty(1, 2)
    >>> write_waves(angles, 2.0, sines=sines)
    >>> angles
    tensor([[ 2., -2.]])
    """
    if angles.device.type == "cpu" and angles.dtype == torch.float32 and angles.numel() >= LARGE:
        _write_threaded(angles, amplitude, sines)
        return
    if sines is not None:
        torch.sin(angles, out=sines).mul_(amplitude)
    angles.cos_().mul_(amplitude)


def _write_threaded(angles: Tensor, amplitude: float, sines: Tensor | None) -> None:
    """The same by NumPy, whose ufuncs leave other threads free to run: as many as torch may use."""
    cosines = angles.detach().numpy()
    others = None if sines is None else sines.detach().numpy()
    factor = np.float32(amplitude)

    def write_rows(rows: slice) -> None:
        if others is not None:
            np.multiply(np.sin(cosines[rows], out=others[rows]), factor, out=others[rows])
        np.multiply(np.cos(cosines[rows], out=cosines[rows]), factor, out=cosines[rows])

    parts = row_tiles(len(cosines), row_elements=cosines.shape[1], tile_elements=CACHED)
    with ThreadPoolExecutor(torch.get_num_threads()) as pool:
        list(pool.map(write_rows, parts))
