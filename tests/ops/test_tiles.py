"""Tiles cover all rows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bochner.ops import row_tiles

sizes = st.integers(min_value=0, max_value=300)


@given(num_rows=sizes, row_elements=sizes, tile_elements=sizes)
def test_every_row_is_in_one_tile(num_rows: int, row_elements: int, tile_elements: int) -> None:
    tiles = list(row_tiles(num_rows, row_elements=row_elements, tile_elements=tile_elements))
    assert [row for tile in tiles for row in range(tile.start, tile.stop)] == list(range(num_rows))


@given(num_rows=sizes, row_elements=sizes, tile_elements=sizes)
def test_tiles_are_as_large_as_they_may_be(num_rows: int, row_elements: int, tile_elements: int) -> None:
    tiles = list(row_tiles(num_rows, row_elements=row_elements, tile_elements=tile_elements))
    heights = [tile.stop - tile.start for tile in tiles]
    assert all(height == 1 or height * row_elements <= tile_elements for height in heights)
    for height in heights[:-1]:  # one more row would not have fitted
        assert (height + 1) * max(1, row_elements) > tile_elements


@pytest.mark.parametrize("num_rows", [1, 5])
def test_a_row_larger_than_a_tile_gets_its_own(num_rows: int) -> None:
    tiles = list(row_tiles(num_rows, row_elements=100, tile_elements=10))
    assert tiles == [slice(i, i + 1) for i in range(num_rows)]


def test_no_rows_no_tiles() -> None:
    assert list(row_tiles(0, row_elements=1, tile_elements=1)) == []
