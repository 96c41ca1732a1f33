"""Random feature selection: draw, train a little, keep the best, draw again."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Generator, Tensor
from tqdm import tqdm

from bochner import checks
from bochner.data.batches import batches
from bochner.data.blocks import Source
from bochner.features import FourierMap
from bochner.learn.heads import Head
from bochner.learn.model import FeatureModel
from bochner.train.recipe import Recipe
from bochner.train.step import compute_precision, device_of, make_optimizer, take_step

DrawMap = Callable[[int, Generator], FourierMap]  # number of features, generator
MakeHead = Callable[[int, Generator], Head]  # number of features, generator


@dataclass
class Selection:
    """The selected map and where its frequencies came from."""

    feature_map: FourierMap
    births: Tensor  # [P] the round in which each frequency was drawn, from 1
    drawn: list[int] = field(default_factory=list)  # frequencies drawn in each round
    kept: list[Tensor] = field(default_factory=list)  # births of the frequencies kept after each round but the last

    def survival(self) -> Tensor:
        """For each round t, the share of the frequencies kept after it that reach the final map, [T - 1].

        By chance it would be T! / (t! T^(T - t)): see `chance_survival`.
        """
        final = self.kept[-1]
        rates = [float((final <= t).sum()) / len(births) for t, births in enumerate(self.kept, start=1)]
        return torch.tensor(rates, dtype=torch.float64)


def select_features(
    draw: DrawMap,
    make_head: MakeHead,
    source: Source,
    recipe: Recipe,
    *,
    num_features: int,
    rounds: int = 50,
    rows_per_round: int = 1_000_000,
    generator: Generator,
    progress: bool = True,
) -> Selection:
    """Algorithm 1 of May et al.: T rounds; after round t the s_t = D t / T features of largest weight are kept.

    Each round fills the free places with fresh features, starts the head anew, makes one SGD pass over
    `rows_per_round` random rows at `recipe.learning_rate`, and keeps the frequencies whose rows of Theta (of U V with a
    bottleneck; both rows of a sine-cosine pair together) have the largest l2 norm. The last round only draws.
    D (T + 1) / 2 features are seen in all. Source: May 2018, Section 5.1; JMLR 2019, Algorithm 1.
    """
    checks.positive_int("num_features", num_features)
    checks.positive_int("rounds", rounds)
    checks.positive_int("rows_per_round", rows_per_round)
    if isinstance(recipe.learning_rate, str):
        raise ValueError("recipe.learning_rate must be a number for selection; find one with find_rate first.")
    feature_map = draw(num_features, generator)
    per_frequency = num_features // feature_map.num_frequencies
    selection = Selection(feature_map, torch.ones(feature_map.num_frequencies, dtype=torch.long))
    selection.drawn.append(feature_map.num_frequencies)
    for t in tqdm(range(1, rounds), desc="selection", unit="round", disable=not progress):
        model = FeatureModel(selection.feature_map, make_head(num_features, generator))
        _one_pass(model, source, recipe, rows_per_round, epoch=t)
        count = feature_map.num_frequencies * t // rounds
        keep = frequency_norms(model).topk(count).indices.sort().values
        births = selection.births[keep.cpu()]
        selection.kept.append(births)
        missing = (feature_map.num_frequencies - count) * per_frequency
        fresh = draw(missing, generator).to(keep.device)
        selection.feature_map = selection.feature_map.take(keep).join(fresh)
        selection.births = torch.cat([births, torch.full((fresh.num_frequencies,), t + 1)])
        selection.drawn.append(fresh.num_frequencies)
    return selection


def frequency_norms(model: FeatureModel) -> Tensor:
    """How much the head uses each frequency: the norm of its row of Theta, of both rows for a sine-cosine pair."""
    norms = model.head.row_norms()
    z = model.feature_map
    assert isinstance(z, FourierMap)
    return norms if z.form == "cosine" else norms.reshape(2, z.num_frequencies).norm(dim=0)


def chance_survival(rounds: int) -> Tensor:
    """The survival rate of `Selection.survival` if features were kept at random: T! / (t! T^(T - t)) of all rounds."""
    rates = torch.ones(rounds - 1, dtype=torch.float64)
    for t in range(rounds - 2, 0, -1):
        rates[t - 1] = rates[t] * (t + 1) / rounds
    return rates


def input_weights(feature_map: FourierMap, *, drop_largest: bool = False) -> Tensor:
    """The relative weight of each input, sum_j |W_ij| scaled to mean 1, [d].

    For heavy-tailed frequencies (Laplacian) `drop_largest` leaves out the largest entry of each row, as the papers do.
    """
    W = feature_map.frequencies().abs()
    weights = W.sum(dim=1) - (W.max(dim=1).values if drop_largest else 0)
    return weights / weights.mean()


def _one_pass(model: FeatureModel, source: Source, recipe: Recipe, num_rows: int, *, epoch: int) -> None:
    """SGD over `num_rows` random rows; more than there are starts over in another order."""
    assert not isinstance(recipe.learning_rate, str)
    optimizer = make_optimizer(model, recipe, recipe.learning_rate)
    steps = -(-num_rows // recipe.batch_size)
    orders = (
        batches(source, batch_size=recipe.batch_size, seed=recipe.seed, epoch=1_000_000 * epoch + lap)
        for lap in itertools.count()
    )
    with compute_precision(recipe.precision, device_of(model)):
        for block in itertools.islice(itertools.chain.from_iterable(orders), steps):
            take_step(model, optimizer, block, loss=recipe.loss)
