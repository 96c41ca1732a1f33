"""Feature selection by a group-lasso (l1/l2) penalty, fitted by forward-backward splitting (FOBOS)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Generator, Tensor
from tqdm import tqdm

from bochner import checks
from bochner.adaptation.selection import (
    DrawMap,
    MakeHead,
    Selection,
    fixed_rate,
    frequency_norms,
    largest,
    own_part,
    random_batches,
    usable_norms,
)
from bochner.data.blocks import Source
from bochner.models.heads import FeatureModel, LinearHead
from bochner.solvers.optimizers import SGDSettings, make_optimizer
from bochner.solvers.step import compute_precision, run_steps

if TYPE_CHECKING:
    from bochner.solvers.parallel import Workers

MAX_TRIALS = 16  # factors of 4 bracket the penalty in a few fits, and each bisection then halves its logarithm
FACTOR = 4.0  # between penalties, until two of them bracket the requested number of frequencies
SLACK = 1.05  # a penalty that leaves up to 5 % too many is accepted: those of smallest norm are dropped


class Trial(NamedTuple):
    """A penalty and the number of frequencies whose weights it left non-zero."""

    penalty: float
    survivors: int


@dataclass
class FobosSelection(Selection):
    """The selected map, the penalty that selected it, and all penalties that were tried."""

    penalty: float = 0.0
    trials: list[Trial] = field(default_factory=list)


def shrink(model: FeatureModel, amount: float) -> None:
    """The proximal step of amount * sum_j ||theta_j||: theta_j <- theta_j max(0, 1 - amount / ||theta_j||), in place.

    theta_j holds all weights of frequency j: C of them in the cosine form, 2 C in the paired one. The bias does not
    change. O(C D). Source: Duchi & Singer 2009, Section 5.

    >>> from bochner.features import FourierMap
    >>> from bochner.kernels import Gaussian
    >>> z = FourierMap.draw(Gaussian(), num_inputs=2, num_features=4, generator=Generator().manual_seed(0))
    >>> model = FeatureModel(z, LinearHead(torch.tensor([[3.0, 0.1, 4.0, 0.0]]), torch.zeros(1)))
    >>> shrink(model, 1.0)  # frequency 0 has weights (3, 4) of norm 5, frequency 1 has (0.1, 0)
    >>> model.head.weights.tolist()
    [[2.4000000953674316, 0.0, 3.200000047683716, 0.0]]
    """
    head, norms = _linear_head(model), frequency_norms(model)
    factors = (1 - amount / norms).clamp_min_(0)  # a norm of 0 gives -inf, hence 0
    repeated = factors if len(factors) == head.weights.shape[1] else factors.repeat(2)
    with torch.no_grad():
        head.weights.mul_(torch.where(repeated.isnan(), 1.0, repeated))  # 0 / 0: no penalty, no change


def fit_fobos(
    model: FeatureModel,
    source: Source,
    settings: SGDSettings,
    *,
    penalty: float,
    num_rows: int,
    group: Workers | None = None,
) -> None:
    """Minimise loss + penalty * sum_j ||theta_j|| in place: SGD steps, each followed by `shrink` by rate * penalty.

    One pass over R = `num_rows` random rows at the fixed `settings.learning_rate`. A frequency at 0 stays there as long
    as the gradient of its weights on a batch has a norm of at most `penalty`. O(R D (d + C)).
    Source: Duchi & Singer 2009.
    """
    checks.nonnegative_float("penalty", penalty)
    rate = _plain_rate(settings)
    _linear_head(model)
    optimizer = make_optimizer(model, settings, rate)
    read = partial(random_batches, source, settings, checks.positive_int("num_rows", num_rows), pass_number=0)
    with compute_precision(settings.precision, next(model.parameters()).device):
        for _ in run_steps(model, optimizer, read, settings, fuse=False, group=group):
            shrink(model, rate * penalty)


def select_by_fobos(
    draw: DrawMap,
    make_head: MakeHead,
    source: Source,
    settings: SGDSettings,
    *,
    num_features: int,
    num_drawn: int,
    num_rows: int = 1_000_000,
    penalty: float | str = "auto",
    generator: Generator,
    verbose: bool | None = None,
    group: Workers | None = None,
) -> FobosSelection:
    """Draw `num_drawn` features at once, fit them under an l1/l2 penalty, and keep `num_features` of the non-zero ones.

    Penalty "auto" searches for the one that leaves just enough frequencies, at most 5 % too many, in up to 16 fits; it
    starts at the penalty at which one step would leave the right number. Of the non-zero frequencies those of largest
    norm are kept. Algorithm 1 (`select_features`) draws as many features for num_drawn = num_features (rounds + 1) / 2,
    without ever holding them all. O(fits R num_drawn (d + C)) for R = `num_rows`. With a `group`, processes divide rows
    and features as in training. Source: the alternative of May 2018, Section 5.1, after Duchi & Singer 2009.

    >>> from bochner.data import ArraySource
    >>> from bochner.features import FourierMap
    >>> from bochner.kernels import Laplacian
    >>> X = torch.randn(2000, 10, generator=Generator().manual_seed(0))
    >>> source = ArraySource(X, (X[:, 0] * X[:, 1] > 0).long())
    >>> def draw(num_features, generator):
    ...     return FourierMap.draw(
    ...         Laplacian(bandwidth=10.0), num_inputs=10, num_features=num_features, generator=generator
    ...     )
    >>> def make_head(num_features, generator):
    ...     return LinearHead.zeros(num_features=num_features, num_outputs=2)
    >>> chosen = select_by_fobos(
    ...     draw,
    ...     make_head,
    ...     source,
    ...     SGDSettings(learning_rate=16.0, batch_size=64),
    ...     num_features=128,
    ...     num_drawn=512,
    ...     num_rows=2000,
    ...     generator=Generator().manual_seed(0),
    ...     verbose=False,
    ... )
    >>> chosen.feature_map.num_features, dict(chosen.trials)[chosen.penalty] >= 64
    (128, True)
    """
    checks.positive_int("num_features", num_features)
    if checks.positive_int("num_drawn", num_drawn) < num_features:
        raise ValueError(f"num_drawn must be at least num_features, {num_features}, got {num_drawn}.")
    pool = draw(num_drawn, generator)
    device = next(pool.parameters()).device
    count = num_features * pool.num_frequencies // num_drawn

    def norms_after(value: float, rows: int = num_rows) -> Tensor:
        model = own_part(FeatureModel(pool, make_head(num_drawn, generator)), device, group)
        fit_fobos(model, source, settings, penalty=value, num_rows=rows, group=group)
        return usable_norms(model, settings, group)

    if isinstance(penalty, str):
        checks.one_of("penalty", penalty, ["auto"])
        # After one step from 0 the norms are those of the gradients, times the rate.
        gradients = norms_after(0.0, settings.batch_size) / _plain_rate(settings)
        start, max_trials = float(gradients.topk(count).values[-1]), MAX_TRIALS
    else:
        start, max_trials, verbose = penalty, 1, False
    best, norms, trials = search_penalty(norms_after, count, start=start, max_trials=max_trials, verbose=verbose)
    keep = largest(norms, count).to(next(pool.parameters()).device)
    births = torch.ones(count, dtype=torch.long)
    return FobosSelection(pool.take(keep).to(device), births, [pool.num_frequencies], [], best, trials)


def search_penalty(
    norms_after: Callable[[float], Tensor],
    count: int,
    *,
    start: float,
    max_trials: int,
    slack: float = SLACK,
    verbose: bool | None,
) -> tuple[float, Tensor, list[Trial]]:
    """The largest penalty tried that leaves `count` frequencies, their norms, and all trials.

    Penalties change by factors of 4 until two of them bracket `count`, then by bisection of their logarithms.
    """
    penalty, low, high, best = start, 0.0, math.inf, None
    trials: list[Trial] = []
    for _ in tqdm(range(max_trials), desc="fobos", unit="fit", disable=None if verbose is None else not verbose):
        norms = norms_after(penalty)
        trials.append(Trial(penalty, int((norms > 0).sum())))
        if trials[-1].survivors < count:
            high = penalty
        else:
            low, best = penalty, norms
            if trials[-1].survivors <= slack * count:
                break
        bracketed = low > 0 and not math.isinf(high)
        penalty = math.sqrt(low * high) if bracketed else low * FACTOR if math.isinf(high) else high / FACTOR
    if best is None:
        penalty, survivors = trials[-1]
        raise ValueError(
            f"penalty={penalty!r} leaves {survivors} of the {count} frequencies needed; give a smaller one or 'auto'."
        )
    return low, best, trials


def _plain_rate(settings: SGDSettings) -> float:
    if settings.optimizer != "sgd":
        raise ValueError(
            f"optimizer must be 'sgd' for FOBOS, whose proximal step follows a plain one, got {settings.optimizer!r}."
        )
    return fixed_rate(settings)


def _linear_head(model: FeatureModel) -> LinearHead:
    if not isinstance(model.head, LinearHead):
        raise TypeError(
            f"FOBOS needs a LinearHead, whose weights belong to one feature each, got {type(model.head).__name__}; "
            "use select_features for other heads."
        )
    return model.head
