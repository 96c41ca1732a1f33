"""The models included in the package: intact, small, and checked when loaded."""

from __future__ import annotations

import shutil
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile

from bochner.cli import main
from bochner.speech.align.recordings import align_files, align_samples
from bochner.speech.lexicon import Lexicon
from bochner.speech.pretrained import describe_model, list_models, load_model, model_directory, verify_model
from bochner.speech.pretrained.build import BOUNDARY_OFFSETS, ENGLISH, OFFSETS_SOURCE, build_english
from bochner.speech.pretrained.sphinx import read_sphinx

PHONES = ["+NSN+", "+SPN+", "AA", "SIL"]


@pytest.mark.parametrize("name", list_models())
def test_models_are_intact_and_small(name: str) -> None:
    assert all(verify_model(name).values())
    assert sum(file.stat().st_size for file in model_directory(name).iterdir()) < 10e6
    assert {"licence", "source", "language", "description"} <= describe_model(name).keys()


def test_english_pronounces_words_by_phones_of_its_model() -> None:
    model = load_model("en")
    assert model.pronunciations["cat"] == (("K", "AE", "T"),)
    assert {p for ways in model.pronunciations.values() for way in ways for p in way} < set(model.hmm.phones)
    np.testing.assert_allclose(model.mixtures.weights.sum(axis=-1), 1.0, atol=2e-3)


@pytest.mark.parametrize("name", ["bn", "yue"])
def test_models_of_synthetic_speech_say_so_and_align(name: str) -> None:
    model = load_model(name)
    assert "SYNTHETIC" in model.about["description"]
    word, ways = next(iter(model.pronunciations.items()))
    samples = (0.05 * np.random.default_rng(0).standard_normal(16000)).astype(np.float32)
    segments, _ = align_samples([samples], [word], Lexicon({word: ways}, model.hmm.silence[0]), model)
    assert tuple(s.label for s in segments if s.label != model.hmm.silence[0]) in ways


def test_digital_silence_does_not_move_the_mean_of_cepstra() -> None:
    model, generator = load_model("en"), np.random.default_rng(0)
    samples = (0.01 * generator.standard_normal(16000)).astype(np.float32)
    padded = np.concatenate([samples, np.zeros(48000, np.float32)])
    frames = slice(2, 90)  # without those that lie in both
    assert np.abs(model.cepstra([padded])[frames] - model.cepstra([samples])[frames]).max() < 0.5  # 14 with all frames


def test_cepstra_and_scores_do_not_depend_on_blocks() -> None:
    model = load_model("en")
    samples = 0.1 * np.random.default_rng(0).standard_normal(20_000).astype(np.float32)
    cepstra = model.cepstra([samples])
    assert np.array_equal(model.cepstra(np.split(samples, [100, 7000, 7001])), cepstra)
    scores = model.scores(cepstra)
    parts = [model.scores(cepstra, start, start + 50) for start in range(0, len(cepstra), 50)]
    np.testing.assert_allclose(np.concatenate(parts), scores, rtol=1e-4)


def test_the_source_of_boundary_offsets_is_stated_in_the_same_words(capsys: pytest.CaptureFixture[str]) -> None:
    docs = Path(__file__).parents[3] / "docs"
    for page in ("align.md", "benchmarks_speech.md"):
        assert OFFSETS_SOURCE in " ".join((docs / page).read_text().split())
    main(["speech", "models", "show", "en"])
    assert OFFSETS_SOURCE in capsys.readouterr().out


def test_boundary_offsets_are_those_of_the_classes_of_phones() -> None:
    model = load_model("en")
    assert model.about["boundary_offsets"] == ENGLISH["boundary_offsets"]
    offsets, place = model.boundary_offsets, model.hmm.phones.index
    assert offsets.shape == (len(model.hmm.phones), len(model.hmm.phones))
    rows = BOUNDARY_OFFSETS
    assert offsets[place("AA"), place("SIL")] == pytest.approx(rows[0][5] / 1000)
    assert offsets[place("SIL"), place("CH")] == pytest.approx(rows[5][1] / 1000)
    assert not offsets[place("spn")].any()
    other = replace(model, about={key: value for key, value in model.about.items() if key != "boundary_offsets"})
    assert not other.boundary_offsets.any()


def test_vowels_and_liquids_pass_gradually_into_one_another() -> None:
    model = load_model("en")
    assert model.about["sonorants"] == ENGLISH["sonorants"]
    place = model.hmm.phones.index
    for before, after, expected in (("AA", "R", True), ("L", "IY", True), ("S", "AA", False), ("AA", "SIL", False)):
        assert model.gradual[place(before), place(after)] == expected
    other = replace(model, about={key: value for key, value in model.about.items() if key != "sonorants"})
    assert not other.gradual.any()


def test_a_changed_file_is_found(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(model_directory("en"), copy)
    (copy / "lexicon.txt.xz").write_bytes(b"other")
    assert [file for file, equal in verify_model(str(copy)).items() if not equal] == ["lexicon.txt.xz"]


def test_an_unknown_model_is_named() -> None:
    with pytest.raises(ValueError, match=r"one of bn, en, yue or .* got 'eng'"):
        load_model("eng")


def sphinx_model(directory: Path) -> Path:
    """A model of four phones with two Gaussians in each of three streams, in the files of Sphinx."""
    model = directory / "en-us"
    model.mkdir(parents=True)
    (model / "feat.params").write_text(
        "-lowerf 130\n-upperf 6800\n-nfilt 25\n-transform dct\n-lifter 22\n-feat 1s_c_d_dd\n-svspec 0-12/13-25/26-38\n"
    )
    header = b"s3\nversion 1.0\nendhdr\n" + struct.pack("<I", 0x11223344)
    means = np.arange(4 * 3 * 2 * 13, dtype="<f4").reshape(4, 3, 2, 13)
    sizes = struct.pack("<7i", 4, 3, 2, 13, 13, 13, means.size)
    (model / "means").write_bytes(header + sizes + means.tobytes())
    (model / "variances").write_bytes(header + sizes + np.ones_like(means).tobytes())
    counts = np.tile(np.array([[3, 1, 0, 0], [0, 3, 1, 0], [0, 0, 3, 1]], dtype="<f4"), (4, 1, 1))
    (model / "transition_matrices").write_bytes(header + struct.pack("<4i", 4, 3, 4, 48) + counts.tobytes())
    numbers = struct.pack("<10i", 4, 4, 3, 12, 12, 4, 4, 3, 0, 3)
    names = b"".join(name.encode() + b"\0" for name in PHONES)
    (model / "mdef").write_bytes(b"BMDF" + struct.pack("<2i", 1, 5) + b"about" + numbers + names)
    title = struct.pack("<i", 6) + b"title\0"
    stored = np.zeros((3, 2, 12), np.uint8)
    stored[:, 1] = 10  # exp(-0.1024 * 10) of the first weight
    (model / "sendump").write_bytes(title + struct.pack("<3i", 0, 2, 12) + stored.tobytes())
    (model / "README").write_text("free")
    (directory / "cmudict-en-us.dict").write_text("ah AA\nah(2) AA AA\n")
    return directory


def test_a_model_of_sphinx_is_read(tmp_path: Path) -> None:
    hmm, mixtures, frontend = read_sphinx(sphinx_model(tmp_path) / "en-us")
    assert hmm.phones == ("SIL", "nsn", "spn", "AA")
    assert mixtures.means[0, 0, 0, 0] == 3 * 3 * 2 * 13  # silence is the last phone of the file
    np.testing.assert_allclose(mixtures.weights[..., 1] / mixtures.weights[..., 0], np.exp(-1.024), rtol=1e-3)
    leaving = np.exp(np.array(hmm.transitions.log_probs))[1:][~hmm.table.self_loop[1:]]
    np.testing.assert_allclose(leaving, 0.25)
    assert (frontend.num_bins, frontend.low, frontend.energy) == (25, 130.0, False)


def test_a_model_is_built_and_loaded(tmp_path: Path) -> None:
    build_english(sphinx_model(tmp_path / "source"), tmp_path / "en")
    model = load_model(str(tmp_path / "en"))
    assert model.pronunciations == {"ah": (("AA",), ("AA", "AA"))}
    assert all(verify_model(str(tmp_path / "en")).values())
    assert model.scores(model.cepstra([np.zeros(16000, np.float32)])).shape == (98, 12)


def test_a_source_that_is_no_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="mdef is missing"):
        read_sphinx(tmp_path)


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("mdef", b"BMDF", b"FDMB", "mdef is not a binary model definition"),
        ("mdef", struct.pack("<4i", 4, 4, 3, 12), struct.pack("<4i", 4, 4, 5, 12), "mdef must have three states"),
        ("mdef", struct.pack("<4i", 4, 4, 3, 12), struct.pack("<4i", 4, 4, 3, 20), "got 20 for 4 phones"),
        ("means", struct.pack("<I", 0x11223344), struct.pack(">I", 0x11223344), "means is not little-endian"),
        ("variances", struct.pack("<3i", 13, 13, 13), struct.pack("<3i", 13, 13, 12), "one length, got .*12"),
        ("feat.params", b"1s_c_d_dd", b"1s_c_d_ld", "features .*1s_c_d_ld.* are not 13 cepstra with deltas"),
    ],
    ids=["other file", "states", "pdfs", "byte order", "lengths", "features"],
)
def test_a_model_of_another_kind_is_refused(file: str, old: bytes, new: bytes, message: str, tmp_path: Path) -> None:
    path = sphinx_model(tmp_path) / "en-us" / file
    path.write_bytes(path.read_bytes().replace(old, new, 1))
    with pytest.raises(ValueError, match=f"en-us does not hold a model that can be converted: .*{message}"):
        read_sphinx(path.parent)


@pytest.fixture(scope="module")
def bengali(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of two minutes of synthetic Bengali with 40 words."""
    pytest.importorskip("espeakng_loader")
    from bochner.speech.pretrained import synthetic

    directory = tmp_path_factory.mktemp("models") / "bn"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(synthetic, "NUM_WORDS", 40)
        synthetic.build_synthetic("bn", directory, hours=0.03)
    return directory


def test_a_model_of_synthetic_speech_aligns_it(bengali: Path, tmp_path: Path) -> None:
    from bochner.speech.synthesis.espeak import RATE, speak, time_phones

    model = load_model(str(bengali))
    assert all(verify_model(str(bengali)).values())
    assert "SYNTHETIC" in model.about["description"]
    assert sum(file.stat().st_size for file in bengali.iterdir()) < 1.5e6
    np.testing.assert_allclose(model.mixtures.weights.sum(axis=-1), 1.0, atol=2e-3)
    words = list(model.pronunciations)[:6]
    output = speak(" ".join(words), voice="bn+m3", speed=150)
    samples = np.pad(output.samples / 32768, RATE // 4)
    samples += 1e-4 * np.random.default_rng(0).standard_normal(len(samples))
    soundfile.write(tmp_path / "a.wav", samples, RATE)
    aligned = align_files(tmp_path / "a.wav", " ".join(words) + "।", model=model).recordings[0]
    starts = [word[0].start + 0.25 for word in time_phones(output)]
    assert [word.label for word in aligned.words] == words
    errors = [abs(word.start - start) for word, start in zip(aligned.words, starts, strict=True)]
    assert np.median(errors) < 0.05


def test_unknown_words_and_characters(bengali: Path, tmp_path: Path) -> None:
    """Without rules for letters, a word without pronunciation is marked; characters are words of their own."""
    model = load_model(str(bengali))
    (first, ways), (second, others) = list(model.pronunciations.items())[:2]
    soundfile.write(tmp_path / "a.wav", 0.1 * np.random.default_rng(0).standard_normal(32_000), 16_000)
    marked = align_files(tmp_path / "a.wav", f"{first} ঢঢঢঢ {second}", model=model, guess=False)
    assert [word.label for word in marked.recordings[0].words] == [first, "<unk>", second]
    characters = replace(model, about={**model.about, "tokens": "characters", "files": {}})
    own = {"你": ways, "好": others}
    aligned = align_files(tmp_path / "a.wav", "你好。嗎", model=characters, lexicon=own)
    assert [word.label for word in aligned.recordings[0].words] == ["你", "好", "<unk>"]
