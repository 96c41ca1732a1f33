"""Words with times in subtitle formats and NIST's CTM."""

from __future__ import annotations

from bochner.speech.manifest import Segment
from bochner.speech.timed_text import ctm, srt, vtt

WORDS = [Segment("good", 0.5, 0.9), Segment("morning", 0.9, 1.4), Segment("everyone", 3.0, 3.6)]


def test_subtitles_break_at_pauses_and_at_the_length_of_a_line() -> None:
    assert [line for line in srt(WORDS).splitlines() if "-->" in line] == [
        "00:00:00,500 --> 00:00:01,400", "00:00:03,000 --> 00:00:03,600",
    ]  # fmt: skip
    long = [Segment("word", 0.3 * k, 0.3 * k + 0.3) for k in range(100)]
    cues = srt(long).split("\n\n")
    assert all(len(cue.splitlines()[2]) <= 80 for cue in cues)
    assert sum(len(cue.splitlines()[2].split()) for cue in cues) == 100
    assert vtt(WORDS).startswith("WEBVTT\n\n00:00:00.500 --> 00:00:01.400\ngood morning\n")
    assert (srt([]), vtt([])) == ("", "WEBVTT\n")


def test_ctm_lines_have_confidences() -> None:
    assert ctm("a", WORDS[:1], [0.25]) == "a 1 0.500 0.400 good 0.250\n"
