"""Recordings and their texts to words and phones with times and confidences, by a pre-trained model."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice, product
from pathlib import Path
from typing import NamedTuple

import numpy as np
from tqdm import tqdm

from bochner.speech.align.boundaries import EXPONENT, SpectralChange, refined_starts
from bochner.speech.align.forced import GraphCompiler, Search, best_path
from bochner.speech.align.labels import word_segments
from bochner.speech.audio import AudioError, recording_length, sample_blocks
from bochner.speech.frames import Array
from bochner.speech.hmm.contexts import phone_starts, transition_weights
from bochner.speech.levels import MAX_SILENCE, LevelMeter
from bochner.speech.lexicon import Lexicon, Pronunciation
from bochner.speech.manifest import MANIFEST, Segment, read_manifest
from bochner.speech.numbers import readings
from bochner.speech.pretrained import UNKNOWN_PHONE, PretrainedModel, load_model
from bochner.speech.text_files import FilePath, Skipped
from bochner.speech.textgrid import BYTE_ORDER_MARKS, read_textgrid

AUDIO_SUFFIXES = (".wav", ".flac", ".ogg", ".opus", ".mp3", ".aiff")
TEXT_SUFFIXES = (".txt", ".TXT", ".lab", ".LAB", ".TextGrid", ".textgrid", ".TEXTGRID")
UNKNOWN = "<unk>"
SEARCH = Search(beam=30.0, retry_beam=400.0)
BLOCK = 10_000  # frames whose scores are in memory at a time: 5 MB for 126 states
MIN_LOG_RATIO = -1000.0  # float16 holds it
MIN_DURATION = 0.005  # seconds
MAX_PRONUNCIATIONS = 4  # of each reading of a number
CONFIDENCE_SCALE = 0.2  # of log likelihood ratios, since neighbouring frames are not independent
_QUOTES = str.maketrans("\u2018\u2019\u02bc\u2013\u2014", "'''- ")  # typographic quotes and dashes
_MARKS = "".join(chr(code) for code in range(0x300, 0x1100) if unicodedata.category(chr(code))[0] == "M")
_WORD = rf"\w{_MARKS}"  # letters, digits and marks such as the vowel signs of Bengali
_NOT_A_WORD = re.compile(rf"^(?:(?![$£€]\d)[^{_WORD}<\['])+|(?:[^{_WORD}>\]'%]|(?<!\d)%)+$")  # keeps $5 and 25%
_SPACE_BEFORE_PERCENT = re.compile(r"(?<=\d)\s+(?=%)")


class TimedLabel(NamedTuple):
    """A word or phone, its times in seconds from the beginning of the recording, and a confidence.

    The confidence is exp(0.2 r), r the mean over its frames of log p(x | its phone) - max log p(x | any phone): 1 if
    its phones are the likeliest in every frame, near 0 if others fit much better. It is not a probability.
    """

    label: str
    start: float
    end: float
    confidence: float


@dataclass(frozen=True, kw_only=True)
class Part:
    """A part of a recording to be aligned: its text, its times and its channel.

    By default the part is the whole recording, and several channels are averaged.
    """

    text: str
    start: float = 0.0
    end: float | None = None
    channel: int | None = None


@dataclass(frozen=True, kw_only=True)
class Recording:
    """A file, the name of its outputs, and the text of one or several parts of it."""

    name: str
    path: Path
    parts: tuple[Part, ...]


@dataclass(frozen=True, kw_only=True)
class AlignedRecording:
    """Words and phones of a recording in temporal order; pauses are not listed."""

    name: str
    duration: float
    words: tuple[TimedLabel, ...]
    phones: tuple[TimedLabel, ...]

    @property
    def confidence(self) -> float:
        """The geometric mean of the confidences of phones, weighted by their durations; 0 for none.

        On TIMIT's sample it is at least 0.61 with the right text and at most 0.46 with that of another recording.
        """
        if not self.phones:
            return 0.0
        durations = [phone.end - phone.start for phone in self.phones]
        logs = np.log([max(phone.confidence, 1e-4) for phone in self.phones])
        return float(np.exp(np.average(logs, weights=durations)))


@dataclass(frozen=True)
class AlignedFiles:
    """The aligned recordings, what could not be aligned, and the words that the lexicon lacks.

    `guessed` holds their pronunciations by rule. Words in `unknown` are aligned as one phone `spn` and marked <unk>.
    """

    recordings: list[AlignedRecording] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    guessed: dict[str, Pronunciation] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)


def align_files(
    audio: FilePath | Sequence[FilePath],
    text: str | None = None,
    *,
    model: str | PretrainedModel = "en",
    lexicon: Mapping[str, Iterable[Sequence[str]]] | None = None,
    guess: bool = True,
    channel: int | None = None,
    tier: str | None = None,
    verbose: bool = False,
) -> AlignedFiles:
    """Align recordings with their texts: words and phones with times and confidences.

    A part that cannot be aligned is listed in `skipped` with the reason; the others are aligned all the same. Audio and
    scores are in memory for a minute or two at a time, so that a recording of hours can be aligned as a whole.

    Parameters
    ----------
    audio : path or sequence of paths
        A recording (WAV, FLAC, OGG, MP3 and whatever libsndfile reads; any rate), a directory of recordings, each with
        its text in a .txt, .lab or .TextGrid file of the same name, or a corpus directory with utterances.jsonl. Among
        several paths, those of texts are ignored.
    text : str, optional
        The words of a single recording, or the path of a file with them. Default: the file beside the recording.
    model : str or PretrainedModel
        The name of a model of `bochner speech models list`, the directory of one, or the model itself.
    lexicon : mapping from words to pronunciations, optional
        Replaces the model's pronunciations of these words. Words are compared without case; stress marks are ignored.
    guess : bool
        Pronounce words that are in no lexicon by the model's grapheme-to-phoneme rules. Without it, and for mixtures of
        letters and digits, they are aligned as one phone `spn` and marked <unk>. Of the readings of a number such as
        1984, 25% or $5, the likeliest is chosen.
    channel : int, optional
        The channel of recordings with several, counted from 0. Default: that of the corpus's manifest, if it names
        one, otherwise the mean of all.
    tier : str, optional
        The tier of a TextGrid whose intervals hold the text. Default: the first with text.
    """
    loaded = load_model(model) if isinstance(model, str) else model
    result = AlignedFiles()
    words = _Pronouncer(loaded, lexicon or {}, guess, result)
    recordings = find_recordings(audio, text, tier=tier, skipped=result.skipped)
    for recording in tqdm(recordings, desc="align", unit="recording", leave=False, disable=not verbose):
        try:
            aligned = _align(recording, loaded, words, channel, result.skipped)
        except AudioError as error:
            result.skipped.append(Skipped(recording.name, error.reason))
        else:
            if aligned.words:
                result.recordings.append(aligned)
    return result


def find_recordings(
    audio: FilePath | Sequence[FilePath], text: str | None, *, tier: str | None, skipped: list[Skipped]
) -> list[Recording]:
    """The recordings at or below the paths with their texts; those without text are added to `skipped`."""
    paths = _paths(audio)
    alone = len(paths) == 1 and paths[0].is_file()
    if text is not None and not alone:
        given = f"{paths[0]} is a directory" if len(paths) == 1 else f"there are {len(paths)}"
        raise ValueError(f"text belongs to a single recording, but {given}; remove {text!r}.")
    recordings: list[Recording] = []
    names: dict[str, Path] = {}
    for path in paths:
        corpus = {recording.name: recording for recording in _of_corpus(path)}
        files = [(name, recording.path) for name, recording in corpus.items()] if corpus else _files(path)
        for name, file in files:
            if (other := names.setdefault(name, file)) != file:
                reason = f"its outputs would have the names of those of {other}; rename or move one of them"
                skipped.append(Skipped(f"{name}{file.suffix}", reason))
                continue
            try:
                own = () if corpus else _parts(_text_of(file) if text is None else text, tier)
                recordings.append(corpus.get(name) or Recording(name=name, path=file, parts=own))
            except ValueError as error:
                if alone:
                    raise
                skipped.append(Skipped(name, str(error).rstrip(".")))
    return recordings


def _paths(audio: FilePath | Sequence[FilePath]) -> list[Path]:
    """The given paths; of several, without those of texts, such as *.txt in the expansion of `recordings/*`."""
    paths = [Path(audio)] if isinstance(audio, str | os.PathLike) else [Path(path) for path in audio]
    if len(paths) > 1:
        paths = [path for path in paths if path.suffix not in TEXT_SUFFIXES]
    if not paths:
        raise ValueError(f"audio must be recordings ({', '.join(AUDIO_SUFFIXES)}) or directories of them, got none.")
    return list(dict.fromkeys(paths))


def _files(path: Path) -> list[tuple[str, Path]]:
    """The recordings at or below a path with the names of their outputs."""
    if path.is_file():
        return [(path.stem, path)]
    if not path.is_dir():
        raise ValueError(f"audio must be a recording or a directory of recordings, but {path} does not exist.")
    files = sorted(file for file in path.rglob("*") if file.suffix.lower() in AUDIO_SUFFIXES)
    if not files:
        raise ValueError(f"{path} must hold recordings ({', '.join(AUDIO_SUFFIXES)}), got none.")
    return [(file.relative_to(path).with_suffix("").as_posix(), file) for file in files]


def _of_corpus(directory: Path) -> list[Recording]:
    """The recordings of a corpus directory; none for other paths."""
    if not (directory / MANIFEST).is_file():
        return []
    return [
        Recording(
            name=utterance.id,
            path=directory / utterance.audio,
            parts=(
                Part(
                    text=utterance.text,
                    start=utterance.start,
                    end=utterance.start + utterance.duration,
                    channel=utterance.channel,
                ),
            ),
        )
        for utterance in read_manifest(directory)
        if utterance.audio is not None
    ]


def check_outputs(audio: FilePath | Sequence[FilePath], text: str | None, output_dir: FilePath) -> None:
    """Raise an error if the TextGrid of a recording in `output_dir` would replace the one that holds its text."""
    for path in _paths(audio):
        for name, file in [] if (path / MANIFEST).is_file() else _files(path):
            source = _text_file(file) if text is None else _path_of(text)
            target = Path(output_dir, f"{name}.TextGrid")
            if source is not None and target.exists() and source.exists() and source.samefile(target):
                raise ValueError(f"{target} holds the text and would be replaced; choose another output_dir.")


def _text_file(audio: Path) -> Path | None:
    """The text beside a recording."""
    candidates = (audio.with_suffix(suffix) for suffix in TEXT_SUFFIXES)
    return next((file for file in candidates if file.is_file()), None)


def _text_of(audio: Path) -> str:
    if (file := _text_file(audio)) is None:
        raise ValueError(f"no text: {audio.name} needs a .txt, .lab or .TextGrid file of the same name.")
    return str(file)


def _path_of(text: str) -> Path | None:
    """The path that a text is, or None if it is the words themselves."""
    return Path(text) if len(text) < 1000 and text.endswith(TEXT_SUFFIXES) else None


def _parts(text: str, tier: str | None) -> tuple[Part, ...]:
    """`text` is the path of a file with the words, or the words themselves."""
    path = _path_of(text)
    if path is None:
        return (Part(text=text),)
    if not path.is_file():
        raise ValueError(f"text must be words or a file with them, but {path} does not exist.")
    if path.suffix.lower() != ".textgrid":
        content = path.read_bytes()
        encoding = next((name for mark, name in BYTE_ORDER_MARKS.items() if content.startswith(mark)), "utf-8")
        try:
            return (Part(text=content.decode(encoding)),)
        except UnicodeDecodeError as error:
            raise ValueError(f"{path} is not UTF-8; save it as UTF-8: {error}.") from error
    tiers = read_textgrid(path)
    if tier is not None and tier not in tiers:
        raise ValueError(f"tier must be one of {', '.join(tiers) or 'none'} in {path}, got {tier!r}.")
    for name, intervals in tiers.items():
        parts = tuple(Part(text=s.label, start=s.start, end=s.end) for s in intervals if s.label.strip())
        if parts and tier in (None, name):
            return parts
    raise ValueError(f"{path} has no interval with text{'' if tier is None else f' in the tier {tier}'}.")


def tokens_of(text: str) -> list[str]:
    """The words of a text in lower case, without punctuation around them.

    >>> tokens_of("“Don't,” she said -- twenty-one times! (25 %)")
    ["don't", 'she', 'said', 'twenty-one', 'times', '25%']
    """
    plain = unicodedata.normalize("NFKC", text).translate(_QUOTES).lower()
    words = _SPACE_BEFORE_PERCENT.sub("", plain).split()
    return [token for word in words if (token := _NOT_A_WORD.sub("", word))]


class _Pronouncer:
    """Pronunciations of words: the user's, the model's, by rule, or the phone of unintelligible speech."""

    def __init__(
        self,
        model: PretrainedModel,
        own: Mapping[str, Iterable[Sequence[str]]],
        guess: bool,
        result: AlignedFiles,
    ) -> None:
        self._model, self._guess, self._result = model, guess, result
        self._own = {
            word.lower(): tuple(tuple(self._phone(phone, word) for phone in phones) for phones in pronunciations)
            for word, pronunciations in own.items()
        }

    @property
    def _is_english(self) -> bool:
        return bool(self._model.about["language"].endswith("English"))

    def _phone(self, phone: str, word: str) -> str:
        """A phone of the model, possibly written with a stress mark or in lower case."""
        for name in (phone, phone.upper(), phone.upper().rstrip("012")):
            if name in self._model.hmm.phone_ids:
                return name
        known = ", ".join(self._model.hmm.phones)
        raise ValueError(f"lexicon: {phone!r} in the pronunciation of {word!r} is not a phone of the model ({known}).")

    def entries(self, text: str) -> list[tuple[str, tuple[Pronunciation, ...]]]:
        """Each word of a text with its pronunciations."""
        entries = []
        for token in tokens_of(text):
            if entry := self._lookup(token):
                entries.append(entry)
            else:
                entries += [self._lookup(piece) or self._unknown_entry(piece) for piece in self._pieces(token)]
        return entries

    def _pieces(self, token: str) -> Iterable[str]:
        """The characters of a token in a language that is written in them, otherwise the parts of a compound."""
        if self._model.about.get("tokens") == "characters":
            return filter(str.isalnum, token)
        return filter(None, token.split("-"))

    def _lookup(self, token: str) -> tuple[str, tuple[Pronunciation, ...]] | None:
        for word in (token, token.strip("'"), f"{token}."):
            if pronunciations := self._own.get(word) or self._model.pronunciations.get(word):
                return word, pronunciations
        if self._is_english and (pronunciations := self._model.pronunciations.get(_without_accents(token), ())):
            return token, pronunciations
        if pronunciations := self._number(token):
            return token, pronunciations
        return None

    def _number(self, token: str) -> tuple[Pronunciation, ...]:
        """All readings of a number in figures; the alignment chooses the likeliest."""
        if not self._is_english:
            return ()
        pronunciations: list[Pronunciation] = []
        for words in readings(token.strip("'")):
            entries = [self._lookup(word) for word in words]
            ways = product(*(entry[1] for entry in entries if entry)) if all(entries) else ()
            pronunciations += [tuple(chain.from_iterable(way)) for way in islice(ways, MAX_PRONUNCIATIONS)]
        return tuple(dict.fromkeys(pronunciations))

    def _unknown_entry(self, token: str) -> tuple[str, tuple[Pronunciation, ...]]:
        if self._guess and token not in self._result.guessed and (phones := self._guessed(token)):
            self._result.guessed[token] = phones
        if token in self._result.guessed:
            return token, (self._result.guessed[token],)
        if token not in self._result.unknown:
            self._result.unknown.append(token)
        return UNKNOWN, ((UNKNOWN_PHONE,),)

    def _guessed(self, token: str) -> Pronunciation | None:
        """By rule, for words of letters; "[laughs]", "<noise>" and "mp3" are not words."""
        letters = token.strip("'")
        if not letters or not all(_is_letter(letter) for letter in letters.replace("'", "")):
            return None
        letters = _without_accents(letters) if self._is_english else letters
        return self._model.g2p.pronounce(letters) if self._model.has_g2p else None


def _without_accents(word: str) -> str:
    """
    >>> _without_accents("naïveté")
    'naivete'
    """
    return "".join(c for c in unicodedata.normalize("NFD", word) if not unicodedata.combining(c))


def _is_letter(character: str) -> bool:
    """Whether a character is a letter or a mark of one, such as a vowel sign of Bengali."""
    return unicodedata.category(character)[0] in "LM"


def _align(
    recording: Recording, model: PretrainedModel, words: _Pronouncer, channel: int | None, skipped: list[Skipped]
) -> AlignedRecording:
    num_samples, rate = recording_length(recording.path)
    duration = num_samples / rate
    parts: list[tuple[list[TimedLabel], list[TimedLabel]]] = []
    for number, part in enumerate(recording.parts, start=1):
        end = duration if part.end is None else min(part.end, duration)
        blocks = sample_blocks(
            recording.path,
            rate=model.frontend.rate,
            start=part.start,
            duration=end - part.start,
            channel=part.channel if channel is None else channel,
        )
        try:
            parts.append(_align_part(blocks, words.entries(part.text), model, part.start, end))
        except (AudioError, _UnalignableError) as error:
            name = recording.name if len(recording.parts) == 1 else f"{recording.name}, part {number}"
            skipped.append(Skipped(name, error.reason if isinstance(error, AudioError) else str(error)))
    return AlignedRecording(
        name=recording.name,
        duration=duration,
        words=tuple(word for part_words, _ in parts for word in part_words),
        phones=tuple(phone for _, part_phones in parts for phone in part_phones),
    )


class _UnalignableError(Exception):
    """The reason why a part has no alignment."""


def _align_part(
    blocks: Iterable[Array],
    entries: Sequence[tuple[str, tuple[Pronunciation, ...]]],
    model: PretrainedModel,
    start: float,
    end: float,
) -> tuple[list[TimedLabel], list[TimedLabel]]:
    """The words and phones of blocks of samples that begin at `start` and end at `end` seconds of their recording."""
    if not entries:
        raise _UnalignableError("no text")
    if end - start < model.frontend.frame_length + 1 / model.frontend.rate:
        raise _UnalignableError(f"too short for its text ({max(end - start, 0):.3f} s)")
    lexicon, tokens = Lexicon(dict(entries), model.hmm.silence[0]), [word for word, _ in entries]
    meter = LevelMeter(model.frontend.rate)
    segments, ratios = align_samples(meter.through(blocks), tokens, lexicon, model)
    if meter.levels.max() <= MAX_SILENCE:
        raise _UnalignableError("no sound (digital silence)")
    segments = (*segments[:-1], segments[-1]._replace(end=end - start))
    spans = word_segments(segments, tokens, lexicon, silence=model.hmm.silence)

    def timed(segment: Segment) -> TimedLabel:
        edges = (np.array([segment.start, segment.end]) - model.offset) / model.frontend.frame_shift
        first, last = edges.round().astype(int)
        first = min(max(first, 0), len(ratios) - 1)
        times = (round(start + segment.start, 6), round(start + segment.end, 6))
        confidence = np.exp(CONFIDENCE_SCALE * ratios[first : max(last, first + 1)].mean())
        return TimedLabel(segment.label, *times, round(float(confidence), 4))

    return [timed(span) for span in spans], [timed(phone) for phone in segments if phone.label not in model.hmm.silence]


def align_samples(
    blocks: Iterable[Array], tokens: Sequence[str], lexicon: Lexicon, model: PretrainedModel
) -> tuple[tuple[Segment, ...], Array]:
    """The phones of consecutive blocks of samples with their times, and the log ratio of each 10 ms frame.

    The path by Viterbi's algorithm gives the phones. Their boundaries are medians of posterior distributions, given the
    phones and the changes of the spectrum, by frames every 5 ms, less the model's average errors of such boundaries.
    """
    fine, change = model.with_frame_shift(model.frontend.frame_shift / 2), SpectralChange(model.frontend.rate)
    cepstra = fine.cepstra(change.through(blocks))
    compiler, coarse = GraphCompiler(model.hmm, lexicon), np.ascontiguousarray(cepstra[::2])
    if len(coarse) < (needed := compiler.min_frames(tokens)):
        seconds = model.frontend.frame_shift * np.array([len(coarse), needed])
        raise _UnalignableError(f"too short for its text ({seconds[0]:.2f} s, at least {seconds[1]:.2f} s needed)")
    best = _viterbi(compiler, tokens, coarse, model)
    if best is None:
        raise _UnalignableError("no path within the beam")
    path, ratios = best
    starts = phone_starts(model.hmm, path)
    phones = model.hmm.table.phone[path[starts]] - 1
    states = 3 * phones[:, None] + np.arange(3)  # three states for each phone, in order
    exponents = np.append(0.0, np.where(model.gradual[phones[:-1], phones[1:]], 0.0, EXPONENT))
    log_changes = change.log_changes(fine.offset + fine.frontend.frame_shift * np.arange(len(cepstra)))
    frames = refined_starts(states, 2 * starts, partial(fine.scores, cepstra), log_changes, exponents)
    times: Array = fine.offset + fine.frontend.frame_shift * frames
    times[1:] -= model.boundary_offsets[phones[:-1], phones[1:]]
    end = fine.offset + fine.frontend.frame_shift * len(cepstra)
    edges = np.append(_in_order(times, end), end).round(6).tolist()
    names = [model.hmm.phones[phone] for phone in phones]
    return tuple(Segment(*row) for row in zip(names, edges[:-1], edges[1:], strict=True)), ratios


def _in_order(times: Array, end: float) -> Array:
    """The times moved as little as needed for the first to be 0 and for phones of at least 5 ms."""
    steps = MIN_DURATION * np.arange(len(times))
    latest = np.minimum(times - steps, end - MIN_DURATION * len(times))
    latest[0] = 0.0
    return np.maximum.accumulate(latest) + steps


def _viterbi(
    compiler: GraphCompiler, tokens: Sequence[str], cepstra: Array, model: PretrainedModel
) -> tuple[Array, Array] | None:
    """The best path and its log ratios [T], from one computation of the scores.

    The log ratio is log p(x_t | q_t) - max_q log p(x_t | q), q_t the phone that frame t is aligned with; at most 0.
    p(x | q) is the largest likelihood of the states of phone q.
    """
    graph = compiler.compile(tokens)
    ids = graph.transition_ids
    weights = transition_weights(
        model.hmm, transition_scale=SEARCH.transition_scale, self_loop_scale=SEARCH.self_loop_scale
    )[ids].astype(np.float32)
    scale, pdfs = np.float32(SEARCH.acoustic_scale), model.hmm.table.pdf[ids]
    ratios = np.empty((len(cepstra), len(model.hmm.phones)), np.float16)  # of all phones: 30 MB for an hour

    def blocks() -> Iterator[Array]:
        for start in range(0, len(cepstra), BLOCK):
            scores = model.scores(cepstra, start, start + BLOCK)
            phones = scores.reshape(len(scores), -1, 3).max(axis=2)  # three states for each phone, in order
            ratios[start : start + BLOCK] = np.maximum(phones - phones.max(axis=1, keepdims=True), MIN_LOG_RATIO)
            yield scale * scores[:, pdfs] + weights

    path = best_path(graph, blocks, beam=SEARCH.beam, retry_beam=SEARCH.retry_beam)
    if path is None:
        return None
    return path, ratios[np.arange(len(path)), model.hmm.table.phone[path] - 1].astype(np.float32)
