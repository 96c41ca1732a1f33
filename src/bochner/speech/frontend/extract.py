"""Frames of a whole corpus, computed in several processes and resumed after an interruption."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from tqdm import tqdm

from bochner.speech.audio import AudioError, read_audio
from bochner.speech.frames import Array, FrameStore, FrameWriter, check_new
from bochner.speech.frontend.cepstra import Fbank, Mfcc, Plp
from bochner.speech.kaldi_formats import read_matrix
from bochner.speech.manifest import Utterance
from bochner.speech.runtime import process_pool
from bochner.speech.text_files import SKIPPED, FilePath, Skipped, read_skipped, summarize, write_skipped
from bochner.stages import locked

FrontEnd = Mfcc | Fbank | Plp
CHUNK = 16  # utterances per task of a process
CPU_SECONDS = 0.01  # for each second of speech


class Extraction(NamedTuple):
    """The frames, and the skipped utterances with their reasons."""

    store: FrameStore
    skipped: list[Skipped]


def extract(
    utterances: Iterable[Utterance],
    directory: FilePath,
    *,
    corpus_dir: FilePath,
    frontend: FrontEnd | None,
    workers: int = 1,
    verbose: bool = False,
) -> Extraction:
    """Compute the frames of all utterances as a store in `directory`; `corpus_dir` is the directory of their manifest.

    Without a front end the frames are those that the corpus provides. An utterance that cannot be used is skipped with
    a reason, recorded in `skipped.jsonl`. An interrupted run leaves its frames in `directory`.partial and continues
    from there when called again with the same arguments; a finished directory is only opened. The result does not
    depend on `workers`, the number of processes.
    """
    utterances, final = list(utterances), Path(directory)
    ids = {utterance.id for utterance in utterances}
    about = {"frontend": None if frontend is None else frontend.options()}
    if (final / SKIPPED).exists():
        store, skipped = FrameStore(final), read_skipped(final)
        stored = {*store.ids, *(entry.id for entry in skipped)}
        if store.about != about or stored != ids:
            raise ValueError(
                f"{final} holds {len(stored)} utterances with {store.about}, but {len(ids)} with {about} are needed; "
                "use another directory or delete it."
            )
        return Extraction(store, skipped)
    with locked(final.parent):
        writer = FrameWriter(check_new(final).with_name(final.name + ".partial"), about=about)
        if unknown := writer.ids - ids:
            raise ValueError(f"{writer.directory} holds other utterances, such as {min(unknown)!r}; delete it.")
        remaining = [utterance for utterance in utterances if utterance.id not in writer.ids]
        computed = _computed(remaining, Path(corpus_dir), frontend, workers)
        skipped = _write(tqdm(computed, total=len(remaining), disable=not verbose, unit="utterance"), writer)
        if not writer.ids:
            raise ValueError(f"utterances must give frames for {directory}, got none: {summarize(skipped)}.")
        write_skipped(writer.directory, skipped)
        return Extraction(writer.finish(final), skipped)


def _write(computed: Iterable[tuple[str, Array | str]], writer: FrameWriter) -> list[Skipped]:
    """Add the frames to `writer`, also if the stream breaks off; returns the utterances with a reason instead."""
    skipped = []
    try:
        for name, frames in computed:
            if isinstance(frames, str):
                skipped.append(Skipped(name, frames))
            else:
                writer.add(name, frames)
    finally:
        writer.flush()
    return skipped


def _computed(
    utterances: Sequence[Utterance], corpus_dir: Path, frontend: FrontEnd | None, workers: int
) -> Iterator[tuple[str, Array | str]]:
    """Utterance ids in order, each with its frames or the reason why there are none."""
    compute = partial(frames_or_reason, corpus_dir=corpus_dir, frontend=frontend)
    block = 4 * CHUNK * workers  # bounds the frames that wait to be written
    speech = sum(utterance.duration for utterance in utterances)
    with process_pool(workers, seconds=CPU_SECONDS * speech) as pool:
        for start in range(0, len(utterances), block):
            part = utterances[start : start + block]
            yield from map(compute, part) if pool is None else pool.map(compute, part, chunksize=CHUNK)


def frames_or_reason(
    utterance: Utterance, *, corpus_dir: FilePath, frontend: FrontEnd | None
) -> tuple[str, Array | str]:
    """The id of the utterance with its frames float32 [T, d], or with the reason why it has none."""
    try:
        if frontend is None:
            frames = _stored_frames(utterance, Path(corpus_dir))
        else:
            frames = _computed_frames(utterance, Path(corpus_dir), frontend)
        if not np.isfinite(frames).all():
            return utterance.id, "NaN or infinite frames"
        return utterance.id, frames
    except AudioError as error:
        return utterance.id, error.reason
    except (ValueError, EOFError, OSError) as error:
        return utterance.id, str(error)


def _computed_frames(utterance: Utterance, corpus_dir: Path, frontend: FrontEnd) -> Array:
    if utterance.audio is None:
        raise ValueError("no audio (the corpus provides frames: extract with frontend=None)")
    return frontend(read_audio(utterance.replace(rate=frontend.rate), corpus_dir=corpus_dir))


def _stored_frames(utterance: Utterance, corpus_dir: Path) -> Array:
    if utterance.frames is None:
        raise ValueError("no frames (the corpus provides audio: extract with a front end)")
    path = corpus_dir / utterance.frames
    frames = np.load(path, allow_pickle=False) if path.suffix == ".npy" else read_matrix(path)
    if frames.ndim != 2 or not len(frames):
        raise ValueError(f"no frames (shape {list(frames.shape)} in {utterance.frames})")
    return frames.astype(np.float32)
