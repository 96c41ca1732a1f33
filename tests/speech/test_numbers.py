"""Readings of numbers in figures."""

from __future__ import annotations

import pytest

from bochner.speech.numbers import cardinal, readings
from bochner.speech.pretrained import load_model


@pytest.mark.parametrize(
    ("token", "expected"),
    [
        ("0", ["zero"]),
        ("10", ["ten", "one zero", "one oh"]),
        ("42", ["forty two", "four two"]),
        ("911", ["nine hundred eleven", "nine hundred and eleven", "nine eleven", "nine one one"]),
        ("1,000", ["one thousand", "a thousand"]),
        ("1984", ["nineteen eighty four", "one nine eight four", "one thousand nine hundred and eighty four"]),
        ("1900", ["nineteen hundred"]),
        ("2005", ["two thousand five", "two thousand and five", "twenty oh five"]),
        ("0.5", ["zero point five", "point five"]),
        ("$5.00", ["five dollars", "five"]),
        ("007", ["zero zero seven", "oh oh seven"]),
        ("2,500,000", ["two million five hundred thousand"]),
        ("3.14", ["three point one four"]),
        ("25%", ["twenty five percent"]),
        ("$1", ["one dollar", "one"]),
        ("$5", ["five dollars", "five"]),
        ("£2.50", ["two pounds fifty", "two pounds and fifty pence", "two fifty"]),
        ("$2.5", ["two point five dollars", "two point five"]),
        ("1st", ["first"]),
        ("12th", ["twelfth"]),
        ("20th", ["twentieth"]),
        ("100th", ["one hundredth"]),
        ("80s", ["eighties"]),
        ("1980's", ["nineteen eighties"]),
        ("7:30", ["seven thirty"]),
        ("10:05", ["ten oh five"]),
        ("9:00", ["nine o'clock", "nine"]),
        ("9" * 20, ["nine " * 19 + "nine"]),
    ],
)
def test_readings(token: str, expected: list[str]) -> None:
    found = [" ".join(words) for words in readings(token)]
    assert set(expected) <= set(found)
    assert len(found) == len(set(found))


@pytest.mark.parametrize("token", ["", "a", "mp3", "$", "%", "1,00", "1.2.3", "5x", "\u00bd"])
def test_other_words_have_none(token: str) -> None:
    assert readings(token) == []


def test_cardinals_count_up() -> None:
    names = [" ".join(cardinal(number)) for number in range(10_000)]
    assert len(set(names)) == len(names)
    assert names[999] == "nine hundred ninety nine"
    assert " ".join(cardinal(10**15 - 1)).startswith("nine hundred ninety nine trillion")


def test_the_model_pronounces_the_words_of_numbers() -> None:
    known = load_model("en").pronunciations
    tokens = [*map(str, range(100)), "$3.20", "\u00a33.20", "\u20ac4", "5%", "9:00", "1,000,000,000,000",
              "1,000,000,000", *(f"{number}th" for number in range(4, 100)), "1st", "2nd", "3rd", "1980s",
              "1990s", "2.0"]  # fmt: skip
    words = {word for token in tokens for reading in readings(token)[:2] for word in reading}
    assert words <= known.keys()
