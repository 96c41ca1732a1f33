"""The front end over a corpus: skipped utterances, resuming, and independence of the number of processes."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import soundfile
from kaldiio import save_ark

from bochner.speech import runtime
from bochner.speech.frames import FrameStore
from bochner.speech.frontend import Fbank, Mfcc, Plp, extract
from bochner.speech.manifest import Utterance
from bochner.speech.text_files import read_skipped

RATE = 8000


def sound(seed: int, seconds: float = 0.3) -> np.ndarray:
    return 0.1 * np.random.default_rng(seed).standard_normal(round(RATE * seconds)).astype(np.float32)


def make_utterance(name: str, **fields: object) -> Utterance:
    values = {"speaker": "ann", "part": "train", "text": "yes", "audio": f"{name}.wav", "rate": RATE, "duration": 0.3}
    return Utterance(id=name, **{**values, **fields})  # type: ignore[arg-type]


@pytest.fixture
def corpus(tmp_path: Path) -> list[Utterance]:
    for i in range(5):
        soundfile.write(tmp_path / f"u{i}.wav", sound(i), RATE, subtype="PCM_16")
    return [make_utterance(f"u{i}") for i in range(5)]


def test_frames_are_those_of_the_front_end(tmp_path: Path, corpus: list[Utterance]) -> None:
    plp = Plp(rate=RATE, num_bins=15)
    found = extract(corpus, tmp_path / "frames", corpus_dir=tmp_path, frontend=plp)
    assert found.skipped == []
    assert found.store.ids == ("u0", "u1", "u2", "u3", "u4")
    assert found.store.about == {"frontend": plp.options()}
    for i in range(5):
        np.testing.assert_array_equal(
            found.store[f"u{i}"], plp(soundfile.read(tmp_path / f"u{i}.wav", dtype="int16")[0])
        )
    assert not (tmp_path / "frames.partial").exists()


def test_an_utterance_may_be_a_piece_of_a_recording(tmp_path: Path) -> None:
    whole = sound(0, 1.0)
    soundfile.write(tmp_path / "long.wav", whole, RATE, subtype="FLOAT")
    store = extract(
        [make_utterance("a", audio="long.wav", start=0.25)],
        tmp_path / "f",
        corpus_dir=tmp_path,
        frontend=Mfcc(rate=RATE),
    )[0]
    np.testing.assert_array_equal(store["a"], Mfcc(rate=RATE)(whole[2000:4400]))


def test_more_processes_give_the_same_files(
    tmp_path: Path, corpus: list[Utterance], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "MIN_SECONDS", 1e-9)  # processes also for little work
    for workers in (1, 2):
        extract(corpus, tmp_path / f"frames{workers}", corpus_dir=tmp_path, frontend=Fbank(rate=RATE), workers=workers)
    files = sorted(path.name for path in (tmp_path / "frames1").iterdir())
    assert files == ["00000000.jsonl", "00000000.npy", "skipped.jsonl", "store.json"]
    for name in files:
        assert (tmp_path / "frames1" / name).read_bytes() == (tmp_path / "frames2" / name).read_bytes()


def test_what_cannot_be_used_is_skipped_with_a_reason(tmp_path: Path, corpus: list[Utterance]) -> None:
    soundfile.write(tmp_path / "empty.wav", np.zeros(0), RATE)
    soundfile.write(tmp_path / "nan.wav", np.full(4000, np.nan, "float32"), RATE, subtype="FLOAT")
    soundfile.write(tmp_path / "blip.wav", sound(1, 0.02), RATE)
    (tmp_path / "text.wav").write_text("not audio")
    wrong = ["empty", "nan", "text", "absent"]
    utterances = [*corpus, *map(make_utterance, wrong), make_utterance("blip", duration=0.02)]
    utterances.append(make_utterance("cepstra", audio=None, rate=None, frames="c.ark:5", frame_shift=0.01))
    found = extract(utterances, tmp_path / "frames", corpus_dir=tmp_path, frontend=Mfcc(rate=RATE))
    assert len(found.store) == 5
    reasons = {one.id: one.reason for one in found.skipped}
    assert list(reasons) == [*wrong, "blip", "cepstra"]
    assert "NaN" in reasons["nan"]
    assert "not readable" in reasons["text"]
    assert "no such file" in reasons["absent"]
    assert "must last for one frame" in reasons["blip"]
    assert "frontend=None" in reasons["cepstra"]
    assert read_skipped(tmp_path / "frames") == found.skipped


def test_a_stopped_run_goes_on(tmp_path: Path, corpus: list[Utterance], monkeypatch: pytest.MonkeyPatch) -> None:
    module = import_module("bochner.speech.frontend.extract")  # the package gives the function by this name
    whole, computed = module.frames_or_reason, []

    def counting(utterance: Utterance, **arguments: object) -> object:
        if utterance.id == "u3" and "u3" not in computed:
            computed.append("u3")
            raise KeyboardInterrupt
        computed.append(utterance.id)
        return whole(utterance, **arguments)

    monkeypatch.setattr(module, "frames_or_reason", counting)
    arguments = {"corpus_dir": tmp_path, "frontend": Mfcc(rate=RATE)}
    with pytest.raises(KeyboardInterrupt):
        extract(corpus, tmp_path / "frames", **arguments)
    assert not (tmp_path / "frames").exists()
    with pytest.raises(ValueError, match=r"frames\.partial holds other utterances, such as 'u0'"):
        extract(corpus[3:], tmp_path / "frames", **arguments)
    extract(corpus, tmp_path / "frames", **arguments)
    assert computed == ["u0", "u1", "u2", "u3", "u3", "u4"]
    straight = extract(corpus, tmp_path / "straight", **arguments).store
    for name, array in FrameStore(tmp_path / "frames").items():
        np.testing.assert_array_equal(array, straight[name])


def test_a_finished_directory_is_only_opened(tmp_path: Path, corpus: list[Utterance]) -> None:
    utterances = [*corpus, make_utterance("absent")]
    first = extract(utterances, tmp_path / "frames", corpus_dir=tmp_path, frontend=Mfcc(rate=RATE))
    for path in tmp_path.glob("*.wav"):
        path.unlink()
    again = extract(utterances, tmp_path / "frames", corpus_dir=tmp_path, frontend=Mfcc(rate=RATE))
    assert again.skipped == first.skipped != []
    assert again.store.ids == first.store.ids
    with pytest.raises(ValueError, match=r"frames holds 6 utterances .* 5 with"):
        extract(corpus, tmp_path / "frames", corpus_dir=tmp_path, frontend=Mfcc(rate=RATE))
    with pytest.raises(ValueError, match=r"23.*30.*another directory"):
        extract(utterances, tmp_path / "frames", corpus_dir=tmp_path, frontend=Mfcc(rate=RATE, num_bins=30))


def test_a_directory_in_use_is_refused_before_any_work(tmp_path: Path, corpus: list[Utterance]) -> None:
    with pytest.raises(ValueError, match="must be new or empty"):
        extract(corpus, tmp_path, corpus_dir=tmp_path, frontend=Mfcc(rate=RATE))
    assert not tmp_path.with_name(tmp_path.name + ".partial").exists()


def test_no_utterance_can_be_used(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"got none: 1 skipped: no such file \(1\)"):
        extract([make_utterance("absent")], tmp_path / "frames", corpus_dir=tmp_path, frontend=Mfcc(rate=RATE))


def test_frames_that_the_corpus_gives(tmp_path: Path) -> None:
    arrays = {name: np.random.default_rng(i).standard_normal((6, 13)).astype("float32") for i, name in enumerate("abc")}
    save_ark(str(tmp_path / "c.ark"), {name: arrays[name] for name in "ab"}, scp=str(tmp_path / "c.scp"))
    places = dict(line.split() for line in (tmp_path / "c.scp").read_text().splitlines())
    np.save(tmp_path / "c.npy", arrays["c"])
    np.save(tmp_path / "none.npy", np.zeros((0, 13)))
    frames = {name: Path(place).name for name, place in places.items()} | {"c": "c.npy", "none": "none.npy"}
    utterances = [
        make_utterance(name, audio=None, rate=None, frames=at, frame_shift=0.01) for name, at in frames.items()
    ]
    utterances += [
        make_utterance("audio"),
        make_utterance("lost", audio=None, rate=None, frames="x.ark:5", frame_shift=0.01),
    ]
    found = extract(utterances, tmp_path / "frames", corpus_dir=tmp_path, frontend=None)
    assert [one.id for one in found.skipped] == ["none", "audio", "lost"]
    for name, array in arrays.items():
        np.testing.assert_array_equal(found.store[name], array)
