"""The papers' tables of acoustic models as studies."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bochner.report import Page
from bochner.studies.speech import cells, pages
from bochner.studies.speech.cells import BestCell, Cell
from bochner.studies.speech.metric_page import show_metrics
from bochner.studies.speech.opening import measuring, measuring_best
from bochner.studies.study import Row, Size, Study

MAY = "May et al. 2019"
PROTOCOL = (
    "The speech is synthetic (espeak-ng's voices in simulated rooms and noise) and stands beside the papers' licensed "
    "corpora, which are not here; no person speaks, and results say nothing about recordings of people. No voice is in "
    "two parts. Frames are labelled with states by a GMM-HMM's forced alignment. Kernel models are softmax regression "
    "on paired random Fourier features; without a bottleneck SGD is preconditioned, with one it is plain, and the "
    "model of an epoch is the mean of its iterates. Networks have tanh units, layer-wise pre-training and plain SGD. "
    "The rate is halved by the heldout cross-entropy or by ERLL; bandwidth and first rate are chosen on heldout. CE, "
    "ENT, ERLL and ERR are of heldout frames, TER of dev, decoded with an n-gram of train's texts at the acoustic "
    "weight and word penalty of least error on dev: TER dev is optimistic alike for all. Means over seeds. "
    "Size smoke has four minutes of speech and three epochs, in which plain SGD does not converge: it shows that "
    "everything runs, not what is better."
)


def _study(
    name: str,
    title: str,
    source: str,
    measured: Callable[[Size], Sequence[Cell]],
    show: Callable[[Page, Sequence[Row]], None],
) -> Study:
    return Study(name, title, f"{MAY}, {source}", PROTOCOL, "speech", Cell, measured, measuring, show)


STUDIES = (
    _study(
        "speech-kernels",
        "Kernel acoustic models: kernel, selection, bottleneck, ERLL",
        "Tables 5, 9, 11, 13 and 15",
        cells.kernel_cells,
        pages.show_kernels,
    ),
    _study(
        "speech-networks",
        "Network acoustic models: width, bottleneck, ERLL",
        "Tables 4, 10, 12, 14 and 16",
        cells.network_cells,
        pages.show_networks,
    ),
    Study(
        "speech-best",
        "The best network against the best kernel",
        f"{MAY}, Table 7",
        PROTOCOL + " Each metric is that of its best model, as in the papers; test is read by the best on dev alone.",
        "speech_best",
        BestCell,
        cells.best_cells,
        measuring_best,
        pages.show_best,
    ),
    _study(
        "speech-features",
        "Acoustic models of few and of many features",
        "Figure 3 and Table 6",
        cells.feature_cells,
        pages.show_features,
    ),
    _study(
        "speech-metrics",
        "Which heldout metric goes with the token error rate",
        "Figure 2",
        cells.all_cells,
        show_metrics,
    ),
    _study("speech-depth", "Depth and width of networks", "Table 3", cells.depth_cells, pages.show_depth),
)
