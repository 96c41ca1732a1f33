"""Stages: made once, made anew when something before them changed, resumed in their own folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from bochner.acoustic.stages import Done, Stages


class Maker:
    """Counts how often it is called."""

    def __init__(self, found: Mapping[str, Any] | None = None) -> None:
        self.found, self.folders = found or {}, list[Path]()

    def __call__(self, folder: Path) -> Mapping[str, Any]:
        self.folders.append(folder)
        return self.found


def stages_in(folder: Path) -> Stages:
    return Stages(folder, lambda name, text: None)


def chain(stages: Stages, makers: Mapping[str, Maker], *, hours: float = 1.0, rank: int = 5) -> Done:
    corpus = stages.run("corpus", "digits", {"hours": hours}, make=makers["corpus"])
    return stages.run("models", "kernel", {"rank": rank}, after=[corpus], make=makers["model"])


@pytest.fixture
def makers() -> dict[str, Maker]:
    return {"corpus": Maker({"utterances": 3}), "model": Maker({"ce": 0.5})}


def test_a_finished_stage_is_found_again(tmp_path: Path, makers: dict[str, Maker]) -> None:
    first = chain(stages_in(tmp_path), makers)
    again = chain(stages_in(tmp_path), makers)
    assert first == again
    assert again.found["ce"] == 0.5
    assert [len(maker.folders) for maker in makers.values()] == [1, 1]


def test_a_changed_setting_touches_what_comes_after_it_and_nothing_else(
    tmp_path: Path, makers: dict[str, Maker]
) -> None:
    stages = stages_in(tmp_path)
    first = chain(stages, makers)
    assert chain(stages, makers, rank=6).folder != first.folder
    assert [len(maker.folders) for maker in makers.values()] == [1, 2]
    assert chain(stages, makers, hours=2.0).folder not in (first.folder, makers["model"].folders[1])
    assert [len(maker.folders) for maker in makers.values()] == [2, 3]
    assert chain(stages, makers).folder == first.folder  # the old one is still there
    assert [len(maker.folders) for maker in makers.values()] == [2, 3]


def test_a_stopped_stage_goes_on_in_its_folder(tmp_path: Path) -> None:
    def stopped(folder: Path) -> Mapping[str, Any]:
        (folder / "half").write_text("done")
        raise KeyboardInterrupt

    def resumed(folder: Path) -> Mapping[str, Any]:
        return {"kept": (folder / "half").read_text()}

    stages = stages_in(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        stages.run("models", "kernel", {}, make=stopped)
    assert stages.run("models", "kernel", {}, make=resumed).found["kept"] == "done"


def test_what_is_found_again_is_what_json_keeps(tmp_path: Path) -> None:
    made = stages_in(tmp_path).run("corpus", "c", {}, make=lambda folder: {"shape": (1, 2)})
    again = stages_in(tmp_path).run("corpus", "c", {}, make=Maker())
    assert made == again
