"""What `bochner speech align` and `decode` say at their end."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bochner.cli.report import say
from bochner.speech.align import Agreement
from bochner.speech.corpora.corpus_directory import SpeechCorpus


def say_aligned(found: Mapping[str, Any], folder: Path, out: Path, stage: str) -> None:
    target, parts = out / "aligned" / stage, SpeechCorpus.read(folder).parts
    say("aligned", f"{found['utterances']:,} utterances with {found['states']:,} states; {found['skipped']} skipped")
    for part, counts in found["agreement"].items():
        one = Agreement(**counts)
        near, right = f"{100 * one.boundaries_within:.1f} %", f"{100 * one.frames_right:.1f} %"
        say(
            "",
            f"{part}: {near} of {one.boundaries:,} phone boundaries within 20 ms, {right} of frames in the right phone",
        )
    say("labels", f"{target}/rows/train (for bochner train --task classify), {target}/phones.ctm, {target}/words.ctm")
    part = "test" if "test" in parts else parts[-1]
    say("next", shlex.join(["bochner", "speech", "decode", str(folder), str(out), "--part", part]))


def say_decoded(found: Mapping[str, Any], folder: Path) -> None:
    speed = found["speech_seconds"] / max(found["seconds"], 1e-9)
    say(
        "weights", f"acoustic {found['acoustic_weight']:g}, word penalty {found['word_penalty']:g} ({found['weights']})"
    )
    say("decoded", f"{found['utterances']:,} utterances by {found['stage']}, {found['skipped']}")
    say("", f"{found['seconds']:.1f} s for {found['speech_seconds']:,.0f} s of speech, {speed:.0f} times real time")
    say("next", shlex.join(["bochner", "speech", "score", str(folder), found["folder"]]))
