"""May's tables of acoustic models, kernels against networks, on synthetic stand-ins for the licensed corpora."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from bochner.report import Page
from bochner.studies import speech_cells, speech_report
from bochner.studies.results_file import Result
from bochner.studies.speech_cells import MAY, BestCell, Cell
from bochner.studies.study import Row, Size, Study
from bochner.studies.workers import Context, one_at_a_time

if TYPE_CHECKING:
    from bochner.acoustic.experiment import Experiment


def prepare(context: Context) -> Callable[[Cell], Result]:
    """Train a cell's model on a task whose files are in the cache, measure and decode it."""
    setup = task_setup(context)

    def measure_cell(cell: Cell) -> Result:
        from bochner.studies.speech_training import measure  # needs the extra

        return measure(cell, setup(cell.data, cell.effort))

    return measure_cell


def prepare_best(context: Context) -> Callable[[BestCell], Result]:
    """The same for the best model of a kind; cached models are not trained again."""
    setup = task_setup(context)

    def measure_cell(cell: BestCell) -> Result:
        from bochner.studies.speech_training import measure_best  # needs the extra

        return measure_best(cell, setup(cell.data, cell.effort))

    return measure_cell


def task_setup(
    context: Context, overrides: Callable[..., Mapping[str, object]] | None = None
) -> Callable[..., Experiment]:
    """A function of a task, an effort and further arguments of `overrides`, which replace those of the sizes.

    Each task is set up once, when its first cell is measured.
    """
    temporary = TemporaryDirectory() if context.cache_dir is None else None  # lives as long as `setup`

    @cache
    def setup(data: str, effort: Size, *options: object) -> Experiment:
        from bochner.studies.speech_training import set_up_task  # needs the extra

        directory = Path(temporary.name) if temporary else context.cache_dir
        assert directory is not None
        chosen = None if overrides is None else overrides(data, effort, *options)
        with one_at_a_time(directory, data):  # the other workers of this machine wait for the first
            return set_up_task(data, effort, directory, device=context.device, overrides=chosen)

    return setup


PROTOCOL = (
    "The speech is synthetic (espeak-ng's voices in simulated rooms and noise) and replaces the papers' licensed "
    "corpora; results do not apply to recordings of people. No voice is in "
    "two parts. Frames are labelled with states by a GMM-HMM's forced alignment. Kernel models are softmax regression "
    "on paired random Fourier features by preconditioned SGD, with and without a bottleneck, and the model of an epoch "
    "is the mean of its iterates. Networks have tanh units, layer-wise pre-training and plain SGD. "
    "The rate is halved by the heldout cross-entropy or by ERLL; bandwidth and first rate are chosen on heldout. CE, "
    "ENT, ERLL and ERR are of heldout frames, TER of dev, decoded with an n-gram of train's texts at the acoustic "
    "weight and word penalty of lowest error on dev, so that TER dev is equally optimistic for all. Means over seeds. "
    "Size smoke has two minutes of speech and three epochs, in which plain SGD does not converge: it shows that "
    "everything runs, not which model is better."
)


def _study(
    name: str,
    title: str,
    source: str,
    cells: Callable[[Size], Sequence[Cell]],
    show: Callable[[Page, Sequence[Row]], None],
) -> Study:
    return Study(
        name,
        title,
        f"{MAY}, {source}",
        PROTOCOL,
        "speech",
        Cell,
        cells,
        prepare,
        show,
        operations=speech_cells.operations,
    )


# fmt: off
STUDIES = (
    _study("speech-kernels", "Kernel acoustic models: kernel, selection, bottleneck, ERLL",
           "Tables 5, 9, 11, 13 and 15", speech_cells.kernel_cells, speech_report.show_kernels),
    _study("speech-networks", "Network acoustic models: width, bottleneck, ERLL",
           "Tables 4, 10, 12, 14 and 16", speech_cells.network_cells, speech_report.show_networks),
    Study("speech-best", "The best network against the best kernel", f"{MAY}, Table 7",
          PROTOCOL + " Each metric is that of its best model, as in the papers; test is read by the best on dev alone.",
          "speech_best", BestCell, speech_cells.best_cells, prepare_best, speech_report.show_best,
          operations=speech_cells.best_operations),
    _study("speech-features", "Acoustic models of few and of many features", "Figure 3 and Table 6",
           speech_cells.feature_cells, speech_report.show_features),
    _study("speech-metrics", "Correlation of heldout metrics with the token error rate", "Figure 2",
           speech_cells.all_cells, speech_report.show_metrics),
    _study("speech-perplexity", "Perplexity with silence as many states or as one", "slides, Results",
           speech_cells.perplexity_cells, speech_report.show_perplexity),
    _study("speech-depth", "Depth and width of networks", "Table 3",
           speech_cells.depth_cells, speech_report.show_depth),
)
