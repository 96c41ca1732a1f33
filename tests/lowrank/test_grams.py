"""Gram matrices of blocks that are shared, against those of each row by itself."""

from __future__ import annotations

import pytest
import torch

from bochner.kernels import Gaussian
from bochner.lowrank.als import block_grams, solve_rows, worth_sharing
from bochner.lowrank.sampling import Samples, Tile, evaluate, sample_entries
from tests.lowrank.dense import dense_weights, generator, naive_rows, points

KERNEL = Gaussian(bandwidth=1.5)


def samples_of(block_size: int, num_samples: int) -> Samples:
    """53 points: no block size but 1 divides what the centers leave of them, so that the last block is not full."""
    return sample_entries(
        KERNEL,
        points(53),
        scheme="uniform+clustering",
        num_samples=num_samples,
        block_size=block_size,
        generator=generator(),
    )


@pytest.mark.parametrize("block_size", [2, 5])
def test_shared_grams_are_the_weighted_sums(block_size: int) -> None:
    samples, Q = samples_of(block_size, 1200), points(53, 4, seed=1)
    W = dense_weights(samples)
    W[:, samples.centers] = 0
    grams = block_grams(samples, torch.cat([Q, torch.zeros(1, 4, dtype=torch.float64)]))
    lengths = set()
    for tile in samples.tiles(column_elements=1):
        lengths.update((tile.columns < 53).sum(dim=1).tolist())
        for a, found in zip(tile.blocks, grams.of_tile(tile), strict=True):
            weights = W[samples.blocks[a, 0]]
            torch.testing.assert_close(found, Q.T @ (weights[:, None] * Q))
    assert len(lengths) > 1  # some lists were filled up


@pytest.mark.parametrize(("block_size", "num_samples", "shared"), [(5, 1200, True), (2, 300, False), (1, 1200, False)])
def test_grams_are_shared_while_there_is_room(block_size: int, num_samples: int, shared: bool) -> None:
    """Either way the rows solve the same problems."""
    samples, X = samples_of(block_size, num_samples), points(53)
    assert worth_sharing(samples, 8) == shared
    entries, W = evaluate(KERNEL, X, samples), dense_weights(samples)
    Q, prior = torch.linalg.qr(points(53, 8, seed=1)).Q, points(53, 8, seed=2)
    expected = naive_rows(W, KERNEL(X), Q, prior, 0.1)
    torch.testing.assert_close(solve_rows(entries, Q, prior, alpha=0.1), expected, rtol=1e-8, atol=1e-8)


def test_blocks_that_sampled_nothing_have_no_grams() -> None:
    samples, Q = samples_of(5, 1200), points(53, 4, seed=1)
    grams = block_grams(samples, torch.cat([Q, torch.zeros(1, 4, dtype=torch.float64)]))
    nothing = torch.zeros(2, 0)
    assert grams.of_tile(Tile(torch.arange(2), nothing.long(), nothing, nothing.long())).equal(
        torch.zeros(2, 4, 4, dtype=torch.float64)
    )
