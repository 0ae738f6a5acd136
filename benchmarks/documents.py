"""The documents of every workload: games' players of 8 fields and about 200 bytes, the same in every run.

Rule of this file: everything follows from a seed, and nothing depends on a clock or on the machine.
"""

from __future__ import annotations

import random
from typing import Any

SEED = 20_130_101
# Scores are spread evenly over this many values, so that a range of scores holds a foreseeable share of the documents.
SCORES = 1_000_000
# fmt: off
WORDS = [
    "amber", "birch", "cedar", "delta", "ember", "flint", "grove", "haven",
    "ivory", "jade", "kestrel", "lumen", "maple", "north", "onyx", "pearl",
]
# fmt: on
COUNTRIES = ["AT", "BR", "CA", "DE", "ES", "FR", "GR", "IN", "JP", "KE", "MX", "NO", "NZ", "PL", "US", "ZA"]

Document = dict[str, Any]


def documents(count: int, *, integer_keys: bool = False, nested: bool = False) -> list[Document]:
    """`count` documents in key order.

    Args:
        integer_keys: Keys are 0, 1, 2, ... instead of "p00000000", "p00000001", ...
        nested: The words are a list, and country and city a dict: 7 fields, 200 bytes.
    """
    rng = random.Random(SEED)
    return [document(rng, number, integer_keys, nested) for number in range(count)]


def document(rng: random.Random, number: int, integer_keys: bool, nested: bool) -> Document:
    words = rng.choices(WORDS, k=16)
    country, city = rng.choice(COUNTRIES), rng.choice(WORDS).title()
    found: Document = {
        "id": number if integer_keys else key_of(number),
        "name": f"{rng.choice(WORDS).title()} {rng.choice(WORDS).title()}",
        "score": rng.randrange(SCORES),
        "rating": rng.gauss(1500.0, 300.0),
        "active": rng.random() < 0.9,
    }
    if nested:
        found["home"] = {"country": country, "city": city}
        found["words"] = words
    else:
        found["country"] = country
        found["city"] = city
        found["words"] = " ".join(words)
    return found


def key_of(number: int) -> str:
    return f"p{number:08d}"


def shuffled(given: list[Document]) -> list[Document]:
    """The same documents in an order that has nothing to do with their keys."""
    found = list(given)
    random.Random(SEED + 1).shuffle(found)
    return found


def keys_at_random(count: int, among: int) -> list[str]:
    """`count` keys, drawn with repetition from the first `among`."""
    rng = random.Random(SEED + 2)
    return [key_of(rng.randrange(among)) for _ in range(count)]


def score_ranges(count: int, share: float) -> list[tuple[int, int]]:
    """`count` ranges low <= score < high that hold about `share` of all documents each."""
    rng = random.Random(SEED + 3)
    width = max(1, round(SCORES * share))
    lows = [rng.randrange(max(1, SCORES - width)) for _ in range(count)]
    return [(low, low + width) for low in lows]
