"""`bochner adapt` and `bochner validate`: recordings with transcripts for a saved acoustic model."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal

from bochner.cli.logs import labelled

PROBLEMS = 3  # exit code of `validate`
Speakers = Literal["folder", "prefix", "file", "same"]


def adapt(
    model: Path,
    data: Path,
    *,
    output_dir: Path,
    methods: list[str] | str | None = None,
    speakers: Speakers | None = None,
    tau: float = 10.0,
    seed: int = 0,
    device: str = "auto",
) -> None:
    """Adapt a saved acoustic model to a speaker or a domain.

    Examples:

        bochner adapt out/own/models/best my_voice --output_dir out/my_model
        bochner adapt out/own/models/gmm calls --methods map --tau 20 --output_dir out/calls

    DATA holds recordings with transcripts, each in a .txt file of the same name or all in transcripts.tsv, or is a
    corpus directory. They are aligned by the model, and an adapted copy of it is written. Utterances with words that
    the lexicon of the model lacks are skipped; `bochner validate` names them.

    Args:
        model: The directory of a saved acoustic model.
        data: A directory of recordings with transcripts, or a corpus directory.
        output_dir: The new directory of the adapted model.
        methods: One or several of fmllr, map and head, such as fmllr,map. "fmllr" makes the transform of one speaker
            part of the model; "map" adapts the means of a GMM; "head" trains the last layer of a kernel model or a
            network. Default: fmllr if there is one speaker and the model is speaker-adapted, then map, head, or both
            for a combination of a GMM and a classifier.
        speakers: The speaker of a recording: its folder (default), the prefix of its name up to - or _, the file by
            itself, or the same for all.
        tau: The number of frames that the old mean of a Gaussian counts for in "map".
        seed: Seed of the order of frames in "head".
        device: "cpu", "cuda", or "auto", which is the GPU if there is one.
    """
    from bochner.acoustic.adaptation import METHODS, read_data
    from bochner.acoustic.adaptation import adapt as adapted
    from bochner.acoustic.model import AcousticModel
    from bochner.checks import one_of
    from bochner.search.plan import resolve_device

    chosen = methods.split(",") if isinstance(methods, str) else methods
    for name in chosen or ():
        one_of("methods", name, METHODS)
    if output_dir.exists() and any(output_dir.iterdir()):
        raise ValueError(f"output_dir must be new or empty, got {output_dir}, which contains files.")
    loaded = AcousticModel.load(model, device=str(resolve_device(device)))
    recorded = read_data(loaded, data, speakers=speakers)
    result, record = adapted(loaded, recorded, methods=chosen, tau=tau, seed=seed)
    result.save(output_dir)
    speech = f"{record['utterances']} utterances, {record['speakers']} speakers, {record['skipped']} skipped"
    print(labelled("data", speech))
    print(labelled("methods", ", ".join(record["methods"])))
    if "map" in record:
        print(labelled("map", f"log likelihood per frame {record['map']['gain']:+.3f}"))
    if "head" in record:
        losses = record["head"]["heldout_ce"]
        print(labelled("head", f"cross-entropy of every tenth utterance {losses[0]:.3f} -> {min(losses):.3f}"))
    print(labelled("model", str(output_dir)))


def validate(
    model: Path, data: Path, *, speakers: Speakers | None = None, output: Path | None = None, device: str = "auto"
) -> None:
    """Check recordings with transcripts.

    Examples:

        bochner validate en recordings
        bochner validate out/own/models/best recordings
        bochner validate out/own/models/best corpus --output problems.tsv

    Prints a line for each problem: the utterance, its kind and the detail. Kinds are recording (cannot be aligned),
    audio (no samples, silence, clipping, truncation, damage), words (not in the lexicon) and transcript (does not
    match). By a saved acoustic model, a transcript does not match if a free path through the decoding graph is better
    than the forced alignment by far more than for other utterances; by a pre-trained model, if the confidence of its
    alignment is low. The exit code is 0 without problems, 3 with some, and 1 if the model or the data cannot be read.

    Args:
        model: The directory of a saved acoustic model, or the name or directory of a pre-trained one, see
            `bochner speech models list`.
        data: A directory of recordings with transcripts, or a corpus directory.
        speakers: The speaker of a recording: its folder (default), the prefix of its name up to - or _, the file by
            itself, or the same for all. Not for pre-trained models, which do not adapt to speakers.
        output: A file for the problems, tab-separated, in place of the standard output.
        device: "cpu", "cuda", or "auto", which is the GPU if there is one. Pre-trained models run on the CPU only.
    """
    from bochner.speech.pretrained import is_pretrained
    from bochner.storage import write_atomically

    if is_pretrained(str(model)):
        for name, value in {"speakers": speakers, "device": None if device in ("auto", "cpu") else device}.items():
            if value is not None:
                raise ValueError(f"{name} must not be given with the pre-trained model {str(model)!r}, got {value!r}.")
        from bochner.speech.align.problems import find_problems

        total, problems = find_problems(data, model=str(model), verbose=sys.stderr.isatty())
    else:
        from bochner.acoustic.model import AcousticModel
        from bochner.acoustic.validation import validate as validated
        from bochner.search.plan import resolve_device

        loaded = AcousticModel.load(model, device=str(resolve_device(device)))
        recorded, problems = validated(loaded, data, speakers=speakers)
        total = len(recorded.utterances) + len(recorded.skipped)
    lines = "".join(f"{problem.id}\t{problem.kind}\t{problem.detail}\n" for problem in problems)
    if output is None:
        print(lines, end="")
    else:
        write_atomically(output, lines.encode())
    print(labelled("problems", f"{len({problem.id for problem in problems})} of {total} utterances"))
    if problems:
        raise SystemExit(PROBLEMS)
