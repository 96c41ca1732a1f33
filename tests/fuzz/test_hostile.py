"""Hostile files: each is refused at once, by an error that names the file and the reason."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from bochner.acoustic.recipe import load_recipe
from bochner.data import open_source
from bochner.speech.hmm.model import read_kaldi_hmm
from tests.fuzz.settings import RECIPE
from tests.fuzz.speech import kaldi_model

LAUGHS = "a0: &a0 [lol, lol]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 64))
RECIPES = {
    "aliases": LAUGHS,
    "could not determine a constructor for the tag": "about: !!python/object/apply:os.system [touch sprung]\n",
    "32 levels deep": f"about: {'[' * 5000}\n",
    "the key 'seeds' comes twice": RECIPE + "seeds: [7]\n",
    "seeds must be of type .*, got .*inf": RECIPE.replace("[0, 1]", "[.inf]"),
    "corpus.hours must be finite, got inf": RECIPE.replace("0.1,", ".inf,"),
    "models.kernel.num_features must be finite, got 1000": RECIPE.replace("512", f"1{'0' * 400}"),
    "month must be in 1..12": "about: 2001-13-45\n",
    "names of models must be text, got 3": RECIPE.replace("network:", "3:"),
    "must not be `like` itself": "like: bad.yaml\n",
    "cannot be like .*nowhere.yaml": "like: nowhere.yaml\n",
    "can't decode byte": "about: \udcff\n",
}


@pytest.mark.parametrize("reason", RECIPES)
def test_a_hostile_recipe_is_refused(reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "bad.yaml"
    path.write_text(RECIPES[reason], encoding="utf-8", errors="surrogateescape")
    with pytest.raises(ValueError, match=f"(?s)bad.yaml.*{reason}"):
        load_recipe(path)
    assert not (tmp_path / "sprung").exists()


def test_a_tree_cannot_request_unbounded_memory(tmp_path: Path) -> None:
    """A table of four thousand million subtrees, and a leaf with the last of as many pdfs."""
    path = kaldi_model("tree")(tmp_path)
    good = path.read_bytes()
    size = good.index(b"TE ") + 3 + 5
    path.write_bytes(good[:size] + struct.pack("<bI", -4, 2**32 - 1) + good[size + 5 :])
    with pytest.raises(ValueError, match=f"{tmp_path.name} must hold a binary tree.*expected CE, SE, TE or NULL"):
        read_kaldi_hmm(tmp_path)
    leaf = good.index(b"CE ") + 3
    path.write_bytes(good[:leaf] + struct.pack("<bi", 4, 2**31 - 1) + good[leaf + 5 :])
    with pytest.raises(ValueError, match=r"a tree must number its pdfs from 0, got .*2147483647"):
        read_kaldi_hmm(tmp_path)


def test_an_index_cannot_request_unbounded_width(tmp_path: Path) -> None:
    path = tmp_path / "wide.libsvm"
    path.write_text("1 999999999:1\n")
    with pytest.raises(ValueError, match=r"wide.libsvm has an index 999999999.*give num_inputs"):
        open_source(path)
