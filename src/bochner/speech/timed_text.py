"""Words with their times as subtitles (SRT, WebVTT) and CTM lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from bochner.speech.manifest import Segment

MAX_CUE_SECONDS, MAX_CUE_LETTERS = 6.0, 80  # two lines of 40 letters, as subtitles have
PAUSE = 0.6  # seconds between words that end a cue


def srt(words: Sequence[Segment]) -> str:
    """Subtitles in the SubRip format.

    >>> print(srt([Segment("good", 0.5, 0.8), Segment("morning", 0.8, 1.25)]), end="")
    1
    00:00:00,500 --> 00:00:01,250
    good morning
    """
    cues = (
        f"{number}\n{_clock(cue[0].start, ',')} --> {_clock(cue[-1].end, ',')}\n{_text(cue)}\n"
        for number, cue in enumerate(_cues(words), start=1)
    )
    return "\n".join(cues)


def vtt(words: Sequence[Segment]) -> str:
    """Subtitles in the WebVTT format.

    >>> print(vtt([Segment("hello", 0.5, 0.8)]), end="")
    WEBVTT
    <BLANKLINE>
    00:00:00.500 --> 00:00:00.800
    hello
    """
    cues = (f"{_clock(cue[0].start, '.')} --> {_clock(cue[-1].end, '.')}\n{_text(cue)}\n" for cue in _cues(words))
    return "\n".join(["WEBVTT\n", *cues])


def ctm(name: str, words: Iterable[Segment], confidences: Iterable[float]) -> str:
    """Lines `name 1 start duration word confidence`, NIST's time-marked conversation format.

    >>> print(ctm("talk", [Segment("hello", 0.5, 0.8)], [0.9]), end="")
    talk 1 0.500 0.300 hello 0.900
    """
    return "".join(
        f"{name} 1 {word.start:.3f} {word.end - word.start:.3f} {word.label} {confidence:.3f}\n"
        for word, confidence in zip(words, confidences, strict=True)
    )


def _cues(words: Sequence[Segment]) -> Iterator[list[Segment]]:
    """Words in groups that end at a pause or at the largest length of a subtitle."""
    cue: list[Segment] = []
    for word in words:
        full = cue and (word.end - cue[0].start > MAX_CUE_SECONDS or len(_text([*cue, word])) > MAX_CUE_LETTERS)
        if cue and (full or word.start - cue[-1].end > PAUSE):
            yield cue
            cue = []
        cue.append(word)
    if cue:
        yield cue


def _text(cue: Iterable[Segment]) -> str:
    return " ".join(word.label for word in cue)


def _clock(seconds: float, mark: str) -> str:
    """
    >>> _clock(3723.5, ",")
    '01:02:03,500'
    """
    milliseconds = round(1000 * seconds)
    hours, rest = divmod(milliseconds, 3_600_000)
    minutes, rest = divmod(rest, 60_000)
    return f"{hours:02d}:{minutes:02d}:{rest // 1000:02d}{mark}{rest % 1000:03d}"
