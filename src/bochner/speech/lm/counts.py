"""Counts of all n-grams up to an order, by sorting arrays of ids: no loop over n-grams."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from bochner.speech.lm.sentences import SPECIAL, Ids, Stream, stream


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
