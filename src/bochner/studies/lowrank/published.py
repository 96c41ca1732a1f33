"""The thesis's numbers: P. Bhardwaj, "Efficient Low Rank Approximation via Alternate Least Squares for Scalable Kernel
Learning", IIT Kanpur 2015, chapter 5. Spectral errors are means over 10 runs."""

# fmt: off
from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class Sweep(NamedTuple):
    """A table over bandwidths; `samples` is |Omega| in units of n log n."""

    table: str
    data: str
    rank: int
    samples: float
    errors: Mapping[float, tuple[float, ...]]  # by bandwidth, in the order of methods.SCHEMES or methods.STARTS


class Published(NamedTuple):
    """A mean and, where the thesis gives it, a standard deviation over 10 runs."""

    mean: float
    spread: float | None = None


SAMPLING: tuple[Sweep, ...] = (
    Sweep(
        "5.1", "ijcnn1 small", 50, 49,
        {
            0.212: (5.871, 28780, 27152, 13.96, 949.6, 13.13, 251.2, 20.87),
            0.424: (12121, 27.25, 29.35, 5.218, 9.942, 5.271, 5.895, 6.241),
            0.848: (4.898, 2.205, 2.107, 2.030, 3.900, 2.314, 2.085, 2.212),
            1.061: (1.449, 1.226, 1.238, 1.171, 2.121, 1.368, 1.209, 1.340),
            1.591: (0.362, 0.355, 0.354, 0.363, 0.631, 0.398, 0.357, 0.392),
            3.182: (0.030, 0.030, 0.030, 0.030, 0.050, 0.033, 0.031, 0.033),
            5.303: (0.004, 0.004, 0.004, 0.004, 0.007, 0.005, 0.004, 0.004),
        },
    ),
    Sweep(
        "5.2", "ijcnn1 small", 200, 120,
        {
            0.212: (1.603, 1477, 141.4, 3.979, 6.635, 1.766, 3.087, 2.423),
            0.424: (21.62, 1.332, 1.417, 0.980, 1.197, 0.876, 0.959, 0.870),
            0.848: (0.362, 0.219, 0.214, 0.181, 0.183, 0.161, 0.164, 0.155),
            1.061: (0.118, 0.094, 0.097, 0.078, 0.0761, 0.072, 0.075, 0.069),
            1.591: (0.014, 0.016, 0.016, 0.014, 0.0134, 0.014, 0.013, 0.013),
            3.182: (0.00059, 0.00061, 0.00058, 0.00058, 0.00058, 0.00057, 0.00058, 0.00056),
            5.303: (6.8e-05, 6.9e-05, 7e-05, 6.8e-05, 7e-05, 6.9e-05, 7e-05, 6.8e-05),
        },
    ),
    Sweep(
        "5.3", "german", 50, 49,
        {
            0.649: (18951, 795, 339.4, 303, 7476, 139.1, 1676, 1844),
            1.299: (6389, 5.721, 4.912, 3.668, 6.140, 4.262, 4.924, 9.485),
            2.598: (6.613, 3.067, 3.140, 3.071, 3.531, 3.131, 3.098, 3.324),
            3.247: (2.388, 2.114, 2.065, 2.094, 2.376, 2.170, 2.114, 2.163),
            4.871: (0.725, 0.719, 0.714, 0.712, 0.798, 0.739, 0.717, 0.732),
            9.742: (0.064, 0.063, 0.063, 0.063, 0.072, 0.066, 0.065, 0.065),
            16.236: (0.009, 0.010, 0.009, 0.009, 0.010, 0.009, 0.009, 0.009),
        },
    ),
    Sweep(
        "5.4", "german", 200, 120,
        {
            0.649: (1373, 4914, 276.8, 137.1, 102.7, 184.6, 230.2, 502.2),
            1.299: (3.857, 5.164, 2.762, 1.953, 1.687, 1.626, 1.841, 2.143),
            2.598: (1.049, 0.754, 0.771, 0.635, 0.591, 0.566, 0.568, 0.569),
            3.247: (0.439, 0.380, 0.394, 0.302, 0.289, 0.288, 0.299, 0.282),
            4.871: (0.067, 0.073, 0.079, 0.067, 0.065, 0.063, 0.064, 0.061),
            9.742: (0.0041, 0.0042, 0.0043, 0.0041, 0.0041, 0.0041, 0.0041, 0.004),
            16.24: (0.00053, 0.00053, 0.00057, 0.00054, 0.00054, 0.0053, 0.0052, 0.0053),
        },
    ),
    Sweep(
        "5.5", "satimage", 100, 151,
        {
            0.465: (4434, 92.05, 10.70, 2.172, 7.592, 2.198, 2.227, 2.852),
            0.929: (204.68, 2.237, 2.267, 1.548, 2.388, 1.596, 1.474, 1.552),
            1.859: (2.167, 0.632, 0.605, 0.412, 0.391, 0.392, 0.346, 0.358),
            2.324: (0.820, 0.280, 0.302, 0.213, 0.209, 0.207, 0.195, 0.189),
            3.485: (0.064, 0.062, 0.064, 0.057, 0.053, 0.056, 0.050, 0.048),
            6.972: (0.0037, 0.004, 0.004, 0.0041, 0.0035, 0.004, 0.0035, 0.0037),
            11.62: (0.00056, 0.00054, 0.00055, 0.00055, 0.000508, 0.00049, 0.00044, 0.00049),
        },
    ),
)

STARTS: tuple[Sweep, ...] = (
    Sweep(
        "5.6", "ijcnn1 small", 50, 49,
        {
            0.21: (193, 23.71, 20.14, 6.04),
            0.42: (187.08, 5.06, 4.96, 6.70),
            0.85: (147.98, 2.14, 2.01, 5.04),
            1.06: (124.97, 1.23, 1.22, 5.34),
            1.59: (89.55, 0.37, 0.36, 5.55),
            3.18: (67.70, 0.03, 0.03, 6.88),
            5.3: (65.48, 0.004, 0.004, 4.01),
        },
    ),
    Sweep(
        "5.7", "german", 50, 49,
        {
            0.65: (195.70, 1027.88, 439.70, 1390.21),
            1.3: (192.18, 3.94, 3.71, 5.11),
            2.6: (166.28, 3.18, 3.01, 6.56),
            3.25: (139.94, 2.20, 2.05, 6.16),
            4.87: (96.45, 0.75, 0.72, 6.99),
            9.74: (67.98, 0.068, 0.063, 5.93),
            16.24: (64.94, 0.010, 0.010, 4.19),
        },
    ),
)

# Table 5.8, in the order of methods.STARTS; bandwidths by the mean rule (Table B.1)
STARTS_BY_SET: Mapping[str, tuple[float, float, tuple[float, ...]]] = MappingProxyType({
    "ijcnn1 small": (1.06, 49, (125.95, 1.23, 1.21, 5.38)),
    "german": (3.25, 49, (141.26, 2.16, 2.09, 6.45)),
    "satimage": (2.32, 150, (348.81, 0.21, 0.19, 2.20)),
    "wine": (59, 160, (322.09, 1.06, 0.20, 5.12)),
    "cpusmall": (5e5, 163, (214.79, 1.16e-05, 2.78e-06, 3.54)),
})
# Table 5.10
PEERS: Mapping[str, Mapping[str, Published]] = MappingProxyType({
    "ijcnn1 small": {
        "standard nystrom": Published(2.28, 0.29), "standard kmeans-nystrom": Published(1.79, 0.20),
        "meka": Published(2.06, 0.70), "fourier": Published(81.89, 0.34), "als": Published(1.21, 0.08),
        "optimum": Published(0.9178),
    },
    "german": {
        "standard nystrom": Published(3.36, 0.29), "standard kmeans-nystrom": Published(2.92, 0.11),
        "meka": Published(7.00, 2.64), "fourier": Published(103.39, 33.17), "als": Published(2.09, 0.07),
        "optimum": Published(1.67),
    },
    "satimage": {
        "standard nystrom": Published(0.72, 0.28), "standard kmeans-nystrom": Published(0.30, 0.04),
        "meka": Published(1.73, 0.24), "fourier": Published(57.42, 11.53), "als": Published(0.20, 0.01),
        "optimum": Published(0.12),
    },
    "wine": {
        "standard nystrom": Published(1.12, 0.23), "standard kmeans-nystrom": Published(0.26, 0.04),
        "meka": Published(1.16, 0.79), "fourier": Published(65.40, 22.73), "als": Published(0.17, 0.08),
        "optimum": Published(0.004),
    },
    "cpusmall": {
        "standard nystrom": Published(191.6e-6, 211.1e-6), "standard kmeans-nystrom": Published(4.64e-6, 2.05e-6),
        "meka": Published(875e-6, 735.5e-6), "fourier": Published(62.51, 38.69), "als": Published(1.28e-6, 0.56e-6),
        "optimum": Published(4e-9),
    },
    "cadata scaled": {
        "standard nystrom": Published(0.67, 0.30), "standard kmeans-nystrom": Published(0.60, 0.15),
        "meka": Published(0.072, 0.02), "fourier": Published(45.65, 12.67), "als": Published(0.067, 0.04),
        "optimum": Published(0.0003),
    },
    "ijcnn1 scaled": {
        "standard nystrom": Published(0.79, 0.07), "standard kmeans-nystrom": Published(0.57, 0.06),
        "meka": Published(1.03, 0.45), "fourier": Published(37.90, 6.46), "als": Published(0.38, 0.02),
        "optimum": Published(0.1307),
    },
})
# Table 5.11
SAME_SAMPLES: Mapping[str, Mapping[str, float]] = MappingProxyType({
    "ijcnn1 small": {"standard nystrom": 1.47, "standard kmeans-nystrom": 1.41, "als": 1.18},
    "german": {"standard nystrom": 2.57, "standard kmeans-nystrom": 2.25, "als": 2.12},
    "satimage": {"standard nystrom": 0.41, "standard kmeans-nystrom": 0.22, "als": 0.19},
})
# Table 5.12: seconds in MATLAB on an Intel i7-4770, 4 cores, in the order of SECONDS_OF
SECONDS_OF = ("standard nystrom", "standard kmeans-nystrom", "meka", "fourier", "als")
SECONDS: Mapping[str, tuple[float, ...]] = MappingProxyType({
    "ijcnn1 small": (0.01, 0.18, 0.06, 0.002, 3.99),
    "german": (0.01, 0.23, 0.04, 0.002, 3.47),
    "satimage": (0.07, 5.40, 0.40, 0.007, 37.89),
    "wine": (0.08, 2.70, 0.23, 0.009, 81.07),
    "cpusmall": (0.08, 5.68, 0.39, 0.010, 42.84),
    "cadata scaled": (0.38, 17.07, 1.74, 0.05, 3747),
})
# Table 5.13: root mean squared errors by cross-validation with 10 folds
RIDGE: Mapping[str, float] = MappingProxyType({
    "wine": 0.7109,
    "wine scaled": 0.7535,
    "cpusmall": 5.3923,
    "cpusmall scaled": 0.1686,
    "cadata scaled": 0.4664,
})
