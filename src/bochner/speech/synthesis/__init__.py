"""Synthetic speech corpora, by espeak-ng: `synthesize`."""

from bochner.speech.synthesis.corpus import synthesize
from bochner.speech.synthesis.settings import LANGUAGES

__all__ = ["LANGUAGES", "synthesize"]
