"""How much speech and how large models a size has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from bochner.studies.study import Size

CE, ERLL = "ce", "erll:1"
PLAIN, BOTTLENECK, DRIVEN, BOTH = (False, CE), (True, CE), (False, ERLL), (True, ERLL)
Tricks = tuple[bool, str]


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Which tasks and models are measured.

    `num_features`, `width` and 4 layers are those of the ablations; `features`, `widths` and `depths` what they are
    varied over; `tricks` pairs of (bottleneck, metric). `recipe` changes the recipe of every task.
    """

    tasks: tuple[str, ...]
    num_features: int
    features: tuple[int, ...]
    rank: int
    rounds: int
    widths: tuple[int, ...]
    depths: tuple[int, ...]
    max_epochs: int
    seeds: tuple[int, ...] = (0,)
    tricks: tuple[Tricks, ...] = (PLAIN, BOTTLENECK, DRIVEN, BOTH)
    many: tuple[tuple[str, bool], ...] = tuple((k, s) for k in ("laplacian", "sparse-gaussian") for s in (False, True))
    recipe: Mapping[str, object] = field(default_factory=dict)


TINY = MappingProxyType(
    {
        "corpus.hours": 0.06, "corpus.minutes_per_speaker": 0.25, "corpus.num_words": 200, "corpus.telephone": 0,
        "corpus.babble": 0, "corpus.snr": [20, 30], "frontend.context": 2, "alignment.until": "monophone",
        "alignment.start": "known", "decoding.beam": 8.0, "decoding.max_active": 500,
    }
)  # fmt: skip
SHORT = MappingProxyType(
    {"corpus.hours": 0.2, "corpus.minutes_per_speaker": 0.5, "alignment.num_leaves": 200}  # those of timit-demo
)
SIZES: Mapping[Size, Sizes] = MappingProxyType(
    {
        "smoke": Sizes(
            tasks=("synthetic timit-like",), num_features=256, features=(32, 256), rank=32, rounds=3, widths=(64,),
            depths=(3, 4), max_epochs=3, tricks=(PLAIN, BOTTLENECK, BOTH), many=(("laplacian", False),), recipe=TINY,
        ),
        "small": Sizes(
            tasks=("synthetic timit-like",), num_features=1024, features=(256, 512, 1024), rank=100, rounds=5,
            widths=(128, 256), depths=(3, 4, 5), max_epochs=15, tricks=(PLAIN, BOTTLENECK, BOTH),
            many=(("laplacian", False),), recipe=SHORT,
        ),
        "paper": Sizes(
            tasks=("synthetic timit-like", "synthetic cantonese-like", "synthetic bengali-like",
                   "synthetic broadcast-like"), num_features=8192,
            features=(2048, 4096, 8192, 16384, 32768), rank=100, rounds=50, widths=(256, 512, 1024),
            depths=(3, 4, 5, 6), max_epochs=60, seeds=(0, 1, 2),
        ),
    }
)  # fmt: skip
