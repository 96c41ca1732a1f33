"""Tables and sources of rows of any size, read one shard at a time, and shuffled batches of them."""

from bochner.data.arrays import ArraySource, SparseSource
from bochner.data.batches import batches, in_order, num_batches
from bochner.data.blocks import Block, BlockSource, MappedSource, Source, sample_rows
from bochner.data.cache import CachedSource, cache_to_disk
from bochner.data.encoder import TableEncoder
from bochner.data.files import open_source
from bochner.data.frames import is_frame
from bochner.data.labels import column_names_of, labels_of
from bochner.data.npy import NpySource, NpzSource, ShardedSource
from bochner.data.table_files import read_table
from bochner.data.table_rows import Rows, TableRows, open_rows
from bochner.data.tables import ArrowSource, ParquetSource
from bochner.data.text import CsvBlocks, LibsvmSource
from bochner.data.transforms import (
    EncodeLabels,
    Standardize,
    Statistics,
    SubsetSource,
    check_classes,
    classes_of,
    split,
    statistics,
    with_classes,
)

__all__ = [
    "ArraySource",
    "ArrowSource",
    "Block",
    "BlockSource",
    "CachedSource",
    "CsvBlocks",
    "EncodeLabels",
    "LibsvmSource",
    "MappedSource",
    "NpySource",
    "NpzSource",
    "ParquetSource",
    "Rows",
    "ShardedSource",
    "Source",
    "SparseSource",
    "Standardize",
    "Statistics",
    "SubsetSource",
    "TableEncoder",
    "TableRows",
    "batches",
    "cache_to_disk",
    "check_classes",
    "classes_of",
    "column_names_of",
    "in_order",
    "is_frame",
    "labels_of",
    "num_batches",
    "open_rows",
    "open_source",
    "read_table",
    "sample_rows",
    "split",
    "statistics",
    "with_classes",
]
