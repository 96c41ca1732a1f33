"""TextGrids: both text formats, encodings, quotes, gaps."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from bochner.speech.manifest import Segment
from bochner.speech.textgrid import read_textgrid, write_textgrid

SHORT = '''File type = "ooTextFile"
Object class = "TextGrid"

0
2.5
<exists>
2
"TextTier"
"bells"
0
2.5
1
1.25
"ding"
"IntervalTier"
"speech"
0
2.5
2
0
1.5
"she said ""yes"""
1.5
2.5
""
'''


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-8-sig"])
def test_the_short_format(encoding: str, tmp_path: Path) -> None:
    (tmp_path / "a.TextGrid").write_bytes(SHORT.encode(encoding))
    tiers = read_textgrid(tmp_path / "a.TextGrid")
    assert tiers == {"speech": (Segment('she said "yes"', 0.0, 1.5), Segment("", 1.5, 2.5))}


def test_what_is_written_is_read_again_without_gaps(tmp_path: Path) -> None:
    words = [("item [1]: 7", 0.5, 1.0), ('"', 1.25, 2.0)]
    write_textgrid(tmp_path / "a.TextGrid", {"words": words, "none": []}, duration=2.0)
    tiers = read_textgrid(tmp_path / "a.TextGrid")
    assert [tuple(s) for s in tiers["words"] if s.label] == words
    for tier in tiers.values():
        assert tier[0].start == 0.0
        assert tier[-1].end == 2.0
        assert all(a.end == b.start for a, b in pairwise(tier))


def test_the_independent_parser_reads_it(tmp_path: Path) -> None:
    textgrid = pytest.importorskip("praatio.textgrid", reason="praatio is not installed")
    write_textgrid(tmp_path / "a.TextGrid", {"words": [("yes", 0.25, 0.5)]}, duration=1.0)
    grid = textgrid.openTextgrid(str(tmp_path / "a.TextGrid"), includeEmptyIntervals=False)
    assert [tuple(entry) for entry in grid.getTier("words").entries] == [(0.25, 0.5, "yes")]


@pytest.mark.parametrize("content", [b"", b"hello", b'"ooTextFile" "Pitch 1"', SHORT[:120].encode(), b"\xff\xfe\x00"])
def test_a_broken_file_is_named(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "broken.TextGrid").write_bytes(content)
    with pytest.raises(ValueError, match=r"broken\.TextGrid"):
        read_textgrid(tmp_path / "broken.TextGrid")
