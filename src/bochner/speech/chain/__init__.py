"""The chain from a corpus directory to alignments and error rates, step by step, each kept in a folder.

`alignment`, `recognition` and `aligned` need the extra `speech`; what is named here does not.
"""

from bochner.speech.chain.corpus import SpeechCorpus
from bochner.speech.chain.scoring import protocol_for
from bochner.speech.chain.steps import Say, silent

__all__ = ["Say", "SpeechCorpus", "protocol_for", "silent"]
