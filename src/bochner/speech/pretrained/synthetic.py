"""Models of Cantonese and Bengali for `bochner align`, trained on synthetic speech."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bochner.checks import one_of, positive_float
from bochner.speech.align import GmmHmm, tied_states, train_gmm
from bochner.speech.align.gmm_recipe import Growth, Monophone, Recipe
from bochner.speech.audio import read_audio
from bochner.speech.frames import Array
from bochner.speech.frontend import Mfcc
from bochner.speech.g2p import train_g2p
from bochner.speech.hmm.mixtures import Mixtures, accumulate, split, update
from bochner.speech.hmm.model import Hmm, monophone_hmm
from bochner.speech.hmm.streams import StreamMixtures, stream_frames
from bochner.speech.lexicon import Lexicon, Pronunciation
from bochner.speech.pretrained import UNKNOWN_PHONE, save_model
from bochner.speech.synthesis import synthesize
from bochner.speech.synthesis.espeak import speak, time_phones
from bochner.speech.synthesis.languages import Bengali, Cantonese
from bochner.speech.text_files import FilePath

logger = logging.getLogger(__name__)
NUM_GAUSSIANS = 16  # of each state in each stream
NUM_WORDS = 5000  # of Bengali, the most frequent
BATCH_WORDS = 20  # synthesized in one call of the engine
MIN_WEIGHT = 1e-6  # of Gaussians that pad a mixture
TRAINING = Growth(num_gaussians=1500, iterations=10, grow_until=8, realign=())  # frames keep their known phones
DESCRIPTION = (
    "Three states for each phone of espeak-ng, trained on {hours:g} hours of SYNTHETIC speech of its voices; no "
    "recordings of people"
)
LICENCE = """The model was computed from speech that espeak-ng synthesized; it contains no recordings.
{words}
"""
LANGUAGES: dict[str, dict[str, str]] = {
    "yue": {
        "language": "Cantonese",
        "corpus": "cantonese",
        "tokens": "characters",
        "words": "Characters and their syllables are those of HKCanCor (Luke & Wong 2015), under CC BY 4.0,\n"
        "https://creativecommons.org/licenses/by/4.0/",
    },
    "bn": {
        "language": "Bengali",
        "corpus": "bengali",
        "tokens": "words",
        "words": "lexicon.txt.xz and g2p.npz are derived from the word list of wordfreq (Speer 2022) and, as it, "
        "under\n"
        "CC BY-SA 4.0, https://creativecommons.org/licenses/by-sa/4.0/",
    },
}


def build_synthetic(name: str, output_dir: FilePath, *, hours: float = 0.5, seed: int = 0) -> None:
    """Synthesize speech in the language "yue" or "bn", train a model of it, and write the model's directory.

    The times of synthetic phones are known, and so are the frames of each state of the monophones, whose densities are
    estimated by EM in three streams: cepstra, deltas, second deltas. O(hours).
    """
    one_of("name", name, LANGUAGES)
    about = LANGUAGES[name]
    frontend = Mfcc(rate=16000, energy=False, dither=1.0)
    with tempfile.TemporaryDirectory() as temporary:
        corpus = synthesize(
            Path(temporary, "corpus"), language=about["corpus"], hours=positive_float("hours", hours), seed=seed,
            minutes_per_speaker=1.0, snr=(15.0, 35.0), telephone=0.0, babble=0.0,
        )  # fmt: skip
        utterances = [utterance.replace(part="train") for utterance in corpus.utterances]
        cepstra = {u.id: _centred(frontend(read_audio(u, corpus_dir=corpus.directory))) for u in utterances}
        phones = {segment.label for utterance in utterances for segment in utterance.phones}
        lexicon = Lexicon(_pronunciations(name, known=phones))
        all_words = Lexicon({**lexicon.entries, **_spoken_words(utterances)})
        recipe = Recipe(monophone=Monophone(start="known", num_silence_states=3, growth=TRAINING), seed=seed)
        gmm = train_gmm(Path(temporary, "gmm"), all_words, utterances, cepstra, recipe=recipe, until="monophone")
    hmm, mixtures = stream_model(gmm, cepstra, seed=seed)
    record = {
        "name": name, "language": about["language"], "description": DESCRIPTION.format(hours=hours), "synthetic": True,
        "tokens": about["tokens"], "source": f"bochner speech models build {name}, {hours:g} hours, seed {seed}",
        "licence": "see LICENCE.txt",
    }  # fmt: skip
    letters = about["tokens"] == "words"
    save_model(
        output_dir, about=record, hmm=hmm, mixtures=mixtures, frontend=frontend, lexicon=lexicon,
        g2p=train_g2p(lexicon) if letters else None, licence=LICENCE.format(words=about["words"]),
    )  # fmt: skip


def _centred(cepstra: Array) -> Array:
    return cepstra - cepstra.mean(axis=0)


def _spoken_words(utterances: Iterable[Any]) -> dict[str, list[Pronunciation]]:
    """The pronunciations with which words occur in a corpus with known times."""
    entries: dict[str, dict[Pronunciation, None]] = {}
    for utterance in utterances:
        for word in utterance.words:
            phones = tuple(p.label for p in utterance.phones if word.start <= p.start and p.end <= word.end)
            entries.setdefault(word.label, {})[phones] = None
    return {word: list(pronunciations) for word, pronunciations in entries.items()}


def stream_model(gmm: GmmHmm, cepstra: Mapping[str, Array], *, seed: int) -> tuple[Hmm, StreamMixtures]:
    """The HMM with a phone of unintelligible speech, and densities of all states in streams, from an alignment."""
    names = list(gmm.alignments.paths)
    labels = np.concatenate([tied_states(gmm.hmm, gmm.alignments.paths[name]) for name in names])
    frames = np.concatenate([stream_frames(cepstra[name]) for name in names])
    speech = frames[~np.isin(labels, list(gmm.silence_pdfs))]
    parts = []
    for stream in range(frames.shape[1]):
        states = _fitted(frames[:, stream], labels, gmm.hmm.num_pdfs, seed)
        any_speech = _fitted(speech[:, stream], np.zeros(len(speech), dtype=np.int64), 1, seed)
        parts.append([*_padded(states), *(3 * _padded(any_speech))])
    weights, means, variances = (np.stack([[state[k] for state in part] for part in parts], axis=1) for k in range(3))
    hmm = monophone_hmm(phones=[*gmm.hmm.phones, UNKNOWN_PHONE], silence=gmm.hmm.silence, num_silence_states=3)
    old = np.asarray(gmm.hmm.transitions.log_probs)
    log_probs = np.concatenate([old, np.asarray(hmm.transitions.log_probs)[len(old) :]])
    return hmm.with_log_probabilities(log_probs), StreamMixtures(np.arange(len(weights)), weights, means, variances)


def _fitted(X: Array, labels: Array, num_pdfs: int, seed: int) -> Mixtures:
    """Mixtures of up to 16 Gaussians for each pdf, doubled and refined by EM."""
    counts = np.bincount(labels, minlength=num_pdfs)
    means = np.stack([X[labels == pdf].mean(axis=0) if counts[pdf] else X.mean(axis=0) for pdf in range(num_pdfs)])
    variances = np.stack(
        [X[labels == pdf].var(axis=0) if counts[pdf] > 1 else X.var(axis=0) for pdf in range(num_pdfs)]
    )
    mixtures = Mixtures(np.ones(num_pdfs, dtype=np.int64), np.ones(num_pdfs), means, np.maximum(variances, 1e-3))
    generator = np.random.default_rng(seed)
    for doublings in range(1, NUM_GAUSSIANS.bit_length()):
        size = num_pdfs * 2**doublings
        mixtures = split(mixtures, counts=np.minimum(counts, 10_000), num_gaussians=size, generator=generator)
        for _ in range(4):
            mixtures = update(mixtures, accumulate(mixtures, X, labels))
    return mixtures


def _padded(mixtures: Mixtures) -> list[tuple[Array, Array, Array]]:
    """Weights, means and variances of each pdf with the Gaussians of the largest weights, or copies of the first."""
    states = []
    for start, stop in zip(mixtures.offsets[:-1], mixtures.offsets[1:], strict=True):
        order = start + np.argsort(-mixtures.weights[start:stop], kind="stable")[:NUM_GAUSSIANS]
        places = np.append(order, np.full(NUM_GAUSSIANS - len(order), order[0]))
        weights = np.where(np.arange(NUM_GAUSSIANS) < len(order), mixtures.weights[places], MIN_WEIGHT)
        states.append((weights / weights.sum(), mixtures.means[places], mixtures.variances[places]))
    return states


def _pronunciations(name: str, *, known: set[str]) -> dict[str, list[Pronunciation]]:
    """Words with their pronunciations by the engine; those with phones outside `known` are left out."""
    entries = _cantonese_entries() if name == "yue" else _bengali_entries()
    kept = {word: [p for p in ways if set(p) <= known] for word, ways in entries.items()}
    return {word: ways for word, ways in kept.items() if ways}


def _bengali_entries() -> dict[str, list[Pronunciation]]:
    words = Bengali(num_words=NUM_WORDS).words
    return {word: [phones] for word, phones in _by_engine(words, Bengali.voice)}


def _cantonese_entries() -> dict[str, list[Pronunciation]]:
    """Characters by their syllables in HKCanCor, and the syllables themselves in Jyutping, with and without tones."""
    syllables = Cantonese().syllables
    phones = dict(_by_engine(sorted({s for ways in syllables.values() for s in ways}), Cantonese.voice))
    entries: dict[str, dict[Pronunciation, None]] = {}
    for syllable, pronunciation in phones.items():
        for word in (syllable, syllable.rstrip("123456")):
            entries.setdefault(word, {})[pronunciation] = None
    for character, ways in syllables.items():
        entries[character] = {phones[syllable]: None for syllable in ways if syllable in phones}
    return {word: list(ways) for word, ways in entries.items()}


def _by_engine(words: Sequence[str], voice: str) -> Iterator[tuple[str, Pronunciation]]:
    """Words with the phones that the engine speaks; in batches, or one by one where it joins words."""
    for start in range(0, len(words), BATCH_WORDS):
        batch = words[start : start + BATCH_WORDS]
        timed = time_phones(speak(" ".join(batch), voice=voice))
        if len(timed) != len(batch) or not all(timed):
            timed = tuple(_joined(time_phones(speak(word, voice=voice))) for word in batch)
        for word, segments in zip(batch, timed, strict=True):
            if segments:
                yield word, tuple(segment.label for segment in segments)


def _joined(words: Sequence[Sequence[Any]]) -> tuple[Any, ...]:
    return tuple(segment for segments in words for segment in segments)
