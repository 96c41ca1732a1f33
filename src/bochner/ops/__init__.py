"""The fast parts below everything else: tiles that bound memory, and transforms on tensors."""

from bochner.ops.distance import squared_distances
from bochner.ops.hadamard import hadamard_matrix, hadamard_transform
from bochner.ops.tiles import row_tiles
from bochner.ops.waves import write_waves

__all__ = ["hadamard_matrix", "hadamard_transform", "row_tiles", "squared_distances", "write_waves"]
