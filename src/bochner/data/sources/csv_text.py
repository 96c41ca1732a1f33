"""Comma-separated text with a header line."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from bochner.data.blocks import Block
from bochner.data.sources.tables import assign_roles, pyarrow, reading


def csv_blocks(
    path: str | os.PathLike[str],
    *,
    target: str | None = None,
    columns: Sequence[str] | None = None,
    weight: str | None = None,
) -> Iterator[Block]:
    """The rows of a CSV file from first to last, about a megabyte of text at a time; `spool` makes a source of them.

    Inputs are float64. Integer targets stay integers when those in the first megabyte are.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "t.csv")
    ...     _ = path.write_text("a,b,y\\n1,2,0\\n3,4,1\\n")
    ...     next(csv_blocks(path, target="y"))
    Block(X=tensor([[1., 2.],
            [3., 4.]], dtype=torch.float64), y=tensor([0, 1]), weight=None)
    """
    path, csv = Path(path), pyarrow("csv")
    with reading(path):
        with csv.open_csv(path) as reader:
            schema = reader.schema
        roles = assign_roles({path: schema}, target=target, columns=columns, weight=weight)
        inputs = {name: pyarrow().float64() for name in roles.names if name != target}
        convert = csv.ConvertOptions(column_types=inputs, include_columns=roles.names)
        reader = csv.open_csv(path, convert_options=convert)
    roles = assign_roles({path: reader.schema}, target=target, columns=roles.inputs, weight=weight)
    first_row = 0
    with reader:
        while True:
            with reading(path):
                batch = next(reader, None)
            if batch is None:
                return
            yield roles.block(pyarrow().Table.from_batches([batch]), path, first_row)
            first_row += len(batch)
