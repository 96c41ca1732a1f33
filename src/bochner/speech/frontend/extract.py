"""The front end over a whole corpus, in several processes, resumed where it stopped."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import numpy as np
from tqdm import tqdm

from bochner import checks
from bochner.speech.audio import AudioError, read_audio
from bochner.speech.frames import FilePath, Frames, FrameStore, FrameWriter, check_new
from bochner.speech.frontend.cepstra import Fbank, Mfcc, Plp
from bochner.speech.kaldi_formats import read_matrix
from bochner.speech.manifest import Utterance
from bochner.speech.text_files import SKIPPED, Skipped, read_skipped, summarize, write_skipped

FrontEnd = Mfcc | Fbank | Plp
CHUNK = 16  # utterances handed to a process at once


class Extraction(NamedTuple):
    """The frames, and the utterances that gave none, each with its reason."""

    store: FrameStore
    skipped: list[Skipped]


def extract(
    utterances: Iterable[Utterance],
    directory: FilePath,
    *,
    folder: FilePath,
    frontend: FrontEnd | None,
    workers: int = 1,
    progress: bool = False,
) -> Extraction:
    """Frames of all utterances as a store in `directory`; `folder` is that of their manifest.

    Without a front end the frames are those that the corpus gives. An utterance that cannot be used is skipped with a
    reason, and `skipped.jsonl` in the directory keeps them. While it runs the frames lie in `directory`.partial;
    called again with the same arguments it goes on from there, and a finished directory is only opened.
    The result does not depend on `workers`, the number of processes.
    """
    wanted, final = list(utterances), Path(directory)
    about = {"frontend": None if frontend is None else frontend.options()}
    if (final / SKIPPED).exists():
        return _opened(final, wanted, about)
    writer = FrameWriter(check_new(final).with_name(final.name + ".partial"), about=about)
    if strange := writer.ids - {one.id for one in wanted}:
        raise ValueError(f"{writer.folder} holds other utterances, such as {min(strange)!r}; remove it to begin anew.")
    left = [one for one in wanted if one.id not in writer.ids]
    computed = _computed(left, Path(folder), frontend, workers)
    skipped = _written(tqdm(computed, total=len(left), disable=not progress, unit="utterance"), writer)
    if not writer.ids:
        raise ValueError(f"utterances must give frames for {directory}, got none: {summarize(skipped)}.")
    write_skipped(writer.folder, skipped)
    return Extraction(writer.finish(final), skipped)


def _written(computed: Iterable[tuple[str, Frames | str]], writer: FrameWriter) -> list[Skipped]:
    """Those of the stream that have a reason instead of frames; the others are on disk, even if it breaks off."""
    skipped = []
    try:
        for name, found in computed:
            if isinstance(found, str):
                skipped.append(Skipped(name, found))
            else:
                writer.add(name, found)
    finally:
        writer.flush()
    return skipped


def _opened(final: Path, wanted: Sequence[Utterance], about: Mapping[str, object]) -> Extraction:
    store, skipped = FrameStore(final), read_skipped(final)
    held = {*store.ids, *(one.id for one in skipped)}
    if store.about != about or held != {one.id for one in wanted}:
        raise ValueError(
            f"{final} holds frames of {len(held)} utterances by {store.about}, now asked for {len(wanted)} by {about}; "
            f"choose another directory or remove that one."
        )
    return Extraction(store, skipped)


def _computed(
    utterances: Sequence[Utterance], folder: Path, frontend: FrontEnd | None, workers: int
) -> Iterator[tuple[str, Frames | str]]:
    """Utterance ids in order, each with its frames or the reason why there are none."""
    compute = partial(frames_or_reason, folder=folder, frontend=frontend)
    if checks.positive_int("workers", workers) == 1:
        yield from map(compute, utterances)
        return
    # Not by fork: the threads of torch do not survive it.
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        block = 4 * CHUNK * workers  # what waits to be written is bounded
        for start in range(0, len(utterances), block):
            yield from pool.map(compute, utterances[start : start + block], chunksize=CHUNK)


def frames_or_reason(
    utterance: Utterance, *, folder: str | os.PathLike[str], frontend: FrontEnd | None
) -> tuple[str, Frames | str]:
    """The id of the utterance with its frames float32 [T, d], or with the reason why it has none."""
    try:
        frames = _given(utterance, Path(folder)) if frontend is None else _made(utterance, Path(folder), frontend)
        if not np.isfinite(frames).all():
            return utterance.id, "NaN or infinite frames"
        return utterance.id, frames
    except AudioError as error:
        return utterance.id, error.reason
    except (ValueError, EOFError, OSError) as error:
        return utterance.id, str(error)


def _made(utterance: Utterance, folder: Path, frontend: FrontEnd) -> Frames:
    if utterance.audio is None:
        raise ValueError("no audio (the corpus gives frames: extract with frontend=None)")
    if utterance.rate != frontend.rate:
        raise ValueError(f"wrong rate ({utterance.rate} Hz, the front end expects {frontend.rate})")
    return frontend(read_audio(utterance, folder=folder))


def _given(utterance: Utterance, folder: Path) -> Frames:
    if utterance.frames is None:
        raise ValueError("no frames (the corpus gives audio: extract with a front end)")
    path = folder / utterance.frames
    frames = np.load(path, allow_pickle=False) if path.suffix == ".npy" else read_matrix(path)
    if frames.ndim != 2 or not len(frames):
        raise ValueError(f"no frames (shape {list(frames.shape)} in {utterance.frames})")
    return frames.astype(np.float32)
