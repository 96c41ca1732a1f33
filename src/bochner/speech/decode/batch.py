"""Decode many utterances into a directory: in several processes, and where a run was stopped it goes on."""

from __future__ import annotations

import json
import os
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from tqdm import tqdm

from bochner import checks
from bochner.speech.decode.beam import Search, decode
from bochner.speech.files import Skipped, parse_json, read_skipped, write_skipped
from bochner.speech.graph.decoding import DecodingGraph
from bochner.storage import write_atomically

Frames = NDArray[np.float32]


def log_priors(labels: ArrayLike, *, num_pdfs: int, pseudo_count: float = 1.0) -> NDArray[np.float64]:
    """log p(s) by counting labels [N], each pdf `pseudo_count` times more, so that none has probability 0; [num_pdfs].

    >>> np.exp(log_priors([0, 0, 1], num_pdfs=3)).round(3).tolist()
    [0.5, 0.333, 0.167]
    """
    counts = np.bincount(np.asarray(labels).ravel(), minlength=checks.positive_int("num_pdfs", num_pdfs))
    if len(counts) > num_pdfs:
        raise ValueError(f"labels must be below num_pdfs={num_pdfs}, got {len(counts) - 1}.")
    smoothed = counts + checks.positive_float("pseudo_count", pseudo_count)
    return np.log(smoothed / smoothed.sum())


def scaled_likelihoods(log_posteriors: ArrayLike, log_priors: ArrayLike) -> Frames:
    """log p(x | s) + constant = log p(s | x) - log p(s), for posteriors [T, S] and priors [S].

    Source: Bourlard & Morgan 1994.

    >>> np.exp(scaled_likelihoods(np.log([[0.5, 0.5]]), np.log([0.8, 0.2]))).round(3)
    array([[0.625, 2.5  ]], dtype=float32)
    """
    posteriors, priors = np.asarray(log_posteriors), np.asarray(log_priors)
    if posteriors.ndim != 2 or priors.shape != posteriors.shape[1:]:
        raise ValueError(
            f"log_posteriors must be [T, S] and log_priors [S], got {posteriors.shape} and {priors.shape}."
        )
    return (posteriors - priors).astype(np.float32)


HYPOTHESES, SETTINGS = "hypotheses.jsonl", "decoding.json"
Outcome = dict[str, Any] | Skipped


@dataclass(frozen=True)
class Decoded:
    """Words by utterance id in the order asked for, and the utterances left out with their reasons."""

    words: dict[str, tuple[str, ...]]
    skipped: list[Skipped]


def decode_utterances(
    directory: str | os.PathLike[str],
    *,
    graph: DecodingGraph,
    likelihoods: Callable[[str], ArrayLike],
    ids: Iterable[str],
    acoustic_weight: float = 0.1,
    word_penalty: float = 0.0,
    search: Search | None = None,
    workers: int = 1,
    progress: bool = False,
) -> Decoded:
    """Decode each utterance into `hypotheses.jsonl`; those that cannot be are in `skipped.jsonl` with the reason.

    likelihoods: utterance id -> log likelihoods [T, num_pdfs]; called in this process, in order. A ValueError or
    KeyError of its own skips the utterance. What a stopped run has written is kept and not decoded again, and other
    settings in the same directory are an error. With `workers` above 1 that many processes decode; a script must then
    be guarded by `if __name__ == "__main__"`. The result does not depend on their number.
    """
    folder, wanted, search = Path(directory), _unique(ids), search or Search()
    weight = checks.positive_float("acoustic_weight", acoustic_weight)
    settings = {"acoustic_weight": weight, "word_penalty": word_penalty, **asdict(search)}
    _claim(folder, {**settings, "graph": graph.fingerprint()})
    done, skipped = _read(folder / HYPOTHESES), []
    left = [name for name in wanted if name not in done]
    graph = graph.with_word_penalty(word_penalty)
    outcomes = _decoded(graph, likelihoods, left, weight, search, checks.positive_int("workers", workers))
    with (folder / HYPOTHESES).open("a", encoding="utf-8") as file:
        for outcome in tqdm(outcomes, total=len(left), desc="decode", unit="utterance", disable=not progress):
            if isinstance(outcome, Skipped):
                skipped.append(outcome)
                continue
            done[outcome["id"]] = tuple(outcome["words"])
            file.write(json.dumps(outcome, ensure_ascii=False) + "\n")
            file.flush()
    write_skipped(folder, skipped)
    return Decoded({name: done[name] for name in wanted if name in done}, skipped)


def read_hypotheses(directory: str | os.PathLike[str]) -> Decoded:
    """What `decode_utterances` left in a directory."""
    return Decoded(_read(Path(directory) / HYPOTHESES), read_skipped(directory))


def _unique(ids: Iterable[str]) -> list[str]:
    wanted = list(ids)
    if len(set(wanted)) != len(wanted):
        raise ValueError("ids must differ, but one of them comes twice.")
    return wanted


def _claim(folder: Path, settings: Mapping[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / SETTINGS
    if not path.exists():
        write_atomically(path, json.dumps(settings, indent=1).encode())
        return
    try:
        found = dict(parse_json(path.read_bytes()))
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path} does not hold settings of decoding: {error}; delete {folder}.") from error
    if found != settings:
        changed = ", ".join(
            f"{key}: {found.get(key)!r} there, {settings[key]!r} here"
            for key in settings
            if found.get(key) != settings[key]
        )
        raise ValueError(f"{folder} was decoded with other settings ({changed}); use another directory or delete it.")


def _read(path: Path) -> dict[str, tuple[str, ...]]:
    """The whole lines of the file; a last line that a kill cut short is taken off it."""
    if not path.exists():
        return {}
    content = path.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    if whole != content:
        write_atomically(path, whole)
    found = {}
    for number, line in enumerate(whole.splitlines(), start=1):
        try:
            row = parse_json(line)
            found[str(row["id"])] = tuple(row["words"])
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path}, line {number}: not a hypothesis ({error!r}).") from error
    return found


def _decoded(
    graph: DecodingGraph,
    likelihoods: Callable[[str], ArrayLike],
    ids: Sequence[str],
    weight: float,
    search: Search,
    workers: int,
) -> Iterator[Outcome]:
    if workers == 1 or len(ids) < 2:
        for name in ids:
            scores = _asked(likelihoods, name)
            yield scores if isinstance(scores, Skipped) else _outcome(graph, name, scores, weight, search)
        return
    with tempfile.TemporaryDirectory() as folder:
        graph.save(folder)
        # Not by fork: the threads of torch do not survive it.
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
            waiting: deque[Outcome | Future[Outcome]] = deque()
            for name in ids:
                scores = _asked(likelihoods, name)
                late = isinstance(scores, Skipped)
                waiting.append(scores if late else pool.submit(_remote, folder, name, scores, weight, search))
                if len(waiting) > 4 * workers:  # what waits is bounded
                    yield _result(waiting.popleft())
            while waiting:
                yield _result(waiting.popleft())


def _result(waiting: Outcome | Future[Outcome]) -> Outcome:
    return waiting.result() if isinstance(waiting, Future) else waiting


def _asked(likelihoods: Callable[[str], ArrayLike], name: str) -> Any:
    try:
        return np.asarray(likelihoods(name), dtype=np.float32)
    except (ValueError, KeyError) as error:
        return Skipped(name, f"no likelihoods ({error})")


def _remote(folder: str, name: str, scores: Any, weight: float, search: Search) -> Outcome:
    return _outcome(_loaded(folder), name, scores, weight, search)


@lru_cache(maxsize=1)
def _loaded(folder: str) -> DecodingGraph:
    return DecodingGraph.load(folder)


def _outcome(graph: DecodingGraph, name: str, scores: Any, weight: float, search: Search) -> Outcome:
    try:
        found = decode(graph, scores, acoustic_weight=weight, search=search)
    except ValueError as error:
        return Skipped(name, str(error))
    costs = {"graph_cost": found.graph_cost, "acoustic_cost": found.acoustic_cost, "complete": found.complete}
    return {"id": name, "words": list(found.words), **costs}
