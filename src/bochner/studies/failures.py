"""Cells that failed, told in one line each."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


class FailedCellsError(RuntimeError):
    """Some cells of a study could not be measured; the others are kept.

    >>> print(FailedCellsError({"cell 7": "ValueError: too large"}, num_cells=9, ledger=Path("cells.jsonl")))
    1 of 9 cells failed, cell 7: ValueError: too large. The others are kept in cells.jsonl; mend the cause and give the
    same command again, which measures the failed ones alone.
    """

    def __init__(self, errors: Mapping[object, str], *, num_cells: int, ledger: Path) -> None:
        cell, error = next(iter(errors.items()))
        first = "the first, " if len(errors) > 1 else ""
        super().__init__(
            f"{len(errors)} of {num_cells} cells failed, {first}{cell}: {error.rstrip('.')}. The others are kept in "
            f"{ledger}; mend the cause and give the same command again, which measures the failed ones alone."
        )


def told(error: BaseException) -> str:
    """What went wrong, with its kind where the words alone may not say it.

    >>> told(KeyError("X_train")), told(RuntimeError("out of memory"))
    ("KeyError: 'X_train'", 'out of memory')
    """
    return str(error) if type(error) is RuntimeError else f"{type(error).__name__}: {error}"
