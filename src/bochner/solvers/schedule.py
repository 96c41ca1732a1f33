"""When the learning rate is halved, when an epoch is undone, and when training ends."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum


class Decision(Enum):
    """What to do after an epoch."""

    GO_ON = "go on"
    HALVE = "halve"
    REVERT = "revert and halve"


@dataclass
class HalvingSchedule:
    """The papers' rule, on a heldout metric m that should fall:

    an epoch that improves m by less than `improvement` (1 %, relative) halves the rate; one that makes m worse, or not
    a number, also takes the model back to where the epoch began; after `max_halvings` (10) training ends.
    Source: May 2018, Section 4.3.
    """

    rate: float
    criterion: float = math.inf
    improvement: float = 0.01
    max_halvings: int = 10
    halvings: int = 0

    @property
    def finished(self) -> bool:
        return self.halvings >= self.max_halvings

    def update(self, criterion: float) -> Decision:
        """Take note of an epoch's heldout metric.

        >>> schedule = HalvingSchedule(rate=1.0, criterion=2.0)
        >>> [schedule.update(m).value for m in (1.5, 1.499, 1.6)], schedule.rate, schedule.criterion
        (['go on', 'halve', 'revert and halve'], 0.25, 1.499)
        """
        if math.isnan(criterion) or criterion > self.criterion:
            self._halve()
            return Decision.REVERT
        enough = self.criterion - criterion >= self.improvement * abs(self.criterion) or math.isinf(self.criterion)
        self.criterion = criterion
        if enough:
            return Decision.GO_ON
        self._halve()
        return Decision.HALVE

    def _halve(self) -> None:
        self.rate /= 2
        self.halvings += 1
