"""`bochner transcribe`: the words of recordings."""

from __future__ import annotations

import json
import logging
import sys
import tempfile
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from tqdm import tqdm

logger = logging.getLogger(__name__)
Format = Literal["text", "json", "srt", "vtt", "ctm", "textgrid"]
SUFFIXES = {"text": ".txt", "json": ".json", "srt": ".srt", "vtt": ".vtt", "ctm": ".ctm", "textgrid": ".TextGrid"}
STDIN = "-"
CLEAR_LINE = "\r\x1b[K"


def transcribe(
    model: Path,
    audio: list[str],
    *,
    format: Format = "text",  # noqa: A002  # the name of the option
    output_dir: Path | None = None,
    nbest: int = 1,
    min_confidence: float = 0.0,
    lm: Path | None = None,
    rescore_lm: Path | None = None,
    lexicon: Path | None = None,
    lattices: Path | None = None,
    speaker: Literal["auto", "file", "folder", "same"] = "auto",
    channel: int | None = None,
    stream: bool = False,
    device: str = "auto",
) -> None:
    """Print the words of recordings.

    Examples:

        bochner transcribe out/own/models/best talk.wav
        bochner transcribe out/own/models/best talks --format srt --output_dir subtitles
        bochner transcribe out/own/models/best a.wav b.flac --speaker same --format ctm
        bochner transcribe out/own/models/best talk.mp3 --lm sentences.txt --lexicon names.txt --nbest 3
        arecord -d 5 | bochner transcribe out/own/models/best - --min_confidence 0.5
        arecord -f S16_LE -r 16000 | bochner transcribe out/own/models/best - --stream

    The directory of a model is self-contained: front end, transforms, classifier, HMM, lexicon, language model and
    graph. Recordings of any format, rate and number of channels that libsndfile reads are accepted. Only words of the
    lexicon are recognised. Silence and hum give no words. Recordings of one person are normalised and adapted together,
    see --speaker. Requires `pip install 'bochner[speech]'`.

    Args:
        model: The directory of a saved acoustic model.
        audio: Recordings, directories of recordings, or - for one recording from the standard input.
        format: text (one line for each recording); json (one object for each, with times, confidences and
            alternatives); srt and vtt (subtitles); ctm; textgrid (for Praat, words and phones).
        output_dir: Directory for one file for each recording, in place of the standard output.
        nbest: Number of alternative sentences in json, or of lines in text, each with its probability.
        min_confidence: Words with a lower confidence, between 0 and 1, are left out.
        lm: A language model in place of the model's own: an ARPA file (.arpa, .lm, .gz), or a text with one sentence a
            line.
        rescore_lm: A language model that chooses among the best sentences, such as one too large for --lm.
        lexicon: A file of lines `word phone phone ...`, whose words are added to those of the model.
        lattices: Directory for the lattice of each recording, in Kaldi's text format; further parts of recordings of
            more than 30 s are named talk-2, talk-3, ...
        speaker: Which recordings are of one speaker, and so normalised and adapted together: those that sound alike
            ("auto"), each "file" by itself, all in one "folder", or all the "same".
        channel: The channel of recordings with several, counted from 0. Default: their mean.
        stream: Decode a WAV stream from the standard input (AUDIO is -) as it arrives. Each sentence is printed
            when half a second of silence ends it, before that on a terminal as far as it is decoded. With json, one
            object for each change, with "final" true for the last of a sentence.
        device: The device of the classifier: "cpu", "cuda", or "auto", which is the GPU if there is one.
    """
    from bochner.acoustic.language import read_language_model, with_language
    from bochner.acoustic.model import AcousticModel
    from bochner.acoustic.transcription import TranscriptSettings
    from bochner.search.plan import resolve_device

    loaded = AcousticModel.load(model, device=str(resolve_device(device)))
    if lm is not None or lexicon is not None:
        loaded = with_language(loaded, lm=lm, lexicon=lexicon)
    if stream:
        if audio != [STDIN] or format not in ("text", "json") or nbest > 1 or min_confidence > 0 or lattices:
            raise ValueError(
                "stream reads the standard input and prints text or json without confidences: give - as AUDIO, and "
                f"leave out nbest, min_confidence and lattices; got audio {' '.join(audio)} and format {format}."
            )
        _print_stream(loaded, format, channel)
        return
    rescoring = None if rescore_lm is None else read_language_model(rescore_lm, words=loaded.lexicon.words)
    settings = TranscriptSettings(
        nbest=nbest, min_confidence=min_confidence, rescoring=rescoring, channel=channel,
        confidences=format in ("json", "ctm") or lattices is not None,
    )  # fmt: skip
    with _recordings(audio) as recordings:
        several = len(recordings) > 1
        count = 0
        for name, transcript in _transcripts(loaded, recordings, speaker, settings):
            count += 1
            if lattices is not None and transcript.lattices:
                parts = [name, *(f"{name}-{number}" for number in range(2, len(transcript.lattices) + 1))]
                texts = (lattice.to_kaldi(part) for lattice, part in zip(transcript.lattices, parts, strict=True))
                _write(lattices / f"{name}.lat", "".join(texts))
            text = _formatted(name, transcript, format, nbest=nbest, several=several and output_dir is None)
            if output_dir is None:
                print(text, end="", flush=True)
            else:
                _write(output_dir / f"{name}{SUFFIXES[format]}", text)
        failed = len(recordings) - count
    if failed:
        raise ValueError(f"{failed} of {len(recordings)} recordings could not be read.")


def _print_stream(model: Any, kind: str, channel: int | None) -> None:
    """Print the sentences of a WAV stream from the standard input."""
    from bochner.acoustic.online import transcribe_stream, wave_blocks

    if model.front_end is None:
        raise ValueError("the model was trained on frames provided by a corpus; it cannot transcribe recordings.")
    blocks = wave_blocks(sys.stdin.buffer, rate=model.front_end.rate, channel=channel)
    shows_partial = sys.stdout.isatty()
    for part in transcribe_stream(model, blocks):
        if kind == "json":
            words = [{"word": w.label, "start": round(w.start, 3), "end": round(w.end, 3)} for w in part.words]
            fields = {"text": part.text, "start": part.start, "end": part.end, "final": part.final, "words": words}
            print(json.dumps(fields, ensure_ascii=False), flush=True)
        elif part.final:
            print(f"{CLEAR_LINE if shows_partial else ''}{part.text}", flush=True)
        elif shows_partial:
            print(f"{CLEAR_LINE}{part.text}", end="", flush=True)


@contextmanager
def _recordings(audio: list[str]) -> Iterator[dict[str, Path]]:
    """The files by names without suffix; those of a directory by their path below it."""
    from bochner.speech.corpora.directory import AUDIO

    with tempfile.TemporaryDirectory() as temporary:
        recordings: dict[str, Path] = {}
        for given in audio:
            path = Path(given)
            names: dict[str, Path] = {}
            if given == STDIN:
                path = Path(temporary, "stdin")
                if path.write_bytes(sys.stdin.buffer.read()) == 0:
                    raise ValueError("audio must be a recording, but the standard input is empty.")
            if path.is_dir():
                files = sorted(file for file in path.rglob("*") if file.suffix.lower() in AUDIO)
                if not files:
                    raise ValueError(f"audio must be recordings ({' '.join(AUDIO)}), got none in {path}.")
                for file in files:
                    name = file.relative_to(path).with_suffix("").as_posix()
                    if (other := names.setdefault(name, file)) != file:
                        raise ValueError(
                            f"audio must have different names, got {other.name} and {file.name} in {path}."
                        )
            else:
                names = {path.stem: path}
            if double := sorted(recordings.keys() & names.keys()):
                raise ValueError(f"audio must have different names, got {double[0]!r} twice.")
            recordings |= names
        yield recordings


def _transcripts(model: Any, recordings: dict[str, Path], speaker: str, settings: Any) -> Iterator[tuple[str, Any]]:
    """The transcripts of the recordings that can be read, by name; with "auto", all are decoded before the first."""
    from bochner.acoustic.transcription import group_by_speaker, transcribe

    if speaker != "auto":
        groups: dict[str, dict[str, Path]] = {}
        for name, path in recordings.items():
            key = {"file": name, "folder": str(path.resolve().parent), "same": ""}[speaker]
            groups.setdefault(key, {})[name] = path
        for group in groups.values():
            readable = _readable(model, group, settings.channel, alone=len(recordings) == 1)
            yield from zip(readable, transcribe(model, list(readable.values()), settings), strict=True)
        return
    readable = _readable(model, recordings, settings.channel, alone=len(recordings) == 1)
    transcripts: dict[Path, Any] = {}
    speakers = group_by_speaker(model, list(readable.values()), channel=settings.channel)
    for paths in tqdm(speakers, unit="speaker", disable=None if len(speakers) > 1 else True):
        transcripts |= zip(paths, transcribe(model, paths, settings), strict=True)
    yield from ((name, transcripts[path]) for name, path in readable.items())


def _readable(model: Any, recordings: dict[str, Path], channel: int | None, *, alone: bool) -> dict[str, Path]:
    """The recordings that can be read; those that cannot are reported, or an error if `alone`."""
    from bochner.speech.audio import AudioError, sample_blocks

    readable = {}
    for name, path in recordings.items():
        try:
            rate = model.front_end.rate if model.front_end else 16000
            deque(sample_blocks(path, rate=rate, channel=channel), maxlen=0)
            readable[name] = path
        except AudioError as error:
            if alone:
                raise
            logger.warning("skipped: %s", error)
    return readable


def _formatted(name: str, transcript: Any, kind: str, *, nbest: int, several: bool) -> str:
    from bochner.speech import timed_text
    from bochner.speech.textgrid import format_textgrid

    if kind == "json":
        return json.dumps(_fields(name, transcript), ensure_ascii=False) + "\n"
    if kind == "ctm":
        return timed_text.ctm(name, transcript.words, transcript.confidences)
    if kind == "textgrid":
        tiers = {"words": transcript.words, "phones": transcript.phones}
        return format_textgrid(tiers, duration=transcript.duration)
    if kind in ("srt", "vtt"):
        return timed_text.srt(transcript.words) if kind == "srt" else timed_text.vtt(transcript.words)
    lines = [transcript.text]
    if nbest > 1:
        lines = [f"{probability:.3f} {text}" for text, probability in transcript.alternatives]
    return "".join(f"{name}: {line}\n" if several else f"{line}\n" for line in lines)


def _fields(name: str, transcript: Any) -> dict[str, Any]:
    words = [
        {"word": word.label, "start": round(word.start, 3), "end": round(word.end, 3), "confidence": round(p, 4)}
        for word, p in zip(transcript.words, transcript.confidences, strict=True)
    ]
    alternatives = [{"text": text, "probability": round(p, 4)} for text, p in transcript.alternatives]
    return {
        "name": name, "text": transcript.text, "confidence": round(transcript.confidence, 4),
        "duration": round(transcript.duration, 3), "complete": transcript.complete, "words": words,
        "alternatives": alternatives,
    }  # fmt: skip


def _write(path: Path, text: str) -> None:
    from bochner.storage import write_atomically

    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, text.encode())
