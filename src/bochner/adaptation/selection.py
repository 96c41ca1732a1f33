"""Random feature selection: Algorithm 1 of May et al. (draw, train briefly, keep the best features, draw again)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Generator, Tensor
from tqdm import tqdm

from bochner import checks
from bochner.data.batches import batches
from bochner.data.blocks import Block, Source, take
from bochner.features import FourierMap
from bochner.models.heads import FeatureModel, Head
from bochner.solvers.checkpoint import read_checkpoint, readable, write_checkpoint
from bochner.solvers.optimizers import SGDSettings, make_optimizer
from bochner.solvers.step import compute_precision, resident, run_steps
from bochner.storage import pack, unpack

if TYPE_CHECKING:
    from bochner.solvers.parallel import Workers

DrawMap = Callable[[int, Generator], FourierMap]  # number of features, generator
MakeHead = Callable[[int, Generator], Head]  # number of features, generator


@dataclass
class Selection:
    """The selected map and the rounds in which its frequencies were drawn."""

    feature_map: FourierMap
    births: Tensor  # [P] the round in which each frequency was drawn, from 1
    drawn: list[int] = field(default_factory=list)  # frequencies drawn in each round
    kept: list[Tensor] = field(default_factory=list)  # births of the frequencies kept after each round but the last

    def survival(self) -> Tensor:
        """For each round t, the share of the frequencies kept after it that are in the final map, [T - 1].

        By chance it would be T! / (t! T^(T - t)): see `chance_survival`.
        """
        rates = [float((self.births <= t).sum()) / len(births) for t, births in enumerate(self.kept, start=1)]
        return torch.tensor(rates, dtype=torch.float64)


def select_features(
    draw: DrawMap,
    make_head: MakeHead,
    source: Source,
    settings: SGDSettings,
    *,
    num_features: int,
    rounds: int = 50,
    rows_per_round: int = 1_000_000,
    generator: Generator,
    verbose: bool | None = None,
    checkpoint_dir: Path | None = None,
    group: Workers | None = None,
) -> Selection:
    """Algorithm 1 of May et al.: T rounds; after round t the s_t = D t / T features of largest weight are kept.

    Each round replaces the dropped features by newly drawn ones, resets the head, makes one SGD pass over
    `rows_per_round` random rows at `settings.learning_rate`, and keeps the frequencies whose rows of Theta (of U V with
    a bottleneck; both rows of a sine-cosine pair together) have the largest l2 norm. The last round only draws.
    D (T + 1) / 2 features are drawn in all. O(T R D (d + C)) for R = `rows_per_round`, and the memory of one model.
    With a `checkpoint_dir`, the same call resumes after the last complete round. With a `group`, processes divide the
    rows of a pass, and the features as in training; norms are then gathered.
    Source: May 2018, Section 5.1; JMLR 2019, Algorithm 1.

    >>> from bochner.data import ArraySource
    >>> from bochner.kernels import Laplacian
    >>> from bochner.models.heads import LinearHead
    >>> X = torch.randn(2000, 10, generator=Generator().manual_seed(0))
    >>> source = ArraySource(X, (X[:, 0] * X[:, 1] > 0).long())  # eight of ten inputs carry no information
    >>> def draw(num_features, generator):
    ...     return FourierMap.draw(
    ...         Laplacian(bandwidth=10.0), num_inputs=10, num_features=num_features, generator=generator
    ...     )
    >>> def make_head(num_features, generator):
    ...     return LinearHead.zeros(num_features=num_features, num_outputs=2)
    >>> chosen = select_features(
    ...     draw,
    ...     make_head,
    ...     source,
    ...     SGDSettings(learning_rate=16.0, batch_size=64),
    ...     num_features=128,
    ...     rounds=8,
    ...     rows_per_round=2000,
    ...     generator=Generator().manual_seed(0),
    ...     verbose=False,
    ... )
    >>> input_weights(chosen.feature_map, drop_largest=True).topk(2).indices.sort().values
    tensor([0, 1])
    """
    checks.positive_int("num_features", num_features)
    checks.positive_int("rounds", rounds)
    checks.positive_int("rows_per_round", rows_per_round)
    rate = fixed_rate(settings)
    feature_map = draw(num_features, generator)
    P = feature_map.num_frequencies
    if rounds > P:
        raise ValueError(f"rounds must be at most {P}, the number of frequencies: each keeps one more. Got {rounds}.")
    selection, device = (
        Selection(feature_map, torch.ones(P, dtype=torch.long), [P]),
        next(feature_map.parameters()).device,
    )
    if device.type == "cuda" and group is None:
        source = resident(source, device)
    fingerprint = {"num_features": num_features, "rounds": rounds, "rows_per_round": rows_per_round, **asdict(settings)}
    stored = None if checkpoint_dir is None else read_checkpoint(checkpoint_dir, fingerprint)
    if checkpoint_dir is not None and stored is not None:
        with readable(checkpoint_dir):
            selection = _restored(*stored, generator)
            selection.feature_map.to(device)
    remaining = range(len(selection.kept) + 1, rounds)
    for t in tqdm(remaining, desc="selection", unit="round", disable=None if verbose is None else not verbose):
        model = own_part(FeatureModel(selection.feature_map, make_head(num_features, generator)), device, group)
        read = partial(random_batches, source, settings, rows_per_round, pass_number=t, prefetch=device.type == "cuda")
        with compute_precision(settings.precision, device):
            for _ in run_steps(model, make_optimizer(model, settings, rate), read, settings, group=group):
                pass
        keep = largest(usable_norms(model, settings, group), P * t // rounds).to(
            next(selection.feature_map.parameters()).device
        )
        fresh = draw((P - len(keep)) * num_features // P, generator).to(keep.device)
        replace_features(selection, keep, fresh, t)
        if checkpoint_dir is not None:
            if group is None or group.is_first:
                _checkpoint(selection, generator, checkpoint_dir, fingerprint)
            if group is not None:
                group.wait()
    selection.feature_map.to(device)
    return selection


def _checkpoint(
    selection: Selection, generator: Generator, checkpoint_dir: Path, fingerprint: Mapping[str, Any]
) -> None:
    tensors = {f"kept.{number}": births for number, births in enumerate(selection.kept)}
    tensors |= {"births": selection.births, "generator": generator.get_state()}
    tree = pack(selection.feature_map, "map", tensors)
    write_checkpoint(checkpoint_dir, tensors, {"fingerprint": fingerprint, "map": tree, "drawn": selection.drawn})


def _restored(tensors: Mapping[str, Tensor], state: Mapping[str, Any], generator: Generator) -> Selection:
    """The selection of a checkpoint; also restores the state of the generator."""
    feature_map, drawn = unpack(state["map"], dict(tensors)), [checks.positive_int("drawn", n) for n in state["drawn"]]
    births, kept = tensors["births"], [tensors[f"kept.{number}"] for number in range(len(drawn) - 1)]
    if not isinstance(feature_map, FourierMap) or births.shape != (feature_map.num_frequencies,):
        raise ValueError("map must be a FourierMap with as many frequencies as births")
    generator.set_state(tensors["generator"])
    return Selection(feature_map, births, drawn, kept)


def own_part(model: FeatureModel, device: torch.device, group: Workers | None) -> FeatureModel:
    """This process's part of the model where `group` divides features, else the model; on `device`."""
    part = model if group is None else group.split(model, None)[0]
    assert isinstance(part, FeatureModel)
    return part.to(device)


def replace_features(selection: Selection, keep: Tensor, fresh: FourierMap, t: int) -> None:
    """After round t: keep the frequencies `keep` and append the `fresh` ones."""
    births = selection.births[keep.cpu()]
    selection.kept.append(births)
    selection.feature_map = selection.feature_map.take(keep).join(fresh)
    selection.births = torch.cat([births, torch.full((fresh.num_frequencies,), t + 1)])
    selection.drawn.append(fresh.num_frequencies)


def frequency_norms(model: FeatureModel) -> Tensor:
    """The norm of each frequency's weights: its row of Theta, or both rows of a sine-cosine pair, [P]."""
    norms, z = model.head.row_norms(), model.feature_map
    if not isinstance(z, FourierMap):
        raise TypeError(f"selection needs a model on a FourierMap, got one on a {type(z).__name__}.")
    return norms if z.form == "cosine" else norms.reshape(2, z.num_frequencies).norm(dim=0)


def usable_norms(model: FeatureModel, settings: SGDSettings, group: Workers | None) -> Tensor:
    """`frequency_norms` of all parts of the model; an error if SGD diverged, since NaN would count as the largest."""
    norms = frequency_norms(model)
    if group is not None:
        norms = group.join_features(norms, model)
    if not torch.isfinite(norms).all():
        raise FloatingPointError(f"selection diverged at learning_rate={settings.learning_rate!r}; give a smaller one.")
    return norms


def largest(norms: Tensor, count: int) -> Tensor:
    """The indices of the `count` largest norms, in ascending order."""
    return norms.topk(count).indices.sort().values


def chance_survival(rounds: int) -> Tensor:
    """The survival rate of `Selection.survival` if features were kept at random: T! / (t! T^(T - t)) of all rounds."""
    rates = torch.ones(rounds - 1, dtype=torch.float64)
    for t in range(rounds - 2, 0, -1):
        rates[t - 1] = rates[t] * (t + 1) / rounds
    return rates


def input_weights(feature_map: FourierMap, *, drop_largest: bool = False) -> Tensor:
    """The relative weight of each input, sum_j |W_ij| scaled to mean 1, [d].

    For heavy-tailed frequencies (Laplacian) `drop_largest` omits the largest entry of each row, as in the papers.
    """
    W = feature_map.frequencies().abs()
    weights = W.sum(dim=1) - (W.max(dim=1).values if drop_largest else 0)
    return weights / weights.mean()


def fixed_rate(settings: SGDSettings) -> float:
    """The learning rate, which must be a number: selection takes plain steps, as in the papers."""
    if isinstance(settings.learning_rate, str):
        raise ValueError("learning_rate must be a number for selection; find one with find_rate first.")
    if settings.preconditioner_rank:
        raise ValueError(f"preconditioner_rank must be 0 for selection, got {settings.preconditioner_rank!r}.")
    return settings.learning_rate


def random_batches(
    source: Source,
    settings: SGDSettings,
    num_rows: int,
    rows: int,
    *,
    pass_number: int,
    prefetch: bool = False,
) -> Iterator[Block]:
    """Blocks of `rows` rows, one batch or several whole ones, of `num_rows` random rows in all.

    If `num_rows` exceeds the size of the source, rows are repeated in a new order; the batches do not depend on `rows`.
    """
    steps, size = -(-num_rows // settings.batch_size), settings.batch_size
    for repeat in itertools.count():
        epoch = 1_000_000 * pass_number + repeat  # a different order for each repetition of each pass
        blocks = batches(source, batch_size=rows, seed=settings.seed, epoch=epoch, prefetch=prefetch)
        for block in blocks:
            yield take(block, slice(0, steps * size))
            steps -= -(-len(block.y) // size)
            if steps <= 0:
                return
