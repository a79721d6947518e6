"""The rows of a race's database, drawn from its seed; responses are compared with them if the server chooses rows."""

from __future__ import annotations

import hashlib
import random
import string
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import islice
from typing import Literal

from dragstrip.contender.template import Json

#: The tables of a database: Dragstrip's own, TechEmpower's, HttpArena's.
Schema = Literal["rows", "hello_world", "items"]

#: Number of rows with numbers; their ids begin with 1.
TABLE_ROWS = 10_000

#: First and last number by schema. In Dragstrip's own table all have five digits, so that a response's length depends
#: only on its id.
NUMBERS: dict[Schema, tuple[int, int]] = {"rows": (10_000, 99_999), "hello_world": (1, 10_000), "items": (0, 0)}

#: Number of messages in TechEmpower's table, and the message that a server adds to them, with id 0.
FORTUNES, ADDED = 12, "Additional fortune added at request time."

#: Number of HttpArena's items, and their categories.
ITEMS = 100_000
CATEGORIES = ("electronics", "clothing", "books", "home", "sports", "toys")
TAGS = ("fast", "new", "popular", "durable", "premium", "eco", "sale", "limited", "compact", "classic")

#: The items that change if every contender has a table of its own: enough for checks, and quickly changed.
OWN_CHANGING = range(1001, 5001)

#: What an item has that a request created, apart from the request's values.
_CREATED: Mapping[str, Json] = {"active": True, "tags": ["bench"], "rating": {"score": 0, "count": 0}}

#: Ids of a category that are found at once.
_LISTED = 500

#: Parts of messages. A server that does not escape them, or takes bytes for characters, sends another text.
_MARKUP = ("<b>", "&amp;", "\"'", "a < b > c", "&lt;")
_FOREIGN = ("フレームワーク", "žluťoučký kůň", "naïve façade", "Ελληνικά", "100 €")


@dataclass(frozen=True, slots=True)
class Written:
    """The values that a contender has written into one of its own items.

    Args:
        raised: ``Tables.raised`` at that time.
    """

    values: Mapping[str, Json]
    raised: int


@dataclass(kw_only=True)
class Tables:
    """The rows of one running database; changed in place when its rows change.

    Args:
        numbers: the number of each row, in the order of ids.
        fortunes: the messages of TechEmpower's table, in the order of ids.
        salt: text that HttpArena's items are made of.
        raised: how often the quantities of the items with ids in ``changing`` were raised by 1.
    """

    schema: Schema = "rows"
    numbers: list[int] = field(default_factory=list)
    fortunes: list[str] = field(default_factory=list)
    salt: str = ""
    raised: int = 0
    changing: range = range(1, ITEMS + 1)

    def item(self, number: int) -> dict[str, Json]:
        """HttpArena's item with this id; ``process.database`` has the same in SQL."""
        made = hashlib.md5(f"{self.salt} {number}".encode(), usedforsecurity=False).hexdigest()
        parts = [int(made[at : at + 4], 16) for at in range(0, 32, 4)]
        raised = self.raised if number in self.changing else 0
        return {
            "id": number,
            "name": f"Item {made[:8]}",
            "category": CATEGORIES[parts[2] % len(CATEGORIES)],
            "price": parts[3] % 500 + 1,
            "quantity": (parts[4] + raised) % 50 + 1,
            "active": parts[5] % 2 == 0,
            "tags": [TAGS[parts[6] % 5], TAGS[5 + parts[6] // 5 % 5]],
            "rating": {"score": parts[7] % 50 + 1, "count": parts[7] // 50 % 500},
        }

    def current(self, number: int, written: Mapping[int, Written]) -> dict[str, Json]:
        """The item with this id, as a contender has written it."""
        last = written.get(number)
        if last is None:
            return self.item(number)
        item = self.item(number) if number <= ITEMS else {"id": number, **_CREATED}
        values = dict(last.values)
        if number in self.changing and isinstance(values["quantity"], int):
            values["quantity"] = (values["quantity"] - 1 + self.raised - last.raised) % 50 + 1
        return item | values

    def listed(self, category: str, page: int, limit: int) -> list[int]:
        """The ids of a page of a category's items, in the order of ids."""
        most = page * limit
        return list(_first_of(self.salt, category, -(-most // _LISTED) * _LISTED)[most - limit : most])

    @cached_property
    def _prices(self) -> list[int]:
        """How many items cost at most so much, by price."""
        counts = [0] * 501
        for number in range(1, ITEMS + 1):
            made = hashlib.md5(f"{self.salt} {number}".encode(), usedforsecurity=False).digest()
            counts[int.from_bytes(made[6:8]) % 500 + 1] += 1
        for price in range(1, 501):
            counts[price] += counts[price - 1]
        return counts

    def items_within(self, low: int, high: int) -> int:
        """How many items have a price from ``low`` to ``high``."""
        return max(self._prices[min(max(high, 0), 500)] - self._prices[min(max(low - 1, 0), 500)], 0)

    def change(self, drawn_by: str) -> None:
        """Gives every row another value."""
        first, last = NUMBERS[self.schema]
        self.numbers[:] = [first + (n - first + 1) % (last - first + 1) for n in self.numbers]
        if self.schema == "hello_world":
            self.fortunes[:] = drawn_fortunes(drawn_by)
        self.raised += 1


@lru_cache(maxsize=64)
def _first_of(salt: str, category: str, count: int) -> tuple[int, ...]:
    """The ids of the first items of a category."""
    tables = Tables(schema="items", salt=salt)
    return tuple(islice((n for n in range(1, ITEMS + 1) if tables.item(n)["category"] == category), count))


def drawn_tables(schema: Schema, seed: int) -> Tables:
    """The rows that the seed draws, so that a copy of another race's rows is incorrect."""
    rng = random.Random(f"{seed} {'rows' if schema == 'rows' else schema}")
    numbers = [rng.randint(*NUMBERS[schema]) for _ in range(0 if schema == "items" else TABLE_ROWS)]
    fortunes = drawn_fortunes(f"{seed}") if schema == "hello_world" else []
    return Tables(schema=schema, numbers=numbers, fortunes=fortunes, salt=f"{rng.getrandbits(64):016x}")


def drawn_fortunes(drawn_by: str) -> list[str]:
    """Twelve messages with markup and characters beyond ASCII.

    Their first characters differ, and every alphabet has them in the same order: "<", capital letters, Japanese.
    """
    rng = random.Random(f"fortunes {drawn_by}")

    def words(count: int) -> str:
        return " ".join("".join(rng.choices(string.ascii_lowercase, k=rng.randint(3, 8))) for _ in range(count))

    firsts = rng.sample("BCDEFGHIJKLMNOPQRSTUVWYZ", FORTUNES - 2)
    messages = [f"{first}{words(2)} {rng.choice((*_MARKUP, *_FOREIGN))} {words(2)}." for first in firsts]
    messages.append(f'<script>alert("{words(3)}");</script>')
    messages.append(f"フ{words(1)}のベンチマーク {words(1)}")
    rng.shuffle(messages)
    return messages


def fortunes_page(tables: Tables) -> list[tuple[str, str]]:
    """The rows of a correct page: id and message, with the added message, sorted by message."""
    rows = [(str(number), message) for number, message in enumerate(tables.fortunes, 1)]
    return sorted([*rows, ("0", ADDED)], key=lambda row: row[1])
