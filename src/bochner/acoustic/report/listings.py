"""What was heard beside what was said, read back from the listing of a decoded part."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from bochner.speech.score.error_rates import Pair
from bochner.speech.score.report import GAP

REFERENCE, HYPOTHESIS = "REF:", "HYP:"
FILE = "errors.txt"


class Listed(NamedTuple):
    """An utterance with errors: its id, its lines as they are to be shown, and its tokens side by side."""

    id: str
    text: str
    pairs: tuple[Pair, ...]


def read_listing(decoded: Path) -> list[Listed]:
    """The utterances in the errors.txt of a decoded part, all those with an error; none where there is no such file.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     text = "ann-1 (ann): 1 substitution\\nREF: yes no\\nHYP: yes oh\\n         S\\n"
    ...     _ = (Path(folder) / FILE).write_text(text)
    ...     [(one.id, one.pairs) for one in read_listing(Path(folder))]
    [('ann-1', (('yes', 'yes'), ('no', 'oh')))]
    """
    path = decoded / FILE
    blocks = path.read_text(encoding="utf-8").strip("\n").split("\n\n") if path.is_file() else []
    return [_listed(block) for block in blocks if block]


def confusions(listing: Iterable[Listed]) -> Counter[Pair]:
    """How often each token was heard for each other one, in utterances that have an error."""
    return Counter(pair for one in listing for pair in one.pairs)


def _listed(block: str) -> Listed:
    title, reference, hypothesis, *_ = block.split("\n")
    sides = zip(_tokens(reference, REFERENCE), _tokens(hypothesis, HYPOTHESIS), strict=True)
    return Listed(title.split(" (")[0], block, tuple(sides))


def _tokens(line: str, head: str) -> list[str | None]:
    return [None if token == GAP else token for token in line.removeprefix(head).split()]
