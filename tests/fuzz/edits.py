"""Nearly valid files: a valid file with a few edits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hypothesis import strategies as st

# Typical causes of failures: extreme sizes, signs and text.
BYTES = (
    b"\x00", b"\xff", b"\x00" * 8, b"\xff" * 4, b"\xff" * 8, b"\x7f\xff\xff\xff", b"\x80\x00\x00\x00",
    b"\xef\xbb\xbf", b"\xc3\x28",
)  # fmt: skip
WORDS = (
    b"nan", b"inf", b"-1", b"1e999", b"99999999999999999999", b"0x10", b"1_0", "\u0661".encode(), b"", b"\n", b"\r",
    b" ", b"\t", b",", b":", b'"', b"'", b"{", b"}", b"[", b"[" * 200, b"..", b"/etc/passwd", b"null", b"true",
    b"&a [*a]", b"!!python/object/apply:os.system",
)  # fmt: skip


class Edit(NamedTuple):
    """Replace `length` bytes (None: as many as there are new ones) at `at`, a share of the file, by `content`."""

    at: float
    length: int | None
    content: bytes

    def apply(self, data: bytes) -> bytes:
        place, length = round(self.at * len(data)), len(self.content) if self.length is None else self.length
        return data[:place] + self.content + data[place + length :]


def edited(data: bytes, *, words: Sequence[bytes] = ()) -> st.SearchStrategy[bytes]:
    """`data` with one to four edits, overwritten in one place, truncated, with a part repeated, or arbitrary bytes."""
    share = st.floats(0, 1)
    content = st.one_of(st.sampled_from([*BYTES, *WORDS, *words]), st.binary(max_size=8))
    edits = st.lists(
        st.builds(Edit, share, st.sampled_from([0, 0, 1, 1, 2, 4, 8, 64]), content), min_size=1, max_size=4
    )
    overwritten = st.builds(Edit, share, st.none(), content).map(lambda edit: edit.apply(data)[: len(data)])
    cut = share.map(lambda at: data[: round(at * len(data))])
    repeated = st.tuples(share, share).map(lambda ends: _repeated(data, *sorted(ends)))
    several = edits.map(lambda found: _applied(data, found))
    return st.one_of(several, several, overwritten, cut, repeated, st.binary(max_size=200))


def _applied(data: bytes, edits: Sequence[Edit]) -> bytes:
    for edit in edits:
        data = edit.apply(data)
    return data


def _repeated(data: bytes, start: float, end: float) -> bytes:
    first, last = round(start * len(data)), round(end * len(data))
    return data[:last] + data[first:]
