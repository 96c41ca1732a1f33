"""What a study is: cells to be measured one by one, and a way to show them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from bochner.report import Page
from bochner.studies.ledger import Ledger, Result

Size = Literal["smoke", "small", "paper"]
Row = dict[str, Any]
Measure = Callable[[Any], Result]


@dataclass(frozen=True)
class Where:
    """Where cells are measured: a folder of data files, a device, a folder for what is made on the way.

    Without that folder what is made goes when the measuring ends.
    """

    data_dir: Path
    device: str = "cpu"
    made: Path | None = None


@dataclass(frozen=True)
class Study:
    """One table or figure.

    `cells` gives what is measured at a size, `measuring` a function of a cell for a place, `show` puts rows on a page.
    A row is a cell's fields and its results together. Studies of the same `ledger` share finished cells. `files` says
    which file a cell's `data` lies in, where it is one.
    """

    name: str
    title: str
    source: str
    protocol: str
    ledger: str
    cell: Callable[..., Any]
    cells: Callable[[Size], Sequence[Any]]
    measuring: Callable[[Where], Measure]
    show: Callable[[Page, Sequence[Row]], object]
    files: Mapping[str, str] = field(default_factory=dict)

    def file_of(self, cell: Any) -> str | None:
        return self.files.get(getattr(cell, "data", ""))

    def rows(self, cells: Iterable[Any], finished: Ledger[Any]) -> list[Row]:
        """The cells that are measured."""
        return [{**asdict(cell), **result} for cell in cells if (result := finished.get(cell)) is not None]


def with_seeds(cells: Sequence[Any], seeds: Sequence[int] | None) -> list[Any]:
    """The same cells for other seeds: each with one of them, or with all where a cell holds them together.

    >>> from bochner.studies.lowrank.cells import Cell
    >>> [cell.seed for cell in with_seeds([Cell("optimum", "german", 1.0, seed=7)], [0, 1])]
    [0, 1]
    >>> from bochner.studies.speech.cells import BestCell
    >>> [cell.seeds for cell in with_seeds([BestCell("synthetic timit-like", "kernel", "small", (7,))], [0, 1])]
    [(0, 1)]
    """
    if seeds is None:
        return list(dict.fromkeys(cells))
    return list(dict.fromkeys(found for cell in cells for found in _seeded(cell, seeds)))


def _seeded(cell: Any, seeds: Sequence[int]) -> list[Any]:
    if hasattr(cell, "seeds"):
        return [replace(cell, seeds=tuple(seeds))]
    return [replace(cell, seed=seed) for seed in seeds]
