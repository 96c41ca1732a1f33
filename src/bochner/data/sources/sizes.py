"""How many rows a shard has."""

from __future__ import annotations

from bochner import checks

SHARD_ROWS = 8192
SHARD_BYTES = 32 * 2**20


def rows_per_shard(shard_rows: int | None, *, row_bytes: int) -> int:
    """`shard_rows` as it is given, else 8192 or as many dense rows as 32 MiB hold, at least one.

    >>> rows_per_shard(None, row_bytes=784 * 4), rows_per_shard(None, row_bytes=50_000 * 4)
    (8192, 167)
    """
    if shard_rows is not None:
        return checks.positive_int("shard_rows", shard_rows)
    return max(1, min(SHARD_ROWS, SHARD_BYTES // max(1, row_bytes)))
