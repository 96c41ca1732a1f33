"""The chapter's tables and figures as studies."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bochner.report import Page
from bochner.studies.nystrom_rff import pictures, spectra, theorems
from bochner.studies.nystrom_rff.cells import Cell, measuring
from bochner.studies.nystrom_rff.grids import cells, effect_cells
from bochner.studies.nystrom_rff.tasks import FILES
from bochner.studies.study import Row, Study

MAY = "May 2018"
PROTOCOL = (
    "Gaussian kernel, bandwidths of Table D.1 where the set is the thesis's. Continuous inputs have mean 0 and "
    "variance 1, binary ones stay; a tenth of the training rows is held out (two speakers of TIMIT's sample). rff "
    "has D cosines with phases; Nystrom maps have D uniform or k-means landmarks and all D directions. Kernel "
    "errors are over all pairs of some heldout rows; memory is d D numbers for rff, d D + D^2 for Nystrom. Models "
    "are linear on the features, by preconditioned SGD with the papers' schedule (batches of 250, the rate by a "
    "short race on heldout rows); the thesis has plain SGD. Numbers are medians over seeds with least and most; the "
    "test parts are not read. At size small there are at most 5,000 training and 1,000 judged rows."
)


def _study(name: str, title: str, source: str, show: Callable[[Page, Sequence[Row]], None]) -> Study:
    return Study(name, title, source, PROTOCOL, "nystrom_rff", Cell, cells, measuring, show, FILES)


STUDIES = (
    _study(
        "nystrom-rff-kernel-error",
        "Kernel error by features and by memory",
        f"{MAY}, Figure 6.1",
        pictures.kernel_error,
    ),
    Study(
        "kernel-spectra",
        "Spectra of kernel matrices",
        f"{MAY}, Figure 6.2",
        "Eigenvalues of the Gaussian kernel matrix of n random training rows, divided by n; float64.",
        "kernel_spectra",
        spectra.Cell,
        spectra.cells,
        spectra.measuring,
        spectra.show,
        FILES,
    ),
    _study(
        "nystrom-rff-performance",
        "Heldout performance by features, memory and kernel error",
        f"{MAY}, Figure 6.3",
        pictures.performance,
    ),
    _study(
        "nystrom-rff-bias-variance",
        "Errors at small and at large kernel values",
        f"{MAY}, Figure 6.4 and Table 6.2",
        pictures.bias_and_variance,
    ),
    _study("nystrom-rff-norms", "Norms of features", f"{MAY}, Figure 6.5", pictures.norms),
    _study("nystrom-rff-error-powers", "Heldout performance by |error|^r", f"{MAY}, Figure 6.6", pictures.powers),
    Study(
        "nystrom-theorems",
        "Theorems 4 to 7 in numbers",
        f"{MAY}, Sections 6.1 and 6.3",
        "Gaussian kernel; expectations are over the n points themselves, each with probability 1 / n; float64.",
        "nystrom_theorems",
        theorems.Cell,
        theorems.cells,
        theorems.measuring,
        theorems.show,
        FILES,
    ),
    Study(
        "effect-of-features",
        "Effect of the number of features",
        f"{MAY}, Figure 4.2",
        PROTOCOL + " Laplacian and sparse Gaussian bandwidths are the median rule's.",
        "nystrom_rff",
        Cell,
        effect_cells,
        measuring,
        pictures.effect_of_features,
        FILES,
    ),
)
