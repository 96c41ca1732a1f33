"""`bochner align`: words and phones of recordings with their times."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

from bochner.cli.logs import labelled

logger = logging.getLogger(__name__)
SHOWN = 20  # unknown words in a message
INCOMPLETE = 3  # exit code: some recordings could not be aligned


def align(
    audio: list[str],  # not list[Path]: jsonargparse would replace the path of a text file by its content
    *,
    text: str | None = None,
    output_dir: Path | None = None,
    model: str = "en",
    format: list[str] | str = "textgrid",  # noqa: A002
    lexicon: Path | None = None,
    guess: bool = True,
    channel: int | None = None,
    tier: str | None = None,
) -> None:
    """Align recordings with their texts: the times of words and phones.

    Examples:

        bochner align talk.wav
        bochner align talk.mp3 --text "please call stella"
        bochner align recordings --output_dir aligned --format textgrid,csv
        bochner align recordings --lexicon my_words.txt
        bochner align monday/*.wav tuesday --output_dir aligned

    A pre-trained model aligns, so that no training is needed. AUDIO are recordings (WAV, FLAC, OGG, MP3; any rate) or
    directories of recordings. The text of talk.wav is in talk.txt, talk.lab or talk.TextGrid beside it; each interval
    of a TextGrid is aligned by itself. A corpus directory of `bochner speech prepare` is accepted as well.

    Words that the dictionary lacks are pronounced by rule and listed in OUTPUT_DIR/guessed.txt: correct that file and
    give it as lexicon. Recordings that cannot be aligned are listed in OUTPUT_DIR/skipped.jsonl; the exit code is then
    3, or 1 if there is no other. Requires `pip install 'bochner[speech]'`.

    Args:
        audio: Recordings, or directories of recordings.
        text: The words of a single recording, or the path of a .txt, .lab or .TextGrid file.
        output_dir: Default: AUDIO_aligned, beside the recording or directory; for several recordings of one directory,
            that of the directory.
        model: The name of a model, see `bochner speech models list`, or the directory of one.
        format: textgrid, ctm, json, csv, or several of them: textgrid,csv. All but textgrid have confidences.
        lexicon: A file of lines `word phone phone ...` that replaces the model's pronunciations of these words; case
            and stress marks are ignored.
        guess: Pronounce words by rule that are in no lexicon. Otherwise, and for mixtures of letters and digits, they
            are aligned as one phone `spn` and marked <unk>. Numbers such as 1984, 25% and $5 are read.
        channel: The channel of recordings with several, counted from 0. Default: that of a corpus's manifest, if it
            names one, otherwise the mean of all.
        tier: The tier of TextGrids that holds the text. Default: the first with text.
    """
    from bochner.checks import one_of
    from bochner.speech.align.output import FORMATS, GUESSED, write_alignments
    from bochner.speech.align.problems import MIN_CONFIDENCE, is_doubtful
    from bochner.speech.align.recordings import align_files, check_outputs
    from bochner.speech.lexicon import read_lexicon

    formats = format.split(",") if isinstance(format, str) else format
    for name in formats:
        one_of("format", name, FORMATS)
    target = output_dir or _default_output([Path(path) for path in audio])
    if "textgrid" in formats:
        check_outputs(audio, text, target)
    own = None if lexicon is None else read_lexicon(lexicon).entries
    aligned = align_files(
        audio, text, model=model, lexicon=own, guess=guess, channel=channel, tier=tier, verbose=sys.stderr.isatty()
    )  # fmt: skip
    write_alignments(target, aligned, formats=formats, lexicon=lexicon)
    counts = [sum(len(getattr(recording, tier)) for recording in aligned.recordings) for tier in ("words", "phones")]
    logger.info(labelled("aligned", f"{len(aligned.recordings)} recordings, {counts[0]:,} words, {counts[1]:,} phones"))
    if aligned.guessed:
        logger.info(labelled("guessed", f"{len(aligned.guessed)} words pronounced by rule, see {target / GUESSED}"))
    if aligned.unknown:
        shown = ", ".join(aligned.unknown[:SHOWN]) + (", ..." if len(aligned.unknown) > SHOWN else "")
        logger.warning(
            f"{len(aligned.unknown)} words have no pronunciation and are marked <unk>: {shown}. Write them as they are "
            f"spoken, or add them to a --lexicon."
        )
    if doubtful := [recording for recording in aligned.recordings if is_doubtful(recording, model)]:
        shown = ", ".join(f"{r.name} ({r.confidence:.2f})" for r in doubtful[:SHOWN])
        logger.warning(
            f"{len(doubtful)} recordings may not match their texts (confidence below {MIN_CONFIDENCE[model]}): {shown}"
            f"{', ...' if len(doubtful) > SHOWN else ''}. Check them."
        )
    for entry in aligned.skipped:
        logger.warning(f"{entry.id} is not aligned: {entry.reason}")
    logger.info(labelled("files", str(target)))
    if aligned.skipped:
        raise SystemExit(INCOMPLETE if aligned.recordings else 1)


def _default_output(audio: list[Path]) -> Path:
    """Beside the recording or directory, also if the latter is . or has a dot in its name."""
    place = audio[0]
    if len(audio) > 1:
        if len({path.resolve().parent for path in audio}) > 1 or any(path.is_dir() for path in audio):
            raise ValueError(f"output_dir must be given for recordings of several directories, got {len(audio)} paths.")
        place = place.parent
    place = place if place.name not in ("", "..") else place.resolve()
    return place.with_name(f"{place.name if place.is_dir() else place.stem}_aligned")
