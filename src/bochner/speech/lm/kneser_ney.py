"""Interpolated modified Kneser-Ney smoothing, as KenLM's lmplz estimates it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from bochner import checks
from bochner.speech.lm.ngram import BEGIN, SPECIAL, UNKNOWN, Grams, Ids, NgramModel, Stream, stream

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class CountedGrams:
    """All distinct n-grams of one order, sorted: row i is the (n-1)-gram `context[i]` followed by `word[i]`.

    `suffix[i]` is the row of the (n-1)-gram without the first word, `first[i]` that word, and `count[i]` the number of
    occurrences in the text. For n = 1 the rows are the word ids, including words that do not occur.
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
    text = stream(_encoded(sentences, ids, extend=vocabulary is None))
    if not text.num_sentences:
        raise ValueError("sentences must hold at least one sentence, got none.")
    return tuple(ids), list(_grams(text, order=order, num_words=len(ids)))


def _encoded(sentences: Iterable[str], ids: dict[str, int], *, extend: bool) -> Iterator[list[int]]:
    """Sentences as ids; new words get an id with `extend`, in the order of their occurrence, and else are <unk>."""
    for number, sentence in enumerate(sentences, start=1):
        words = sentence.split()
        if special := [word for word in words if word in SPECIAL[not extend :]]:
            raise ValueError(f"sentence {number} holds {special[0]}, which the model adds itself; remove it.")
        yield [ids.setdefault(word, len(ids)) if extend else ids.get(word, UNKNOWN) for word in words]


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

    sentences: words separated by spaces; an empty string is the empty sentence.
    vocabulary: the words of the model, all others are <unk>; None for the words of the text.
    prune: for each order, n-grams with counts up to this number are left out, and their mass goes to the back-off; not
        decreasing; the last number applies to all higher orders.
    fallback_discounts: (D1, D2, D3+) for an order whose counts of counts define none; None makes that an error.
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
    """The counts whose counts determine the discounts: for the last n-gram of each lower order, the plain count.

    This reproduces a bug of lmplz, which changes the discounts of small texts noticeably.
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
        discounts = k - (k + 1) * n[1] / (n[1] + 2 * n[2]) * n[k + 1] / n[k]
        if np.all((discounts >= 0) & (discounts <= k)):
            return np.concatenate([[0.0], discounts])
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
        discounted = np.where(kept, discount[np.minimum(a, 3)], a)
        total = np.bincount(grams.context, weights=a, minlength=len(lower))
        mass = np.bincount(grams.context, weights=discounted, minlength=len(lower))
        back_off = np.divide(mass, total, out=np.ones(len(total)), where=total > 0)
        prob = (a - discounted) / total[grams.context] + back_off[grams.context] * lower[grams.suffix]
        probs.append(prob)
        back_offs.append(back_off)
        lower = prob
    probs[0][BEGIN] = 1.0  # a sentence is scored given <s>
    return probs, [*back_offs[1:], np.ones_like(lower)]


def _model(
    words: tuple[str, ...],
    counted: Sequence[CountedGrams],
    keep: Sequence[Mask],
    probs: Sequence[Floats],
    back_offs: Sequence[Floats],
) -> NgramModel:
    """The kept n-grams, whose contexts and words are always kept, with renumbered rows."""
    new_word = np.cumsum(keep[0]) - 1
    new_context = np.zeros(1, dtype=np.int64)
    levels = []
    for grams, kept, prob, back_off in zip(counted, keep, probs, back_offs, strict=True):
        context, word = new_context[grams.context[kept]], new_word[grams.word[kept]]
        log_prob = np.minimum(0.0, np.log10(prob[kept]))
        levels.append(Grams(context, word, log_prob, np.log10(back_off[kept])))
        new_context = np.cumsum(kept) - 1
    return NgramModel(tuple(np.array(words, dtype=object)[keep[0]]), levels)
