"""`bochner speech g2p`: pronunciations of words by rules learned from a lexicon."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

from bochner.cli.logs import labelled

logger = logging.getLogger(__name__)


def train(lexicon: Path, model: Path, *, order: int = 7, test_fraction: float = 0.0, seed: int = 0) -> None:
    """Learn from a lexicon how words are pronounced.

    Examples:

        bochner speech g2p train lexicon.txt g2p.npz
        bochner speech g2p train lexicon.txt g2p.npz --test_fraction 0.05

    A joint-sequence model: words and pronunciations are cut into pairs of one or two letters and none to two phones by
    EM, and an n-gram model of these pairs pronounces other words. A minute for 100,000 words. With a test fraction, the
    model is trained without these words and its errors on them are reported: a word is wrong if its pronunciation is
    none of those in the lexicon.

    Args:
        lexicon: A file of lines `word phone phone ...`.
        model: The file to write.
        order: Order of the n-gram model.
        test_fraction: Share of the words to test on, which are then not trained on.
        seed: Seed of the choice of these words.
    """
    from bochner.speech.g2p import split_words, train_g2p, word_error_rate
    from bochner.speech.lexicon import read_lexicon

    entries = read_lexicon(lexicon).entries
    known, test = split_words(entries, test_fraction=test_fraction, seed=seed)
    g2p = train_g2p(known, order=order)
    g2p.save(model)
    logger.info(labelled("trained", f"on {len(known):,} words, {sum(g2p.model.num_grams):,} n-grams; {model}"))
    if test:
        logger.info(labelled("errors", f"{100 * word_error_rate(g2p, test):.1f} % of {len(test):,} other words"))


def apply(words: Path, *, model: str = "en") -> None:
    """Print the pronunciations of words, as lines of a lexicon.

    Examples:

        bochner speech g2p apply words.txt
        bochner speech g2p apply words.txt --model g2p.npz

    Words with letters unknown to the model are reported as warnings.

    Args:
        words: A text file; its first word of each line is pronounced. "-" reads standard input.
        model: A file of `bochner speech g2p train`, or the name of a model, see `bochner speech models list`.
    """
    from bochner.speech.g2p import G2p
    from bochner.speech.pretrained import list_models, load_model

    g2p = load_model(model).g2p if model in list_models() else G2p.load(model)
    text = sys.stdin.read() if str(words) == "-" else words.read_text(encoding="utf-8")
    for word in [line.split()[0] for line in text.splitlines() if line.strip()]:
        if phones := g2p.pronounce(word):
            print(word, *phones)
        else:
            logger.warning(f"{word!r} has letters that the model does not know")


G2P = {
    "_help": "Pronunciations by rules that are learned from a lexicon: train and apply.",
    "train": train,
    "apply": apply,
}
