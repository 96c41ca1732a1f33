"""Replacing the language model of a saved acoustic model, and adding words to it."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from bochner.acoustic.model import AcousticModel
from bochner.speech.graph import compose_graph
from bochner.speech.lexicon import Lexicon, read_lexicon
from bochner.speech.lm import NgramModel, estimate, read_arpa
from bochner.speech.lm.ngram import Grams
from bochner.speech.pipeline.decoding import FALLBACK_DISCOUNTS

logger = logging.getLogger(__name__)
TEXT_ORDER = 3  # n-gram of a language model from plain text


def with_language(model: AcousticModel, *, lm: Path | None = None, lexicon: Path | None = None) -> AcousticModel:
    """The model with words of `lexicon` added, or their pronunciations replaced, and with the language model `lm`.

    `lm` is an ARPA file (.arpa, .lm, also .gz) or a text with one sentence per line, from which a trigram model is
    estimated. Without one, new words share the probability of unknown words in the model's own language model.
    """
    entries = model.lexicon
    if lexicon is not None:
        added = _of_model(read_lexicon(lexicon, silence=model.lexicon.silence), model)
        kept = {key: p for key, p in entries.probabilities.items() if key[0] not in added}
        entries = Lexicon({**entries.entries, **added.entries}, entries.silence, kept)
    if lm is not None:
        grammar = read_language_model(lm, words=entries.words)
    elif model.grammar is None:
        raise ValueError("the model has no language model to add words to; give one with --lm.")
    else:
        grammar = with_words(model.grammar, [word for word in entries if word not in model.lexicon])
    graph = compose_graph(hmm=model.hmm, lexicon=entries, grammar=grammar)
    return replace(model, lexicon=entries, grammar=grammar, graph=graph)


def _of_model(lexicon: Lexicon, model: AcousticModel) -> Lexicon:
    """The lexicon with the model's phones where those of the file differ in case or stress marks only."""
    known = model.hmm.phone_ids

    def named(phone: str) -> str:
        plain = phone.rstrip("012")
        return next((name for name in (phone, plain, plain.upper(), plain.lower()) if name in known), phone)

    entries = {
        word: [tuple(map(named, phones)) for phones in pronunciations]
        for word, pronunciations in lexicon.entries.items()
    }
    return Lexicon(entries, lexicon.silence)


def read_language_model(path: Path, *, words: Iterable[str]) -> NgramModel:
    """The model of an ARPA file, or a trigram model of the sentences of a text, over `words`."""
    if not path.is_file():
        raise ValueError(f"lm must be an ARPA file or a text, got {path}.")
    if {".arpa", ".lm"} & set(path.suffixes):
        return read_arpa(path)
    known, sentences = set(words), path.read_text(encoding="utf-8-sig").splitlines()
    if not any(sentence.split() for sentence in sentences):
        raise ValueError(f"lm must hold at least one sentence, got none in {path}.")
    unknown = {word for sentence in sentences for word in sentence.split() if word not in known}
    if unknown:
        named = ", ".join(sorted(unknown)[:10])
        logger.warning("%d words of %s are not in the lexicon and cannot be recognised: %s", len(unknown), path, named)
    return estimate(
        [text for text in sentences if text.split()], order=TEXT_ORDER, vocabulary=known,
        fallback_discounts=FALLBACK_DISCOUNTS,
    )  # fmt: skip


def with_words(grammar: NgramModel, words: Sequence[str]) -> NgramModel:
    """The model with more words, which share the probability of <unk> equally with it.

    >>> model = with_words(estimate(["a b", "a"], order=1, fallback_discounts=(0.5, 1.0, 1.5)), ["c"])
    >>> model.log_prob("c") == model.log_prob("<unk>")
    True
    """
    new = [word for word in words if word not in grammar.ids]
    if not new:
        return grammar
    first = grammar.levels[0]
    log_prob = first.log_prob.copy()
    log_prob[0] -= math.log10(len(new) + 1)
    if not math.isfinite(log_prob[0]):
        raise ValueError(f"the language model has no <unk> to give probability to {', '.join(new[:5])}; give --lm.")
    ids = np.arange(len(grammar.words), len(grammar.words) + len(new))
    unigrams = Grams(
        np.concatenate([first.context, np.zeros_like(ids)]),
        np.concatenate([first.word, ids]),
        np.concatenate([log_prob, np.full(len(new), log_prob[0])]),
        np.concatenate([first.back_off, np.zeros(len(new))]),
    )
    return NgramModel((*grammar.words, *new), [unigrams, *grammar.levels[1:]])
