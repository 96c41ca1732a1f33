"""Hashes of the rows of a source, by which a checkpoint recognises its data."""

from __future__ import annotations

import hashlib
from weakref import WeakKeyDictionary

import torch

from bochner.data.blocks import Block, Source, read_shard

# Several fits on one source, such as those of pre-training, read it once for their checkpoints: rows do not change.
_KNOWN: WeakKeyDictionary[Source, dict[str, str]] = WeakKeyDictionary()


def content_hashes(source: Source) -> dict[str, str]:
    """A hash of the inputs, of the targets and of the weights of all rows, whatever their shards.

    One pass over the rows, once for each source.

    >>> from bochner.data import ArraySource
    >>> X, y = torch.arange(6.0).reshape(3, 2), torch.tensor([0, 1, 1])
    >>> first, second = content_hashes(ArraySource(X, y)), content_hashes(ArraySource(X, 1 - y, shard_rows=2))
    >>> [name for name in first if first[name] != second[name]]
    ['y']
    """
    if source in _KNOWN:
        return _KNOWN[source]
    digests = {name: hashlib.blake2b(digest_size=16) for name in Block._fields}
    for shard in range(len(source.shard_sizes)):
        block = read_shard(source, shard)
        for digest, part in zip(digests.values(), block, strict=True):
            if part is not None:
                if shard == 0:
                    digest.update(f"{part.dtype} {list(part.shape[1:])}".encode())
                digest.update(part.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    _KNOWN[source] = {name: digest.hexdigest() for name, digest in digests.items()}
    return _KNOWN[source]
