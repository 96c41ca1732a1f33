"""How well a model predicts a text."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from bochner.speech.lm.model import NgramModel
from bochner.speech.lm.sentences import UNKNOWN


@dataclass(frozen=True)
class Perplexity:
    """10^(-log10 p / tokens), the </s> of each sentence being a token.

    `value` counts unknown words with the probability of <unk>; `value_without_unknown` leaves them out of both sums,
    and is the one to compare models of different vocabularies with, beside the number of unknown words.
    """

    value: float
    value_without_unknown: float
    num_tokens: int
    num_sentences: int
    num_unknown: int


def perplexity(model: NgramModel, sentences: Iterable[str]) -> Perplexity:
    """The model's perplexity on a text. O(P n log N) for P tokens.

    >>> from bochner.speech.lm import estimate
    >>> model = estimate(["a b", "a c", "b"], order=2, fallback_discounts=(0.5, 1.0, 1.5))
    >>> result = perplexity(model, ["a b", "a d"])
    >>> round(result.value, 3), result.num_tokens, result.num_unknown
    (3.458, 6, 1)
    """
    text = model.encode(sentences)
    if not text.num_sentences:
        raise ValueError("sentences must hold at least one sentence, got none.")
    score, spoken, unknown = model.score(text), text.place > 0, text.ids == UNKNOWN
    return Perplexity(
        value=_perplexity(score[spoken]),
        value_without_unknown=_perplexity(score[spoken & ~unknown]),
        num_tokens=int(np.count_nonzero(spoken)),
        num_sentences=text.num_sentences,
        num_unknown=int(np.count_nonzero(unknown)),
    )


def _perplexity(log_probs: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
    return float(10 ** -log_probs.mean())
