"""Encoding, separator, quotes and decimal sign of text tables."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from bochner.data import read_table
from bochner.data.text_format import TextFormat, detect_format, utf8_file


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"a,b\n1,2\n", TextFormat()),
        (b"a;b\n1;2\n", TextFormat(sep=";")),
        (b"a\tb c\n1\t2,5\n", TextFormat(sep="\t", decimal=",")),
        (b"a|b\n1|2\n", TextFormat(sep="|")),
        (b"a;b\n1,5;2,5\n-0,25;1\n", TextFormat(sep=";", decimal=",")),
        (b"a;b\n1.5;2,5\n0.25;1.5\n", TextFormat(sep=";")),
        (b"a;b\n31.12.2020;x\n01.02.2021;y\n", TextFormat(sep=";")),
        (b"sep=;\na;b\n1;2\n", TextFormat(sep=";", first_line=1)),
        (b'a,b\n"1;2;3;4",x\n"5;6;7;8",y\n', TextFormat()),
        (b"a,b\n'x, y',1\n'z, w',2\n", TextFormat(quote="'")),
        (b"a,b\nit's,1\nthey're,2\n", TextFormat()),
        (b"only\n1\n2\n", TextFormat()),
        (b"", TextFormat()),
        ("ä;b\n1;Köln\n".encode("cp1252"), TextFormat("cp1252", ";")),
        ("ä;b\n1;Köln\n".encode("utf-8-sig"), TextFormat(sep=";")),
        ("ä\tb\n1\tKöln\n".encode("utf-16"), TextFormat("utf-16", "\t")),
        ("ä\tb\n1\tKöln\n".encode("utf-16-le"), TextFormat("utf-16-le", "\t")),
        (b"a;b\n1;\x81\n", TextFormat("latin-1", ";")),
    ],
)
def test_detected(content: bytes, expected: TextFormat, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(content)
    assert detect_format(tmp_path / "t.csv") == expected
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(content))
    assert detect_format(tmp_path / "t.csv.gz") == expected


def test_lines_that_differ_from_the_header_count_against_a_separator(tmp_path: Path) -> None:
    lines = ["name;note", *[f"n{i};one, two, {'three, ' * (i % 3)}four" for i in range(30)]]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    assert detect_format(tmp_path / "t.csv").sep == ";"


def test_what_is_given_is_kept(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a;b\n1,5;2,5\n")
    assert detect_format(tmp_path / "t.csv", sep="tab") == TextFormat(sep="\t", decimal=".")
    assert detect_format(tmp_path / "t.csv", decimal=".").decimal == "."
    assert detect_format(tmp_path / "t.csv", encoding="latin1").encoding == "iso8859-1"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sep": "::"}, "sep must be a single character or 'tab', got '::'"),
        ({"decimal": ";"}, "decimal must be one of"),
        ({"sep": ",", "decimal": ","}, "decimal and sep must differ"),
        ({"encoding": "utf-99"}, "got 'utf-99'"),
    ],
)
def test_formats_that_cannot_be(options: dict[str, str], message: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match=message):
        detect_format(tmp_path / "t.csv", **options)


def test_a_wrong_encoding_is_named(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes("a\nKöln\n".encode("cp1252"))
    with (
        pytest.raises(ValueError, match=r"cannot be read as ascii.*--encoding"),
        utf8_file(tmp_path / "t.csv", "ascii"),
    ):
        pass
    with pytest.raises(ValueError, match=r"column 'a' cannot be read as utf-8; choose another --encoding"):
        read_table(tmp_path / "t.csv", encoding="utf-8")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "utf-16"])
@pytest.mark.parametrize("sep", [",", ";", "\t"])
def test_text_survives_every_format(encoding: str, sep: str, tmp_path: Path) -> None:
    text = f'größe{sep}"a{sep}b"\nKöln{sep}1\n"zwei\nZeilen"{sep}2\n'
    (tmp_path / "t.csv").write_bytes(text.encode(encoding))
    assert read_table(tmp_path / "t.csv").to_pydict() == {"größe": ["Köln", "zwei\nZeilen"], f"a{sep}b": [1, 2]}
