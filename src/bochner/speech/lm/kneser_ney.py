"""Interpolated modified Kneser-Ney smoothing, as KenLM's lmplz estimates it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from bochner import checks
from bochner.speech.lm.ngram import BEGIN, SPECIAL, Grams, Ids, NgramModel, Stream, stream


@dataclass(frozen=True)
class CountedGrams:
    """All distinct n-grams of one order, sorted: row i is the (n-1)-gram `context[i]` followed by `word[i]`.

    `suffix[i]` is the row of the (n-1)-gram without the first word, `first[i]` that word, and `count[i]` how often the
    n-gram stands in the text. For n = 1 the rows are the word ids, also those never seen.
    """

    context: Ids
    word: Ids
    suffix: Ids
    first: Ids
    count: Ids


def count(
    sentences: Iterable[str], *, order: int, vocabulary: Iterable[str] | None = None
) -> tuple[tuple[str, ...], list[CountedGrams]]:
    """The words by id, and the counted n-grams of orders 1 to `order`. O(P log P) per order for P tokens.

    >>> words, (unigrams, bigrams) = count(["a b a", "a"], order=2)
    >>> words
    ('<unk>', '<s>', '</s>', 'a', 'b')
    >>> [(words[c], words[w], int(n)) for c, w, n in zip(bigrams.context, bigrams.word, bigrams.count)]
    [('<s>', 'a', 2), ('a', '</s>', 2), ('a', 'b', 1), ('b', 'a', 1)]
    """
    ids = {word: i for i, word in enumerate(dict.fromkeys((*SPECIAL, *sorted(vocabulary or ()))))}
    text = stream(_known(sentences, ids) if vocabulary is not None else _open(sentences, ids))
    if not text.num_sentences:
        raise ValueError("sentences must hold at least one sentence, got none.")
    return tuple(ids), list(_grams(text, order=order, num_words=len(ids)))


def _open(sentences: Iterable[str], ids: dict[str, int]) -> Iterator[list[int]]:
    """Every word of the text gets an id, in the order of first sight."""
    for number, sentence in enumerate(sentences, start=1):
        row = [ids.setdefault(word, len(ids)) for word in sentence.split()]
        if row and min(row) < len(SPECIAL):
            raise ValueError(f"sentence {number} holds {SPECIAL[min(row)]}, which the model adds itself; remove it.")
        yield row


def _known(sentences: Iterable[str], ids: dict[str, int]) -> Iterator[list[int]]:
    """Words outside the vocabulary become <unk>."""
    for number, sentence in enumerate(sentences, start=1):
        row = [ids.get(word, 0) for word in sentence.split()]
        if any(0 < i < len(SPECIAL) for i in row):
            raise ValueError(f"sentence {number} holds <s> or </s>, which the model adds itself; remove them.")
        yield row


def _grams(text: Stream, *, order: int, num_words: int) -> Iterator[CountedGrams]:
    """Order by order: an n-gram that ends at p is the (n-1)-gram that ends at p - 1 and the word at p."""
    rows = text.ids
    first = words = np.arange(num_words)
    root = np.zeros_like(words)
    yield CountedGrams(root, words, root, first, np.bincount(rows, minlength=num_words))
    for n in range(2, order + 1):
        ends = np.flatnonzero(text.place >= n - 1)
        keys = rows[ends - 1] * num_words + text.ids[ends]
        unique, seen, inverse, number = np.unique(keys, return_index=True, return_inverse=True, return_counts=True)
        context, word = np.divmod(unique, num_words)
        first = first[context]
        yield CountedGrams(context, word, rows[ends[seen]], first, number)
        rows = np.full_like(rows, -1)
        rows[ends] = inverse


Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


def estimate(
    sentences: Iterable[str],
    *,
    order: int,
    vocabulary: Iterable[str] | None = None,
    prune: Sequence[int] = (0,),
    fallback_discounts: Sequence[float] | None = None,
) -> NgramModel:
    """p(w | h) = (a(h w) - D(a(h w))) / a(h .) + g(h) p(w | h'), with h' the history h without its first word.

    a is the count at the highest order and for n-grams that begin with <s>, else the number of distinct words before
    the n-gram. D1, D2, D3+ come from the counts of counts of each order; g(h) is the mass they take away. Unigrams are
    interpolated with 1 / V over all words, </s> and <unk> included and <s> not.

    sentences: words between spaces; an empty one is the empty sentence.
    vocabulary: None takes the words of the text; else exactly these words, all others being <unk>.
    prune: for each order, n-grams with counts up to this are left out, their mass going to the back-off; never
        decreasing, and the last number stands for all higher orders too.
    fallback_discounts: (D1, D2, D3+) for an order whose counts of counts give none; None makes that an error.
    O(P log P) time and O(P) memory per order for P tokens.
    Source: Chen & Goodman 1998, Equations 24-26; Heafield et al. 2013.

    >>> model = estimate(["a b", "a c", "b"], order=2, fallback_discounts=(0.5, 1.0, 1.5))
    >>> round(model.log_prob("a", ["<s>"]), 4)
    -0.3716
    """
    checks.positive_int("order", order)
    thresholds = _thresholds(prune, order)
    words, counted = count(sentences, order=order, vocabulary=vocabulary)
    keep = _kept(counted, thresholds)
    adjusted = _adjusted(counted)
    tallied = _as_lmplz_tallies(counted, adjusted)
    discounts = [_discounts(a, n, fallback_discounts) for n, a in enumerate(tallied, start=1)]
    probs, back_offs = _interpolated(counted, adjusted, keep, discounts)
    return _model(words, counted, keep, probs, back_offs)


def _thresholds(prune: Sequence[int], order: int) -> list[int]:
    numbers = [checks.nonnegative_int("prune", threshold) for threshold in prune]
    if not 1 <= len(numbers) <= order or any(low > high for low, high in pairwise(numbers)):
        raise ValueError(f"prune must be 1 to order={order} numbers that never decrease, got {tuple(prune)}.")
    return numbers + numbers[-1:] * (order - len(numbers))


def _kept(counted: Sequence[CountedGrams], thresholds: Sequence[int]) -> list[Mask]:
    keep = [grams.count > threshold for grams, threshold in zip(counted, thresholds, strict=True)]
    if thresholds[0] == 0:
        keep[0][:] = True  # words of a given vocabulary that the text does not hold
    keep[0][: len(SPECIAL)] = True
    return keep


def _adjusted(counted: Sequence[CountedGrams]) -> list[Ids]:
    """Counts at the top; below, the number of distinct words before each n-gram unless <s> is its first word."""
    adjusted = [grams.count.copy() for grams in counted]
    for n, longer in enumerate(counted[1:]):
        extensions = np.bincount(longer.suffix, minlength=len(adjusted[n]))
        adjusted[n] = np.where(counted[n].first == BEGIN, counted[n].count, extensions)
    adjusted[0][BEGIN] = 0  # never predicted
    return adjusted


def _as_lmplz_tallies(counted: Sequence[CountedGrams], adjusted: Sequence[Ids]) -> list[Ids]:
    """What the counts of counts are taken of: the last n-gram of each lower order, read from its end, counts plainly.

    A slip of lmplz's that moves discounts a little, in small texts by more than the last digits; kept to give its
    numbers.
    """
    tallied = [a.copy() for a in adjusted]
    last = np.flatnonzero(counted[0].count)[-1:]
    for shorter, longer, counts in zip(counted[:-1], counted[1:], tallied[:-1], strict=True):
        counts[last] = shorter.count[last]
        longer_ones = np.flatnonzero(np.isin(longer.suffix, last))
        last = longer_ones[np.argsort(longer.first[longer_ones])[-1:]]
    return tallied


def _discounts(adjusted: Ids, order: int, fallback: Sequence[float] | None) -> Floats:
    """[0, D1, D2, D3+]: D_k = k - (k + 1) Y n_{k+1} / n_k with Y = n_1 / (n_1 + 2 n_2)."""
    if fallback is not None:
        fallback = _checked_fallback(fallback)
    n = np.bincount(np.minimum(adjusted, 5), minlength=6).astype(np.float64)
    k = np.arange(1, 4)
    if n[k].all():
        found = k - (k + 1) * n[1] / (n[1] + 2 * n[2]) * n[k + 1] / n[k]
        if np.all((found >= 0) & (found <= k)):
            return np.concatenate([[0.0], found])
    if fallback is None:
        raise ValueError(
            f"no discounts for {order}-grams: {n[1]:.0f}, {n[2]:.0f}, {n[3]:.0f}, {n[4]:.0f} of them have counts "
            "1, 2, 3, 4. Use more text, or pass fallback_discounts=(0.5, 1.0, 1.5)."
        )
    return np.array([0.0, *fallback])


def _checked_fallback(fallback: Sequence[float]) -> list[float]:
    numbers = [checks.nonnegative_float("fallback_discounts", number) for number in fallback]
    if len(numbers) != 3 or any(number > k for k, number in enumerate(numbers, start=1)):
        raise ValueError(f"fallback_discounts must be (D1 <= 1, D2 <= 2, D3 <= 3), got {tuple(fallback)}.")
    return numbers


def _interpolated(
    counted: Sequence[CountedGrams], adjusted: Sequence[Ids], keep: Sequence[Mask], discounts: Sequence[Floats]
) -> tuple[list[Floats], list[Floats]]:
    """p of every n-gram and g of every history, order by order; g is 1 where nothing follows."""
    probs: list[Floats] = []
    back_offs: list[Floats] = []
    lower = np.array([1.0 / (np.count_nonzero(keep[0]) - 1)])
    for grams, a, kept, discount in zip(counted, adjusted, keep, discounts, strict=True):
        taken = np.where(kept, discount[np.minimum(a, 3)], a)
        total = np.bincount(grams.context, weights=a, minlength=len(lower))
        mass = np.bincount(grams.context, weights=taken, minlength=len(lower))
        back_off = np.divide(mass, total, out=np.ones_like(total), where=total > 0)
        prob = (a - taken) / total[grams.context] + back_off[grams.context] * lower[grams.suffix]
        probs.append(prob)
        back_offs.append(back_off)
        lower = prob
    probs[0][BEGIN] = 1.0  # so that a sentence may be scored from <s> on
    return probs, [*back_offs[1:], np.ones_like(lower)]


def _model(
    words: tuple[str, ...],
    counted: Sequence[CountedGrams],
    keep: Sequence[Mask],
    probs: Sequence[Floats],
    back_offs: Sequence[Floats],
) -> NgramModel:
    """The kept n-grams, their rows numbered anew: what is kept has its context and words kept as well."""
    new_word = np.cumsum(keep[0]) - 1
    new_context = np.zeros(1, dtype=np.int64)
    levels = []
    for grams, kept, prob, back_off in zip(counted, keep, probs, back_offs, strict=True):
        context, word = new_context[grams.context[kept]], new_word[grams.word[kept]]
        log_prob = np.minimum(0.0, np.log10(prob[kept]))
        levels.append(Grams(context, word, log_prob, np.log10(back_off[kept])))
        new_context = np.cumsum(kept) - 1
    return NgramModel(tuple(np.array(words, dtype=object)[keep[0]]), levels)
