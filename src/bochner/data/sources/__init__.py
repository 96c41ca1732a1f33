"""Where rows come from: arrays, files and streams of any size, read a shard at a time."""

from bochner.data.sources.arrays import ArraySource
from bochner.data.sources.arrow import ArrowSource
from bochner.data.sources.classes import check_classes, classes_of, with_classes
from bochner.data.sources.csv_text import CsvBlocks
from bochner.data.sources.labels import column_names_of, labels_of
from bochner.data.sources.libsvm import LibsvmSource
from bochner.data.sources.mapped import EncodeLabels, MappedSource, Standardize
from bochner.data.sources.moments import Statistics, statistics
from bochner.data.sources.npy import NpySource, NpzSource, ShardedSource
from bochner.data.sources.parquet import ParquetSource
from bochner.data.sources.sparse import SparseSource
from bochner.data.sources.spooled import SpooledSource, spool
from bochner.data.sources.subset import SubsetSource, split
from bochner.data.sources.suffixes import open_source

__all__ = [
    "ArraySource",
    "ArrowSource",
    "CsvBlocks",
    "EncodeLabels",
    "LibsvmSource",
    "MappedSource",
    "NpySource",
    "NpzSource",
    "ParquetSource",
    "ShardedSource",
    "SparseSource",
    "SpooledSource",
    "Standardize",
    "Statistics",
    "SubsetSource",
    "check_classes",
    "classes_of",
    "column_names_of",
    "labels_of",
    "open_source",
    "split",
    "spool",
    "statistics",
    "with_classes",
]
