"""Synthetic speech corpora, by espeak-ng: `synthesize`."""

from bochner.speech.synthesis.corpus import synthesize
from bochner.speech.synthesis.speakers import LANGUAGES

__all__ = ["LANGUAGES", "synthesize"]
