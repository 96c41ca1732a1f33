"""Tables of every format in memory: types, missing values, index columns, identifiers; rows of numbers as sources."""

from __future__ import annotations

import datetime
import gzip
import json
import logging
import lzma
from pathlib import Path

import numpy as np
import pandas
import pyarrow
import pyarrow.feather
import pytest
import torch

from bochner.data import ArraySource, CachedSource, TableEncoder, TableRows, open_rows, open_source, read_table
from bochner.data.table_rows import is_numeric, warn_of_columns

CSV = "town;born;member;size;rent\nUlm;2001-02-03;true;1,5;low\nKiel;;false;;high\nUlm;1999-12-31;true;2,25;low\n"


@pytest.fixture
def frame() -> pandas.DataFrame:
    return pandas.DataFrame(
        {
            "town": ["Ulm", "Kiel", "Ulm"],
            "born": pandas.to_datetime(["2001-02-03", None, "1999-12-31"]),
            "member": [True, False, True],
            "size": [1.5, np.nan, 2.25],
            "rent": ["low", "high", "low"],
        }
    )


def _write(frame: pandas.DataFrame, path: Path) -> Path:
    writers = {
        ".csv": lambda: path.write_text(CSV),
        ".gz": lambda: path.write_bytes(gzip.compress(CSV.encode())),
        ".xz": lambda: path.write_bytes(lzma.compress(CSV.encode("utf-16"))),
        ".tsv": lambda: frame.to_csv(path, sep="\t", index=False),
        ".parquet": lambda: frame.to_parquet(path),
        ".feather": lambda: frame.to_feather(path),
        ".jsonl": lambda: frame.to_json(path, orient="records", lines=True, date_format="iso"),
        ".json": lambda: frame.to_json(path, orient="records", date_format="iso"),
    }
    writers[path.suffix]()
    return path


@pytest.mark.parametrize(
    "name", ["t.csv", "t.csv.gz", "t.csv.xz", "t.tsv", "t.parquet", "t.feather", "t.jsonl", "t.json"]
)
def test_every_format_gives_the_same_numbers(name: str, frame: pandas.DataFrame, tmp_path: Path) -> None:
    rows = open_rows(_write(frame, tmp_path / name), target="rent")
    assert isinstance(rows, TableRows)
    assert rows.column_names == ("town", "born", "member", "size")
    assert rows.y.tolist() == ["low", "high", "low"]
    assert rows.labels == ("high", "low")
    expected, Z = TableEncoder.fit(frame.drop(columns="rent"), [1, 0, 1], num_classes=2)
    encoder, same = TableEncoder.fit(rows.X, [1, 0, 1], num_classes=2)
    assert encoder.names == expected.names
    np.testing.assert_allclose(same, Z)


def test_directories_of_tables(frame: pandas.DataFrame, tmp_path: Path) -> None:
    frame[:1].to_parquet(tmp_path / "a.parquet")
    frame[1:].to_parquet(tmp_path / "b.parquet")
    assert read_table(tmp_path).to_pydict()["town"] == ["Ulm", "Kiel", "Ulm"]
    frame.drop(columns="town").to_parquet(tmp_path / "c.parquet")
    assert read_table(tmp_path).to_pydict()["town"][3:] == [None] * 3
    frame.assign(town=1.5).to_parquet(tmp_path / "d.parquet")
    with pytest.raises(ValueError, match="same columns"):
        read_table(tmp_path)


def test_missing_values_have_many_names(tmp_path: Path) -> None:
    texts = ["", "NA", "N/A", "NaN", "NULL", "null", "None", "?", "-", '""']
    (tmp_path / "t.csv").write_text("x,y\n" + "".join(f"{text},1\n" for text in texts) + "2.5,3\n")
    assert read_table(tmp_path / "t.csv")["x"].to_pylist() == [None] * len(texts) + [2.5]


def test_types_are_those_of_all_rows(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("x,y\n" + "1,2\n" * 300_000 + "a,2.5\n")  # beyond a block of pyarrow's reader
    table = read_table(tmp_path / "t.csv")
    assert [str(kind) for kind in table.schema.types] == ["string", "double"]


def test_thousands_separators(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text('x,z\n"1,234.5",a\n12,b\n"1,000,000",c\n')
    (tmp_path / "u.csv").write_text("x;z\n1.234,5;a\n12;b\n1.000.000;c\n")
    for name in ("t.csv", "u.csv"):
        assert read_table(tmp_path / name)["x"].to_pylist() == [1234.5, 12, 1_000_000]


def test_a_few_words_among_numbers_are_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "t.csv").write_text("x,z\n" + "".join(f"{i},word{i}\n" for i in range(40)) + "unknown,a\n")
    read_table(tmp_path / "t.csv")
    assert "column 'x' is text because of ['unknown']" in caplog.text
    assert "'z'" not in caplog.text


@pytest.mark.parametrize(
    ("header", "is_row"),
    [
        ("0.5,1.25,3", True),
        ("17,4,0", True),
        ("0.5,ada,yes", True),
        ("0,1,2", False),
        ("2019,2020,2021", False),
        ("a,b,3", False),
    ],
)
def test_a_first_line_that_looks_like_a_row(
    header: str, is_row: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "a.csv").write_text(f"{header}\n1,2,3\n4,5,6\n")
    read_table(tmp_path / "a.csv")
    assert ("looks like a row" in caplog.text) == is_row


def test_a_row_of_another_length_names_the_separator(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a b\n1 2\n3 4,5\n")
    with pytest.raises(ValueError, match=r"3 4,5.*separated by comma.*--sep"):
        read_table(tmp_path / "a.csv")


def test_the_index_of_pandas_is_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    frame = pandas.DataFrame({"a": [1.0, 2.0, 4.0], "b": [3.0, 5.0, 2.0]}, index=[5, 7, 9])
    frame.to_parquet(tmp_path / "t.parquet")
    frame.to_csv(tmp_path / "t.csv")
    frame.to_csv(tmp_path / "u.csv", index_label="Unnamed: 0")
    names = "column '__index_level_0__'", "the first column", "column 'Unnamed: 0'"
    for name, index in zip(("t.parquet", "t.csv", "u.csv"), names, strict=True):
        caplog.clear()
        assert open_rows(tmp_path / name).column_names == ("a", "b")
        assert f"{index} is an index of rows, and is left out" in caplog.text
        assert open_source(tmp_path / name).column_names == ("a", "b")  # a part at a time
    named = pandas.DataFrame({"x": [1, 2], "Unnamed: 0": [3, 4]})
    named.to_csv(tmp_path / "v.csv", index=False)
    assert open_rows(tmp_path / "v.csv").column_names == ("x", "Unnamed: 0")


def test_a_txt_file_is_a_table_unless_it_is_libsvm(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("Ort\tGröße\r\nKöln\t1,5\r\nUlm\t2,5\r\n", encoding="utf-16")  # as Excel writes it
    rows = open_rows(tmp_path / "t.txt", target="Größe")
    assert isinstance(rows, TableRows)
    assert (rows.column_names, rows.y.tolist()) == (("Ort",), [1.5, 2.5])
    for text in ("1 1:0.5 3:2\n", "# a comment\n-1.5 qid:3 2:1\n", "0\n1 1:2\n"):
        (tmp_path / "s.txt").write_text(text)
        assert not isinstance(open_rows(tmp_path / "s.txt"), TableRows)
        assert open_source(tmp_path / "s.txt").read(0).X.shape[0] == len(text.splitlines()) - text.startswith("#")


def test_a_separator_at_the_end_of_each_line(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a;b;\n1;2;\n3;4;\n")
    assert open_rows(tmp_path / "t.csv").column_names == ("a", "b")


def test_numbers_are_a_source(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a;b;c;y\n1,5;2;true;yes\n2,5;3;false;no\n")
    rows = open_rows(tmp_path / "t.csv", target="y", ignore=["c"])
    assert isinstance(rows, ArraySource)
    assert (rows.column_names, rows.labels) == (("a", "b"), ("no", "yes"))
    streamed = open_rows(tmp_path / "t.csv", target="y", ignore=["c"], memory_budget=8)
    assert isinstance(streamed, CachedSource)
    for source in (rows, streamed):
        block = source.read(0)
        assert torch.equal(block.X, torch.tensor([[1.5, 2], [2.5, 3]], dtype=torch.float64))
        assert block.y.tolist() == [1, 0]
    with pytest.raises(ValueError, match="column 'y' must hold numbers"):
        open_rows(tmp_path / "t.csv", numbers=True)
    with pytest.raises(ValueError, match="no column 'd' to ignore"):
        open_rows(tmp_path / "t.csv", ignore=["d"])


@pytest.mark.parametrize(("target", "name"), [(-1, "y"), ("-1", "y"), (0, "a"), ("0", "a"), ("b", "b"), ("1", "1")])
def test_a_target_by_position(target: str | int, name: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b,1,y\n1,2,3,yes\n4,5,6,no\n")
    assert name not in open_rows(tmp_path / "t.csv", target=target).column_names
    with pytest.raises(ValueError, match="got the position 4"):
        open_rows(tmp_path / "t.csv", target=4)


def test_rows_without_a_target_are_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    pandas.DataFrame({"a": ["u", "v", "w"], "y": [1, np.nan, 0]}).to_csv(tmp_path / "t.csv", index=False)
    rows = open_rows(tmp_path / "t.csv", target="y")
    assert rows.y.tolist() == [1, 0]
    assert rows.y.dtype == np.int64
    assert "1 rows have no 'y', and are left out" in caplog.text
    (tmp_path / "t.csv").write_text("a,y\nu,1.5\nv,\nw,0\n")
    assert open_rows(tmp_path / "t.csv", target="y").y.tolist() == [1.5, 0.0]  # they were no integers
    (tmp_path / "u.csv").write_text("a,y\n1,\n2,\n")
    with pytest.raises(ValueError, match="column 'y' must have a value in some row"):
        open_rows(tmp_path / "u.csv", target="y")


def test_weights_and_targets_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,w,v,d\nx,1,,2020-01-01\ny,2,3,2020-01-02\n")
    assert open_rows(tmp_path / "t.csv", target="a", weight="w").weight.tolist() == [1, 2]
    for names, message in [
        ({"weight": "v"}, "column 'v' must have a value in every row"),
        ({"weight": "a"}, "column 'a' must hold numbers"),
        ({"target": "d"}, "column 'd' must hold numbers or text"),
    ]:
        with pytest.raises(ValueError, match=message):
            open_rows(tmp_path / "t.csv", **names)
    pandas.DataFrame({"a": ["x", "y"], "y": [1.0, np.inf]}).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(ValueError, match="'y' must be finite, but row 1 is inf"):
        open_rows(tmp_path / "t.parquet", target="y")


def test_targets_and_categories_in_dictionaries(tmp_path: Path) -> None:
    """As pandas stores its categories in Parquet files."""
    frame = pandas.DataFrame({"a": ["u", "v", "u"], "y": ["low", "high", "low"]}, dtype="category")
    frame.to_parquet(tmp_path / "t.parquet")
    rows = open_rows(tmp_path / "t.parquet", target="y", categories=["a"])
    assert rows.X["a"].to_pylist() == ["u", "v", "u"]
    assert rows.y.tolist() == ["low", "high", "low"]


def test_numbers_that_are_missing_need_an_encoder() -> None:
    whole = pyarrow.table({"a": [1.0, 2.0], "b": [True, False], "c": [1, 2]})
    assert is_numeric(whole)
    for column in ([1.0, None], [1.0, float("nan")], ["x", "y"]):
        assert not is_numeric(whole.append_column("d", pyarrow.array(column)))


def test_rows_of_a_fitted_encoder_keep_its_kinds(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("code,size\n007,2\n010,3\n")
    rows = open_rows(tmp_path / "t.csv", kinds={"code": "category", "size": "number"})
    assert rows.X["code"].to_pylist() == ["007", "010"]
    np.savez(tmp_path / "t.npz", X=np.eye(2))
    with pytest.raises(ValueError, match=r"must be a table with the columns \['code', 'size'\]"):
        open_rows(tmp_path / "t.npz", kinds={"code": "category", "size": "number"})


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_codes_may_be_categories(name: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("code,size,y\n12,2,a\n34,3,b\n")
    pandas.read_csv(tmp_path / "t.csv").to_parquet(tmp_path / "t.parquet")
    rows = open_rows(tmp_path / name, target="y", categories=["code"])
    assert isinstance(rows, TableRows)
    assert rows.X["code"].to_pylist() == ["12", "34"]
    with pytest.raises(ValueError, match="no column 'cod'"):
        open_rows(tmp_path / name, target="y", categories=["cod"])
    with pytest.raises(ValueError, match="categories must be empty"):
        open_rows(tmp_path / name, target="y", categories=["code"], memory_budget=8)


def test_identifiers_and_columns_that_give_the_target_away(caplog: pytest.LogCaptureFixture) -> None:
    n = 100
    rng = np.random.default_rng(0)
    y = np.array(["no", "yes"])[rng.integers(0, 2, n)]
    table = pyarrow.table(
        {
            "name": [f"n{i}" for i in range(n)],
            "row": range(5, 5 + n),
            "customer_id": (rng.permutation(n) * 7).tolist(),
            "amount": (rng.permutation(n) * 7).tolist(),
            "answer": np.where(y == "yes", "positive", "negative").tolist(),
            "colour": rng.choice(["red", "green"], n).tolist(),
        }
    )
    warn_of_columns(TableRows(table, y, target="y"), option="--ignore")
    text = caplog.text
    for name in ("row", "customer_id"):
        assert f"column '{name}' has another value in every row: leave it out (--ignore)" in text
    assert "'name'" not in text  # the encoder drops it, and says so
    assert "column 'answer' determines the target 'y'" in text
    assert "amount" not in text
    assert "colour" not in text


def test_damaged_and_unknown_files(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b\n1,2\n1,2,3\n")
    (tmp_path / "t.jsonl").write_text('{"a": 1}\n{"a": \n')
    (tmp_path / "u.csv").write_text("a,b\n")
    (tmp_path / "t.parquet").write_bytes(b"PAR1 no more")
    (tmp_path / "t.xlsx").write_bytes(b"PK")
    for name in ("t.csv", "t.jsonl", "t.parquet"):
        with pytest.raises(ValueError, match=f"{name} cannot be read"):
            read_table(tmp_path / name)
    with pytest.raises(ValueError, match="at least one row"):
        read_table(tmp_path / "u.csv")
    with pytest.raises(ValueError, match="must be a table"):
        read_table(tmp_path / "t.xlsx")
    with pytest.raises(FileNotFoundError):
        read_table(tmp_path / "nowhere.csv")


DATES = {
    "2020-12-31 14:30": (2020, 12, 31, 14, 30),
    "31.12.2020": (2020, 12, 31),
    "12/31/2020": (2020, 12, 31),
    "31/12/2020 9:05": (2020, 12, 31, 9, 5),
    "2020/1/2": (2020, 1, 2),
    "2020-12-31T12:00:00+02:00": (2020, 12, 31, 10),
}


@pytest.mark.parametrize("text", DATES)
def test_text_of_dates(text: str) -> None:
    frame = pandas.DataFrame({"d": pandas.Series([text, "", None, text], dtype=object), "x": [1.0, 2, 3, 4]})
    encoder, Z = TableEncoder.fit(frame, [0, 1, 0, 1], num_classes=2)
    assert encoder.columns[0].kind == "date"
    day = datetime.datetime(*DATES[text])
    assert encoder.columns[0].fill == (day - datetime.datetime(1970, 1, 1)).total_seconds()
    np.testing.assert_array_equal(Z[:, 0], [0, 1, 1, 0])  # the indicator of missing values


def test_the_order_of_a_date_is_remembered(caplog: pytest.LogCaptureFixture) -> None:
    frame = pandas.DataFrame({"d": ["01.02.2020", "28.02.2020", "15.03.2020"]})
    encoder, _ = TableEncoder.fit(frame, [0, 1, 1], num_classes=2)
    days = encoder.encode(pandas.DataFrame({"d": ["01.02.2020", "2020-02-01"]}))
    np.testing.assert_array_equal(days[0], days[1])
    assert not caplog.text
    TableEncoder.fit(pandas.DataFrame({"d": ["01/02/2020", "03/02/2020"]}), [0, 1], num_classes=2)
    assert "column 'd' holds dates such as '01/02/2020'" in caplog.text.lower()


@pytest.mark.parametrize("texts", ["1.2.3 2.3.4", "2020-13-01 2020-01-01", "2020-01-01 soon", "10-20 30-40"])
def test_other_text_stays_text(texts: str) -> None:
    encoder, _ = TableEncoder.fit(pandas.DataFrame({"d": texts.split()}), [0, 1], num_classes=2)
    assert encoder.columns[0].kind == "category"


def test_a_dropped_column_may_be_absent(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    frame = pandas.DataFrame({"a": ["u", "v"], "country": ["NL", "NL"]})
    encoder, Z = TableEncoder.fit(frame, [0, 1], num_classes=2)
    np.testing.assert_array_equal(encoder.encode(frame[["a"]]), Z)


def test_json_with_nested_values_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text("".join(json.dumps({"a": [1, 2], "y": i}) + "\n" for i in range(3)))
    rows = open_rows(tmp_path / "t.jsonl", target="y")
    with pytest.raises(ValueError, match="column 'a' must hold single values"):
        TableEncoder.fit(rows.X, rows.y, num_classes=None)


def test_indices_of_classes() -> None:
    table = pyarrow.table({"a": [1.0, 2.0, 3.0]})
    text, numbers, without = (TableRows(table, y) for y in (np.array(["x", "y", "x"]), np.array([2, 0, 2]), None))
    assert text.class_indices(np.array(["w", "x", "y"])).tolist() == [1, 2, 1]
    assert numbers.class_indices(np.array([0, 2])).tolist() == [1, 0, 1]
    assert numbers.class_indices(np.array(["0", "2"])).tolist() == [1, 0, 1]  # a model of labels
    with pytest.raises(ValueError, match=r"y must hold the classes \[0, 2\], got text, 'x'"):
        text.class_indices(np.array([0, 2]))
    with pytest.raises(ValueError, match=r"row 1 is 'y'"):
        text.class_indices(np.array(["w", "x"]))
    with pytest.raises(ValueError, match=r"row 0 is 2"):
        numbers.class_indices(np.array([0, 1]))
    assert without.read_targets(0).shape == (3, 0)
    with pytest.raises(ValueError, match="y has no targets"):
        without.class_indices(np.array([0, 1]))


def test_targets_of_tables_and_arrays(tmp_path: Path) -> None:
    columns = {"y": [0.5, np.inf, 1.5], "c": pandas.Categorical(["u", "v", "u"])}
    for name, column in columns.items():
        pandas.DataFrame({"a": [1.0, 2.0, 3.0], name: column}).to_parquet(tmp_path / f"{name}.parquet")
    with pytest.raises(ValueError, match="column 'y' must be finite, but row 1 is inf"):
        open_rows(tmp_path / "y.parquet", target="y")
    rows = open_rows(tmp_path / "c.parquet", target="c")
    assert (rows.labels, rows.read_targets(0).tolist()) == (("u", "v"), [0, 1, 0])
    np.savez(tmp_path / "t.npz", X=np.eye(3), y=np.arange(3))
    with pytest.raises(ValueError, match=r"target must be the name of a column or an array for .*t\.npz, got 0"):
        open_rows(tmp_path / "t.npz", target=0)
