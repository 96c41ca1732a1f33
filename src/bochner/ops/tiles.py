"""Rows in tiles, so that temporaries stay bounded and, on a CPU, in cache."""

from __future__ import annotations

from collections.abc import Iterator


def row_tiles(num_rows: int, *, row_elements: int, tile_elements: int) -> Iterator[slice]:
    """Slices that cover `num_rows`, each as many rows as fit into `tile_elements` (at least one).

    >>> list(row_tiles(5, row_elements=10, tile_elements=25))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    step = max(1, tile_elements // max(1, row_elements))
    for start in range(0, num_rows, step):
        yield slice(start, min(start + step, num_rows))
