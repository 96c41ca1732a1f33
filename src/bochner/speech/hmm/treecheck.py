"""Whether bytes are a tree: Kaldi's C++ believes every size it reads, and asks for as much memory."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from bochner.speech.hmm.binary import Cursor


def check_tree(content: bytes) -> None:
    """An error unless `content` is a ContextDependency with no pdf beyond the number of its leaves; O(its length).

    The format: `CE pdf` is a leaf, `SE key values { yes no }` a question, `TE key size ( ... )` a table of subtrees,
    some of them `NULL`.
    """
    cursor = Cursor(content)
    try:
        cursor.expect("ContextDependency")
        width, central = cursor.integer(), cursor.integer()
        cursor.expect("ToPdf")
        pdfs = list(_leaves(cursor))
        cursor.expect("EndContextDependency")
    except (ValueError, struct.error, RecursionError) as error:
        raise ValueError(f"not a tree of Kaldi's: {error}") from error
    if not (0 <= central < width and pdfs and min(pdfs) >= 0 and max(pdfs) < len(pdfs)):
        raise ValueError(f"a tree must number its pdfs from 0, got {sorted(pdfs)[-3:]} in {len(pdfs)} leaves.")


def _leaves(cursor: Cursor) -> Iterator[int]:
    """The pdfs of the subtree that begins here."""
    match kind := cursor.token():
        case "CE":
            yield cursor.integer()
        case "SE":
            cursor.integer()
            cursor.integers()
            yield from _within(cursor, "{}", 2)
        case "TE":
            cursor.integer()
            yield from _within(cursor, "()", cursor.unsigned())
        case "NULL":
            return
        case _:
            raise ValueError(f"expected CE, SE, TE or NULL, got {kind[:20]!r}")


def _within(cursor: Cursor, brackets: str, count: int) -> Iterator[int]:
    cursor.expect(brackets[0])
    for _ in range(count):
        yield from _leaves(cursor)
    cursor.expect(brackets[1])
