"""Scores by speaker, confusions, intervals, comparisons, and their tables."""

from __future__ import annotations

from pathlib import Path

import kaldialign
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bochner.speech.score import (
    Counts,
    Protocol,
    Score,
    align,
    compare,
    confusion_table,
    count,
    error_listing,
    read_trn,
    score,
    speaker_table,
    write_trn,
)

WORDS = Protocol(unit="words")
tokens = st.lists(st.sampled_from("abc"), max_size=12)


@given(reference=tokens, hypothesis=tokens)
def test_alignments_hold_both_sides_at_least_weight(reference: list[str], hypothesis: list[str]) -> None:
    pairs = align(reference, hypothesis)
    assert [token for token, _ in pairs if token is not None] == reference
    assert [token for _, token in pairs if token is not None] == hypothesis
    assert (None, None) not in pairs
    found, peer = count(pairs), kaldialign.edit_distance(reference, hypothesis, sclite_mode=True)
    assert found.tokens == len(reference)
    assert 4 * found.substitutions + 3 * (found.deletions + found.insertions) == (
        4 * peer["sub"] + 3 * (peer["del"] + peer["ins"])
    )
    assert found.errors <= peer["total"]


def random_score(num: int = 200, seed: int = 0, noise: float = 0.3) -> Score:
    generator = np.random.default_rng(seed)
    meant = {f"u{i}": " ".join(generator.choice(list("abcd"), 1 + i % 9)) for i in range(num)}
    wrong = np.random.default_rng(seed + 1)
    hypotheses = {
        name: " ".join("x" if wrong.random() < noise else token for token in text.split())
        for name, text in meant.items()
    }
    return score(meant, hypotheses, protocol=WORDS, speakers={name: f"s{int(name[1:]) % 8}" for name in meant})


def test_speakers_add_up() -> None:
    found = random_score()
    assert list(found.by_speaker) == [f"s{i}" for i in range(8)]
    assert sum(found.by_speaker.values(), Counts()) == found.counts
    assert found.by_speaker["s3"] == sum((one.counts for one in found.utterances if one.speaker == "s3"), Counts())
    assert found.wrong_utterances == sum(one.counts.errors > 0 for one in found.utterances) < 200


def test_confusions_by_hand() -> None:
    found = score({"a": "b b d", "b": "d"}, {"a": "d b d", "b": "d g"}, protocol=WORDS)
    assert found.confusions == {("b", "d"): 1, ("b", "b"): 1, ("d", "d"): 2, (None, "g"): 1}


def test_missing_hypotheses_are_deleted_and_named() -> None:
    found = score({"a": "x y", "b": "z", "c": ""}, {"a": "x y"}, protocol=WORDS)
    assert found.counts == Counts(deletions=1, tokens=3)
    assert found.missing == ("b", "c")


def test_hypotheses_without_a_reference_are_refused() -> None:
    with pytest.raises(ValueError, match=r"utterances with a reference, got \['zoe'\] besides"):
        score({"a": "x"}, {"a": "x", "zoe": "y"}, protocol=WORDS)


def test_references_that_are_all_empty_count_insertions() -> None:
    found = score({"a": "", "b": " "}, {"a": "x y", "b": ""}, protocol=WORDS)
    assert found.counts == Counts(insertions=2)
    assert np.isnan(found.rate)
    assert np.isnan(found.interval(seed=0)[:2]).all()
    assert speaker_table(found).splitlines()[-1].split() == ["all", "2", "0", "0", "0", "2", "2", "-"]


def test_speakers_and_phones_that_are_missing() -> None:
    with pytest.raises(ValueError, match=r"got none for \['b'\]"):
        score({"a": "x", "b": "y"}, {}, protocol=WORDS, speakers={"a": "ann"})
    with pytest.raises(ValueError, match=r"utterance 'a': phones must be among TIMIT's 61 .* got \['xx'\]"):
        score({"a": "aa"}, {"a": "xx"}, protocol=Protocol(unit="phones", fold="61-39"))


def test_an_empty_reference_has_no_rate() -> None:
    assert np.isnan(Counts(insertions=3).rate)
    assert Counts(insertions=3, tokens=2).rate == 1.5


def test_interval_is_that_of_kaldialign() -> None:
    """The same bootstrap by utterance; kaldialign gives mean and 1.96 standard deviations instead of quantiles."""
    found = random_score()
    low, high, level = found.interval(seed=0)
    refs, hyps = (
        [[pair[side] for pair in one.pairs if pair[side] is not None] for one in found.utterances] for side in (0, 1)
    )
    peer = kaldialign.bootstrap_wer_ci(refs, hyps, replications=10_000, seed=1)
    assert level == 0.95
    assert low < found.rate < high
    assert (low, high) == pytest.approx((peer["ci95min"], peer["ci95max"]), abs=0.004)


def test_intervals_hold_the_true_rate_as_often_as_they_say() -> None:
    """True rate 0.3; 200 test sets of 60 utterances: 95 % +- 3 standard errors of 1.5 %."""
    held = 0
    for seed in range(200):
        low, high, _ = random_score(num=60, seed=10 * seed).interval(seed=seed, replications=400)
        held += low <= 0.3 <= high
    assert 0.90 <= held / 200 <= 0.995


def test_interval_is_a_function_of_its_seed() -> None:
    found = random_score()
    assert found.interval(seed=3) == found.interval(seed=3) != found.interval(seed=4)
    wide, narrow = found.interval(seed=3, level=0.99), found.interval(seed=3, level=0.5)
    assert wide.low < narrow.low < narrow.high < wide.high


def test_interval_by_speaker_is_wider_where_speakers_differ() -> None:
    meant = {f"u{i}": "a b c d" for i in range(80)}
    hypotheses = {name: "a b c d" if int(name[1:]) % 8 < 4 else "x x x d" for name in meant}
    found = score(meant, hypotheses, protocol=WORDS, speakers={name: f"s{int(name[1:]) % 8}" for name in meant})
    alone, together = found.interval(seed=0), found.interval(seed=0, by="speaker")
    assert together.high - together.low > 2 * (alone.high - alone.low)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"level": 1.0}, "level must lie between 0 and 1"),
        ({"by": "word"}, "by must be one of"),
        ({"replications": 0}, "replications must be an integer of at least 1"),
        ({"seed": -1}, "seed must be an integer of at least 0"),
    ],
)
def test_intervals_that_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        random_score(num=5).interval(**{"seed": 0, **options})  # type: ignore[arg-type]


@pytest.mark.parametrize("by", ["utterance", "speaker"])
def test_comparison(by: str) -> None:
    poor, good = random_score(noise=0.4), random_score(noise=0.2)
    found = compare(poor, good, seed=0, by=by)
    assert found.difference == good.rate - poor.rate < 0
    assert found.interval.low < found.difference < found.interval.high < 0
    assert found.probability_better > 0.999
    assert compare(good, poor, seed=0, by=by).probability_better < 0.001
    assert compare(good, good, seed=0, by=by).probability_better == 0.5
    assert found == compare(poor, good, seed=0, by=by, replications=10_000, level=0.95)


def test_what_cannot_be_compared() -> None:
    found = random_score()
    with pytest.raises(ValueError, match="by one protocol on the same references"):
        compare(found, random_score(seed=5), seed=0)
    with pytest.raises(ValueError, match="by one protocol on the same references"):
        compare(found, Score(Protocol(normalize=("lower",)), found.utterances, ()), seed=0)


def test_tables_with_wide_letters() -> None:
    found = score({"a-1": "你 好 嗎"}, {"a-1": "你 hao 嗎"}, protocol=WORDS)
    assert error_listing(found).splitlines()[1:] == ["REF: 你 好  嗎", "HYP: 你 hao 嗎", "        S"]
    assert confusion_table(found).splitlines()[1] == "    1  好         hao"
    assert speaker_table(found).splitlines()[1].split() == ["all", "1", "3", "1", "0", "0", "1", "33.33"]


def test_the_listing_has_utterances_with_errors_only() -> None:
    found = score({"a": "x", "b": "y"}, {"a": "x", "b": "z"}, protocol=WORDS)
    assert error_listing(found).startswith("b (all): 1 substitution, 0 deletions, 0 insertions in 1")


def test_trn_files_come_back(tmp_path: Path) -> None:
    texts = {"sx1": "h# q ae tcl", "sx2": ""}
    protocol = Protocol(unit="phones", fold="61-39")
    path = write_trn(tmp_path / "r.trn", texts, protocol=protocol, speakers={"sx1": "FADG0", "sx2": "mcpm0"})
    assert path.read_text() == "sil ae sil (FADG0-sx1)\n (mcpm0-sx2)\n"
    assert read_trn(path) == {"FADG0-sx1": "sil ae sil", "mcpm0-sx2": ""}


@pytest.mark.parametrize("wrong", ["{a", "b)", "a/b", "@", "x;y"])
def test_tokens_that_sclite_would_misread(tmp_path: Path, wrong: str) -> None:
    with pytest.raises(ValueError, match="tokens of 'u' must be without"):
        write_trn(tmp_path / "r.trn", {"u": f"a {wrong} c"}, protocol=WORDS)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("name", "speaker"), [("u 1", "ann"), ("u(", "ann"), ("u", "an)n")])
def test_names_that_sclite_would_misread(tmp_path: Path, name: str, speaker: str) -> None:
    with pytest.raises(ValueError, match="must be without brackets and spaces"):
        write_trn(tmp_path / "r.trn", {name: "a"}, protocol=WORDS, speakers={name: speaker})


def test_speakers_are_written_so_that_sclite_finds_them(tmp_path: Path) -> None:
    speakers = {"u-1": "ann-f_3", "u-2": "ann-f_4"}
    path = write_trn(tmp_path / "r.trn", {"u-1": "a", "u-2": "b"}, protocol=WORDS, speakers=speakers)
    assert path.read_text() == "a (ann.f_3-u-1)\nb (ann.f_4-u-2)\n"
    with pytest.raises(ValueError, match="must differ by more than dashes and dots"):
        write_trn(path, {"u-1": "a"}, protocol=WORDS, speakers={"u-1": "ann-3", "u-2": "ann.3"})


def test_trn_lines_that_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "r.trn"
    path.write_text("a b (s-1)\n\nno name here\n")
    with pytest.raises(ValueError, match=r"r\.trn, line 3, is not `tokens \(name\)`"):
        read_trn(path)
    path.write_text("a (s-1)\nb (s-1)\n")
    with pytest.raises(ValueError, match=r"line 2, repeats the name 's-1'"):
        read_trn(path)
