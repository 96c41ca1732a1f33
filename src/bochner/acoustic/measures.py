"""How well a model knows the states of frames it has not seen."""

from __future__ import annotations

import math
from collections.abc import Collection

import torch
from torch import Tensor, nn

from bochner.data.batches import in_order
from bochner.data.blocks import Source
from bochner.models.criteria import Scores
from bochner.solvers.step import rows_at_once


def heldout_measures(module: nn.Module, rows: Source, *, silence_states: Collection[int] = ()) -> dict[str, float]:
    """ce, perplexity, ent, erll = ce + ent, err, and the perplexity with all silence states taken for one.

    Silence is easy to hear and its states are many: which of them it is matters to no decoder. With the states in
    `silence_states` merged, p(silence | x) is their sum. Source: May's slides; May 2018, Section 4.1.

    >>> from bochner.data import ArraySource
    >>> found = heldout_measures(nn.Linear(1, 3), ArraySource(torch.ones(2, 1), torch.tensor([0, 1])))
    >>> sorted(found)
    ['ce', 'ent', 'erll', 'err', 'perplexity', 'perplexity_silence_collapsed']
    """
    like = next(module.parameters())
    parts, collapsed = [], []
    with torch.no_grad():
        for block in in_order(rows, batch_rows=rows_at_once(module)):
            logits, y = module(block.X.to(like)), block.y.to(like.device)
            parts.append(Scores.of_batch("softmax", logits, y))
            collapsed.append(_collapsed(logits, y, silence_states))
    total = float(torch.cat(collapsed).mean())
    return {**Scores.join(parts).summary(), "perplexity_silence_collapsed": math.exp(min(700.0, -total))}


def _collapsed(logits: Tensor, y: Tensor, silence_states: Collection[int]) -> Tensor:
    """log p of the right state, or of any silence where it is one of them; [N]."""
    logs = logits.double().log_softmax(dim=1)
    right = logs.gather(1, y[:, None]).squeeze(1)
    if not silence_states:
        return right
    silence = torch.tensor(sorted(silence_states), device=y.device)
    return torch.where(torch.isin(y, silence), logs[:, silence].logsumexp(dim=1), right)
