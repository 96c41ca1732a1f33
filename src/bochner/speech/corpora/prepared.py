"""What every corpus ends as: a directory with a manifest, a report of what was skipped, and perhaps a lexicon."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from bochner.speech.lexicon import Lexicon, write_lexicon
from bochner.speech.manifest import PARTS, Utterance, write_manifest
from bochner.speech.skipped import Skipped, summarize, write_skipped
from bochner.storage import write_atomically


@dataclass(frozen=True)
class Prepared:
    """A corpus directory and what is in it."""

    directory: Path
    utterances: list[Utterance]
    skipped: list[Skipped]

    def __str__(self) -> str:
        """How much speech each part has, and what was skipped."""
        lines = [f"{self.directory}: {len(self.utterances)} utterances, {summarize(self.skipped)}"]
        counts = Counter(said.part for said in self.utterances)
        for part in (part for part in PARTS if counts[part]):
            members = [said for said in self.utterances if said.part == part]
            hours = sum(said.duration for said in members) / 3600
            lines.append(
                f"  {part}: {counts[part]} utterances, {len({m.speaker for m in members})} speakers, {hours:.3f} h"
            )
        return "\n".join(lines)


def finish(
    directory: str | os.PathLike[str],
    found: Iterable[Utterance | Skipped],
    *,
    lexicon: Lexicon | None = None,
) -> Prepared:
    """Write lexicon.txt and phones.txt where there is a lexicon, skipped.jsonl, and last utterances.jsonl."""
    folder, everything = Path(directory), list(found)
    said = [one for one in everything if isinstance(one, Utterance)]
    left_out = [one for one in everything if isinstance(one, Skipped)]
    if not said:
        raise ValueError(f"{folder}: no utterance can be used; {summarize(left_out)}.")
    folder.mkdir(parents=True, exist_ok=True)
    if lexicon is not None:
        write_lexicon(folder / "lexicon.txt", lexicon)
        write_atomically(folder / "phones.txt", "".join(f"{phone}\n" for phone in lexicon.phones).encode())
    write_skipped(folder, left_out)
    write_manifest(folder, said)
    return Prepared(folder, said, left_out)
