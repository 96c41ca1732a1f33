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
class Study:
    """One table or figure.

    `cells` gives what is measured at a size, `measuring` a function of a cell for a folder of data, `show` puts rows on
    a page. A row is a cell's fields and its results together. Studies of the same `ledger` share finished cells.
    `files` says which file a cell's `data` lies in, where it is one. One that `keeps` what it makes on the way has a
    `measuring` that takes a folder for it as well.
    """

    name: str
    title: str
    source: str
    protocol: str
    ledger: str
    cell: Callable[..., Any]
    cells: Callable[[Size], Sequence[Any]]
    measuring: Callable[..., Measure]
    show: Callable[[Page, Sequence[Row]], object]
    files: Mapping[str, str] = field(default_factory=dict)
    keeps: bool = False

    def file_of(self, cell: Any) -> str | None:
        return self.files.get(getattr(cell, "data", ""))

    def measure(self, data_dir: Path, folder: Path) -> Measure:
        return self.measuring(data_dir, folder) if self.keeps else self.measuring(data_dir)

    def rows(self, cells: Iterable[Any], finished: Ledger[Any]) -> list[Row]:
        """The cells that are measured."""
        return [{**asdict(cell), **result} for cell in cells if (result := finished.get(cell)) is not None]


def with_seeds(cells: Sequence[Any], seeds: Sequence[int] | None) -> list[Any]:
    """The same cells for other seeds; those that hold all their seeds in one stay.

    >>> from bochner.studies.lowrank.cells import Cell
    >>> [cell.seed for cell in with_seeds([Cell("optimum", "german", 1.0, seed=7)], [0, 1])]
    [0, 1]
    """
    if seeds is None:
        return list(dict.fromkeys(cells))
    found = (replace(cell, seed=seed) if hasattr(cell, "seed") else cell for cell in cells for seed in seeds)
    return list(dict.fromkeys(found))
