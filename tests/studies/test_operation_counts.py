"""Counted operations: of known products, and of the methods against the formulas of the papers' tables."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest
import torch

from bochner.studies.operation_counts import FINDINGS, TABLE_23, TABLE_31, CountOperations, cells, growths, measure
from bochner.studies.study import Row


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return [{**asdict(cell), **measure(cell)} for cell in cells("smoke")]


def test_products_factorisations_and_elements_are_counted() -> None:
    A = torch.eye(6)
    with CountOperations() as counter:
        torch.linalg.cholesky(A)
    assert counter.count == pytest.approx(6**3 / 3)
    with CountOperations() as counter:
        A.T[:3]  # views
    assert counter.count == 0
    with CountOperations() as counter:
        torch.bmm(A.expand(4, 6, 6), A.expand(4, 6, 6))
    assert counter.count == 4 * 2 * 6**3


def test_random_fourier_features_cost_two_operations_for_each_weight_and_row(rows: list[Row]) -> None:
    for row in rows:
        if row["method"] == "rff":
            assert row["operations"] == pytest.approx(2 * row["N"] * row["D"] * row["d"], rel=0.05)
            assert row["stored"] == row["D"] * row["d"] + row["D"]  # and phases


def test_the_tables_hold_and_a_slower_method_would_be_seen(rows: list[Row]) -> None:
    for finding in FINDINGS:
        decision = finding.criterion(rows)
        assert decision is not None
        assert decision.holds, decision.measured
    slower = [{**row, "operations": row["operations"] * row["N"], "stored": row["stored"] * row["N"]} for row in rows]
    assert not any(finding.criterion(slower).holds for finding in FINDINGS)  # type: ignore[union-attr]
    assert all(finding.criterion([]) is None for finding in FINDINGS)


def test_every_letter_of_a_formula_is_doubled(rows: list[Row]) -> None:
    names = set(growths(rows, TABLE_23, "operations", "time_formula"))
    assert {"nystrom, 2 N", "nystrom, 2 d", "nystrom, 2 D", "nystrom, 2 m", "structured rff, 2 d"} <= names
    assert len(growths(rows, TABLE_31, "stored", "memory_formula")) == 8
    first = cells("smoke")[0]
    assert replace(first, N=2 * first.N) in cells("smoke")
