"""Where rows come from: arrays, files and streams of any size, read a shard at a time."""

from bochner.train.sources.arrays import ArraySource
from bochner.train.sources.arrow import ArrowSource
from bochner.train.sources.csv_text import csv_blocks
from bochner.train.sources.libsvm import LibsvmSource
from bochner.train.sources.mapped import EncodeLabels, MappedSource, Standardize
from bochner.train.sources.moments import Statistics, statistics
from bochner.train.sources.npy import NpySource, NpzSource, ShardedSource
from bochner.train.sources.parquet import ParquetSource
from bochner.train.sources.spooled import SpooledSource, spool
from bochner.train.sources.subset import SubsetSource, split
from bochner.train.sources.suffixes import open_source

__all__ = [
    "ArraySource",
    "ArrowSource",
    "EncodeLabels",
    "LibsvmSource",
    "MappedSource",
    "NpySource",
    "NpzSource",
    "ParquetSource",
    "ShardedSource",
    "SpooledSource",
    "Standardize",
    "Statistics",
    "SubsetSource",
    "csv_blocks",
    "open_source",
    "split",
    "spool",
    "statistics",
]
