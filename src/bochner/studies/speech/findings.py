"""What the papers say of acoustic models."""

from __future__ import annotations

from bochner.studies.findings import Finding
from bochner.studies.speech import judges
from bochner.studies.speech.judges import change_by, judge_tasks
from bochner.studies.speech.sizes import CE, ERLL

MAY = "May et al. 2019"
CLOSE = 0.5  # percent points of TER
CLEAR = 0.05  # of a correlation; the papers have 0.6 to 1.2
PAIRS = "percent points of TER, mean over pairs of models"

FINDINGS = (
    Finding(
        "A linear bottleneck lowers the token error rate of kernel models.",
        f"{MAY}, Table 5",
        "speech-kernels",
        judge_tasks(change_by("bottleneck"), f"change in {PAIRS}", below=0),
    ),
    Finding(
        "Halving the rate by ERLL instead of the cross-entropy lowers the token error rate of kernel models.",
        f"{MAY}, Table 5",
        "speech-kernels",
        judge_tasks(change_by("criterion", off=CE, on=ERLL), f"change in {PAIRS}", below=0),
    ),
    Finding(
        "Feature selection helps the Laplacian kernel most.",
        f"{MAY}, Table 5",
        "speech-kernels",
        judge_tasks(judges.laplacian_gain, f"gain, Laplacian's less the next, in {PAIRS}", above=0),
    ),
    Finding(
        "The best kernel models are Laplacian or sparse Gaussian.",
        f"{MAY}, Table 5",
        "speech-kernels",
        judge_tasks(judges.sparse_ahead, "TER, the better of them less the best Gaussian, percent points", below=0),
    ),
    Finding(
        "A linear bottleneck lowers the token error rate of networks, too.",
        f"{MAY}, Table 4",
        "speech-networks",
        judge_tasks(change_by("bottleneck"), f"change in {PAIRS}", below=0),
    ),
    Finding(
        "Halving the rate by ERLL lowers the token error rate of networks, too.",
        f"{MAY}, Table 4",
        "speech-networks",
        judge_tasks(change_by("criterion", off=CE, on=ERLL), f"change in {PAIRS}", below=0),
    ),
    Finding(
        "The best kernel model is as good as the best network.",
        f"{MAY}, Table 7",
        "speech-best",
        judge_tasks(judges.kernel_behind, "TER on test, kernel less network, percent points", below=CLOSE),
    ),
    Finding(
        "ERLL goes with the token error rate clearly better than the cross-entropy does.",
        f"{MAY}, Figure 2",
        "speech-metrics",
        judge_tasks(judges.erll_ahead, "correlation with TER, ERLL's less cross-entropy's", above=CLEAR),
    ),
    Finding(
        "More features lower the token error rate.",
        f"{MAY}, Figure 3 and Table 6",
        "speech-features",
        judge_tasks(judges.features_change, "change of TER from the fewest to the most, percent points", below=0),
    ),
    Finding(
        "Networks of four layers are best.",
        f"{MAY}, Table 3",
        "speech-depth",
        judge_tasks(judges.four_ahead, "TER, four layers less the best other depth, percent points", below=0),
    ),
)
