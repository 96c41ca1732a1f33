"""English readings of numbers in figures."""

from __future__ import annotations

import re

SMALL = [
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
]  # fmt: skip
TENS = ["zero", "ten", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
POWERS = {10**12: "trillion", 10**9: "billion", 10**6: "million", 1000: "thousand", 100: "hundred"}
ORDINALS = {"one": "first", "two": "second", "three": "third", "five": "fifth", "eight": "eighth", "nine": "ninth",
            "twelve": "twelfth"}  # fmt: skip
CURRENCIES = {"$": ("dollar", "dollars", "cents"), "£": ("pound", "pounds", "pence"), "€": ("euro", "euros", "cents")}
_NUMBER = re.compile(r"([$£€]?)(\d{1,3}(?:,\d{3})+|\d+)(?:([.:])(\d+))?(st|nd|rd|th|'?s|%)?")
Reading = tuple[str, ...]


def readings(token: str) -> list[Reading]:
    """The ways to read a number in figures aloud; none for other words.

    Cardinals and ordinals, years and decades, decimals, percentages, amounts of money, times of day, and figures one by
    one, as in numbers of telephones.

    >>> [" ".join(words) for words in readings("1905")[2:4]]
    ['a thousand nine hundred five', 'a thousand nine hundred and five']
    >>> [" ".join(words) for words in readings("1905")[4:]]
    ['nineteen oh five', 'one nine zero five', 'one nine oh five']
    >>> [readings(token)[0] for token in ("21st", "$1", "2.5%")]
    [('twenty', 'first'), ('one', 'dollar'), ('two', 'point', 'five', 'percent')]
    >>> readings("mp3")
    []
    """
    match = _NUMBER.fullmatch(token)
    if match is None:
        return []
    currency, whole, point, decimals, suffix = (part or "" for part in match.groups())
    digits = whole.replace(",", "")
    ways = _whole(digits)
    if suffix in ("", "%") and not currency and len(digits) > 1:
        ways += _digits(digits)
    if point == ":":
        ways = [(*words, *after) for words in ways[:1] for after in _minutes(decimals)]
    elif currency:
        ways = _money(ways, decimals, *CURRENCIES[currency])
    elif point:
        silent: list[Reading] = [()] if digits == "0" else []
        ways = [(*words, "point", *after) for words in ways + silent for after in _digits(decimals)]
    if suffix == "%":
        ways = [(*words, "percent") for words in ways]
    elif suffix in ("s", "'s"):
        ways = [(*words[:-1], _plural(words[-1])) for words in ways]
    elif suffix:
        ways = [(*words[:-1], _ordinal(words[-1])) for words in ways]
    return list(dict.fromkeys(ways))


def cardinal(number: int, *, joint: str = "") -> Reading:
    """A number below 10^15 in words, with `joint` before what is less than a hundred.

    >>> " ".join(cardinal(120_015, joint="and"))
    'one hundred and twenty thousand and fifteen'
    """
    if number < len(SMALL):
        return (SMALL[number],)
    if number < 100:
        tens, ones = divmod(number, 10)
        return (TENS[tens], SMALL[ones]) if ones else (TENS[tens],)
    power = next(power for power in POWERS if power <= number)
    count, rest = divmod(number, power)
    after = cardinal(rest, joint=joint) if rest else ()
    return (*cardinal(count, joint=joint), POWERS[power], *([joint] if joint and 0 < rest < 100 else []), *after)


def _whole(digits: str) -> list[Reading]:
    ways: list[Reading] = []
    if len(digits) <= 15 and (digits[0] != "0" or len(digits) == 1):
        ways = [cardinal(int(digits), joint=joint) for joint in ("", "and")]
        ways += [("a", *words[1:]) for words in ways if len(words) > 1 and words[0] == "one"]
        if len(digits) in (3, 4):
            ways.append((*cardinal(int(digits[:-2])), *_pair(digits[-2:])))
    return ways


def _pair(digits: str) -> Reading:
    """The last two figures of a year."""
    if digits == "00":
        return ("hundred",)
    return ("oh", SMALL[int(digits)]) if digits[0] == "0" else cardinal(int(digits))


def _digits(digits: str) -> list[Reading]:
    words = [SMALL[int(digit)] for digit in digits]
    return [tuple(words), tuple("oh" if word == "zero" else word for word in words)]


def _minutes(digits: str) -> list[Reading]:
    return [("o'clock",), ()] if digits == "00" else [_pair(digits)] if len(digits) == 2 else _digits(digits)


def _money(ways: list[Reading], decimals: str, singular: str, plural: str, parts: str) -> list[Reading]:
    """The unit is not read where "million" follows it."""
    named = [(*words, singular if words in (("one",), ("a",)) else plural) for words in ways]
    if decimals in ("", "00"):
        return named + ways
    if len(decimals) != 2:
        units: list[Reading] = [(plural,), ()]
        return [(*words, "point", *after, *unit) for words in ways for after in _digits(decimals) for unit in units]
    small = cardinal(int(decimals))
    full = [(*words, *after) for words in named for after in (small, ("and", *small, parts), (*small, parts))]
    return full + [(*words, *_pair(decimals)) for words in ways]


def _ordinal(word: str) -> str:
    return ORDINALS.get(word) or (word[:-1] + "ieth" if word.endswith("y") else word + "th")


def _plural(word: str) -> str:
    return word[:-1] + "ies" if word.endswith("y") else word + ("es" if word == "six" else "s")
