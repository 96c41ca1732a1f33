"""`bochner speech score`: an error rate with its protocol and interval."""

from __future__ import annotations

from pathlib import Path


def score(
    corpus: Path,
    hypotheses: Path,
    *,
    protocol: str | None = None,
    out: Path | None = None,
    seed: int = 0,
) -> None:
    """Count the errors of hypotheses as NIST's sclite does; say the rate, how sure it is, and who is hard.

    Examples:

        bochner speech score corpus aligned/decoded/test_sat_order2
        bochner speech score corpus aligned/decoded/test_sat_order2 --protocol per39_sil_ignored
        bochner speech score corpus others.trn --protocol wer_lower_no_punctuation

    The protocol's name says what is counted: wer (words), cer (characters) or per (phones), then how they are spelled
    alike (nfkc, lower, no_punctuation), or for phones into how many classes TIMIT's are folded (per48, per39) and
    whether silence counts (sil_scored, the stricter rule, or sil_ignored). Figures of two protocols must not be
    compared. An utterance of the part without a hypothesis counts as deleted.

    OUT then holds score.json, speakers.txt, errors.txt (reference above hypothesis), confusions.txt, reference.trn and
    hypotheses.trn.

    Args:
        corpus: The corpus directory, with the references.
        hypotheses: The folder of `bochner speech decode`, its hypotheses.jsonl, or a .trn file.
        protocol: Default: wer; cer for Cantonese; per39_sil_scored for TIMIT's phones.
        out: Default: the folder score_PROTOCOL beside the hypotheses.
        seed: Of the bootstrap that gives the interval.
    """
    from bochner.cli.speech.scoring import score_hypotheses

    score_hypotheses(corpus, hypotheses, protocol, out=out, seed=seed)
