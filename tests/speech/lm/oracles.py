"""N-gram models by their definitions, with dictionaries and loops."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise

from bochner.speech.lm import NgramModel

Gram = tuple[str, ...]


def table(model: NgramModel) -> dict[Gram, tuple[float, float]]:
    """Every n-gram as words, with its log probability and back-off."""
    found: dict[Gram, tuple[float, float]] = {}
    grams: list[Gram] = [()]
    for level in model.levels:
        grams = [(*grams[c], model.words[w]) for c, w in zip(level.context, level.word, strict=True)]
        found |= dict(zip(grams, zip(level.log_prob, level.back_off, strict=True), strict=True))
    return found


def back_off(entries: dict[Gram, tuple[float, float]], word: str, history: Gram) -> float:
    """log10 p(word | history), by the rule of ARPA files."""
    if (*history, word) in entries:
        return entries[(*history, word)][0]
    return entries.get(history, (0.0, 0.0))[1] + back_off(entries, word, history[1:])


def kneser_ney(sentences: list[str], order: int, discounts: dict[int, list[float]]) -> dict[Gram, float]:
    """p of every n-gram of the text, from sets of left neighbours; discounts[n] = [0, D1, D2, D3+]."""
    counts: Counter[Gram] = Counter()
    before: defaultdict[Gram, set[str]] = defaultdict(set)
    for sentence in sentences:
        words = ("<s>", *sentence.split(), "</s>")
        for n in range(1, order + 1):
            for end in range(n, len(words) + 1):
                counts[words[end - n : end]] += 1
                if end > n:
                    before[words[end - n : end]].add(words[end - n - 1])
    adjusted = {g: c if len(g) == order or g[0] == "<s>" else len(before[g]) for g, c in counts.items()}
    del adjusted[("<s>",)]
    vocabulary = {g[0] for g in adjusted if len(g) == 1} | {"<unk>"}

    def prob(gram: Gram) -> float:
        if not gram:
            return 1 / len(vocabulary)
        D = discounts[len(gram)]
        following = [a for g, a in adjusted.items() if len(g) == len(gram) and g[:-1] == gram[:-1]]
        total, a = sum(following), adjusted.get(gram, 0)
        gamma = sum(D[min(c, 3)] for c in following) / total
        return (a - D[min(a, 3)]) / total + gamma * prob(gram[1:])

    return {gram: prob(gram) for gram in [*adjusted, ("<unk>",)]}


def discounts_of(sentences: list[str]) -> list[float]:
    """[0, D1, D2, D3+] of bigram counts, by Equation 26 of Chen & Goodman."""
    rows = (("<s>", *sentence.split(), "</s>") for sentence in sentences)
    counts = Counter(pair for row in rows for pair in pairwise(row))
    n = Counter(counts.values())
    Y = n[1] / (n[1] + 2 * n[2])
    return [0.0, 1 - 2 * Y * n[2] / n[1], 2 - 3 * Y * n[3] / n[2], 3 - 4 * Y * n[4] / n[3]]


def sentence_log_prob(entries: dict[Gram, tuple[float, float]], sentence: str, order: int) -> float:
    known = {g[0] for g in entries if len(g) == 1}
    words = ["<s>", *(w if w in known else "<unk>" for w in sentence.split()), "</s>"]
    positions = range(1, len(words))
    return sum(back_off(entries, words[i], tuple(words[max(0, i - order + 1) : i])) for i in positions)


__all__ = ["back_off", "discounts_of", "kneser_ney", "sentence_log_prob", "table"]
