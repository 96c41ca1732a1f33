"""`bochner study`, from the list to the report, on data included in scikit-learn."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from jsonargparse import capture_parser

from bochner.cli import main
from bochner.cli.study import STUDY
from bochner.studies import registry
from bochner.studies.registry import FINDINGS, STUDIES
from tests.cli.files import run

Capture = pytest.CaptureFixture[str]
BEGIN, END = "<!-- bochner study report: begin -->", "<!-- bochner study report: end -->"


def test_the_list_names_every_study(capsys: Capture) -> None:
    code, out, _ = run(capsys, "study", "list")
    assert code == 0
    assert all(f"{study.name} " in out and study.source in out for study in STUDIES)


def test_a_study_runs_resumes_and_is_reported(tmp_path: Path, capsys: Capture) -> None:
    command = ("study", "run", "kernel-spectra", "--size", "smoke", "--data_dir", str(tmp_path))
    for cost in ("1 cells, 0 of them stored; the others take about ", "1 cells, all of them stored."):
        code, out, err = run(capsys, *command, "--output_dir", str(tmp_path / "out"))
        first, last = out.splitlines()
        assert code == 0
        assert first.startswith(f"kernel-spectra: {cost}")
        assert last.startswith("1 of 3 cells: ")  # digits; the files of the others are missing
        assert "a9a.npz does not exist" in err
    saved = json.loads((tmp_path / "out/rows/smoke/kernel-spectra.json").read_text())
    assert [run["cells"] for run in saved["runs"]] == [1]  # measured once
    assert saved["runs"][0]["versions"]["torch"]
    code, out, _ = run(capsys, "study", "report", "--size", "smoke", "--output_dir", str(tmp_path / "out"))
    assert code == 0
    text = (tmp_path / "out/findings_smoke.md").read_text()
    assert "first / 11th eigenvalue > 3 on 1 of 1 sets: digits" in text
    assert text.count("| not measured |") == len(FINDINGS) - 2
    assert "The file cpu_rahimi.npz" in (tmp_path / "out/report_smoke.html").read_text()


def test_a_page_of_results_keeps_its_other_content(tmp_path: Path, capsys: Capture) -> None:
    page = tmp_path / "RESULTS.md"
    page.write_text("# Mine\n")
    command = ("study", "report", "--size", "smoke", "--output_dir", tmp_path, "--results", page)
    code, _, err = run(capsys, *command)
    assert (code, page.read_text()) == (1, "# Mine\n")
    assert f"{page} must contain the lines '{BEGIN}' and '{END}'" in err
    page.write_text(f"# Mine\n{BEGIN}\n{END}\n## Too\n")
    for _ in range(2):  # the second time there is an old part
        assert run(capsys, *command).code == 0
    text = page.read_text()
    assert text.startswith(f"# Mine\n{BEGIN}\nWritten by ")
    assert text.endswith(f"|\n{END}\n## Too\n")
    assert text.count("| not measured |\n") == len(FINDINGS)


def test_a_failed_cell_is_one_line_with_the_remedy(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "a9a.npz").write_bytes(b"damaged")
    command = ("study", "run", "kernel-spectra", "--size", "smoke", "--data_dir", tmp_path, "--output_dir", tmp_path)
    code, _, err = run(capsys, *command)
    assert code == 1
    last = err.splitlines()[-1]
    assert last.startswith("bochner: error: 1 of 2 cells failed, Cell(data='a9a', num_points=500, seed=0): ")
    assert last.endswith("the same command measures only the failed cells.")
    assert "Traceback" not in err


def test_all_continues_and_names_failed_studies(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a9a.npz").write_bytes(b"damaged")
    some = tuple(study for study in STUDIES if study.name in ("kernel-spectra", "nystrom-theorems"))
    monkeypatch.setattr(registry, "STUDIES", some)
    code, out, err = run(capsys, "study", "all", "--size", "smoke", "--data_dir", tmp_path, "--output_dir", tmp_path)
    assert code == 1
    assert "nystrom-theorems: 20 of 40 cells" in out  # after the failed one
    assert "Report: " in out
    assert err.splitlines()[-1].startswith("bochner: error: 1 of 2 studies failed: kernel-spectra; ")


def test_tables_of_some_parts_are_written_as_a_page(tmp_path: Path, capsys: Capture) -> None:
    X = np.random.default_rng(0).uniform(-1, 1, (150, 4))
    np.savez(tmp_path / "german_numer.npz", X_scale=X)
    common = ("--size", "smoke", "--output_dir", tmp_path / "out")
    for study, parts in (("lowrank-sampling", "[table 5.3]"), ("stable-rank", "[figure 5.1]")):
        command = ("study", "run", study, *common, "--data_dir", tmp_path, "--parts", parts, "--sets", "[german]")
        assert run(capsys, *command).code == 0
    lines = (tmp_path / "out/cells/lowrank.jsonl").read_text().splitlines()
    assert len(lines) == 2 * 7 * 8 + 11  # eight schemes at seven bandwidths, by both algorithms
    page = tmp_path / "findings.md"
    page.write_text(
        "# Mine\n<!-- bochner study tables lowrank: begin -->\n<!-- bochner study tables lowrank: end -->\nEnd\n"
    )
    assert run(capsys, "study", "tables", "lowrank", *common, "--parts", "[table 5.3]", "--page", page).code == 0
    assert re.findall(r"(?m)^#+ .*", page.read_text())[:2] == ["# Mine", "## Low-rank factors"]
    assert re.findall(r"(?m)^### Table (.*):", page.read_text()) == ["5.9", "5.3"]
    assert page.read_text().endswith("-->\nEnd\n")
    code, out, _ = run(capsys, "study", "tables", "lowrank", *common)
    page = tmp_path / "out/lowrank_tables_smoke.md"
    assert (code, out.startswith(f"Page: {page} ")) == (0, True)
    assert "bochner study tables lowrank --size smoke" in page.read_text()
    assert "## Table 5.3: sampling, german, rank 50" in page.read_text()
    assert (tmp_path / "out/assets/lowrank/figure_5_1.png").exists()


def test_tables_of_adapted_bases(tmp_path: Path, capsys: Capture) -> None:
    random = np.random.default_rng(0)
    X, y = random.normal(size=(700, 4)), random.integers(0, 2, 700)
    np.savez(tmp_path / "satimage_scale.npz", X_train=X[:600], y_train=y[:600], X_test=X[600:], y_test=y[600:])
    common = ("--size", "smoke", "--output_dir", tmp_path / "out", "--sets", "[satimage]")
    command = ("study", "run", "adapted-deep-kernels", *common, "--data_dir", tmp_path, "--num_features", "[10]")
    assert "\n12 of 12 cells: " in run(capsys, *command, "--seeds", "[0]").out
    assert run(capsys, "study", "tables", "adapted-bases", *common, "--page", tmp_path / "page.md").code == 0
    assert "![figure 3](assets/adapted_bases/figure_3.png)" in (tmp_path / "page.md").read_text()
    assert (tmp_path / "assets/adapted_bases/figure_3.png").exists()
    code, _, err = run(capsys, "study", "tables", "adapted-bases", *common, "--parts", "[table 5.10]")
    assert code == 1
    assert "parts must be left out for adapted-bases" in err


def test_an_option_that_a_study_does_not_have_is_named(tmp_path: Path, capsys: Capture) -> None:
    code, _, err = run(capsys, "study", "run", "map-error", "--effort", "small", "--output_dir", tmp_path)
    assert code == 1
    assert "effort must be omitted for study 'map-error'" in err


def test_an_unknown_study_is_an_error(capsys: Capture) -> None:
    code, _, err = run(capsys, "study", "run", "everything")
    assert code == 1
    assert "name must be one of" in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("name", [name for name in STUDY if name != "_help"])
def test_help_has_examples_that_parse(name: str, capsys: Capture) -> None:
    out = run(capsys, "study", name, "--help").out
    assert out.startswith(f"usage: bochner study {name}")
    parser = capture_parser(lambda: main(["study"]))
    lines = re.findall(r"^ +(bochner study .*)$", STUDY[name].__doc__ or "", re.MULTILINE)
    assert lines
    for line in lines:
        assert parser.parse_args(shlex.split(line)[1:]).study.subcommand == name
