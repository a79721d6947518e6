"""The tables of a race's database, by schema: how they are filled, changed and counted.

TechEmpower's tables exist twice, as in the suite: programs that quote names need ``"World"``, others ``world``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dragstrip.workload import CATEGORIES, ITEMS, TAGS, Schema, Tables

#: A statement, and the values of its placeholders.
Statement = tuple[str, tuple[object, ...]]

#: A regular expression for the statements that count: they name a table.
COUNTED: Mapping[Schema, str] = {"rows": "rows", "hello_world": "world|fortune", "items": "items"}

#: The tables of each schema, as SQL has their names.
TABLES: Mapping[Schema, tuple[str, ...]] = {
    "rows": ("rows",),
    "hello_world": ("world", '"World"', "fortune", '"Fortune"'),
    "items": ("items",),
}

_WORLDS, _FORTUNES = TABLES["hello_world"][:2], TABLES["hello_world"][2:]


def filling(tables: Tables) -> Sequence[str]:
    """Statements that make and fill the tables of an empty database."""
    if tables.schema == "rows":
        made = ["CREATE TABLE rows (id integer PRIMARY KEY, n integer NOT NULL)", _numbers("rows", tables)]
    elif tables.schema == "hello_world":
        made = [
            f"CREATE TABLE {name} (id integer PRIMARY KEY, randomNumber integer NOT NULL DEFAULT 0)" for name in _WORLDS
        ]
        made += [_numbers(name, tables) for name in _WORLDS]
        made += [f"CREATE TABLE {name} (id integer PRIMARY KEY, message varchar(2048) NOT NULL)" for name in _FORTUNES]
    else:
        made = [
            "CREATE TABLE items (id integer PRIMARY KEY, name text NOT NULL, category text NOT NULL, price integer NOT"
            " NULL, quantity integer NOT NULL, active boolean NOT NULL, tags jsonb NOT NULL, rating_score integer NOT"
            " NULL, rating_count integer NOT NULL)",
            _items(tables),
        ]
    for name in TABLES[tables.schema]:
        # Otherwise the first readers would write hint bits.
        made += [f"GRANT SELECT ON {name} TO PUBLIC", f"VACUUM (FREEZE, ANALYZE) {name}"]
    return made


def _numbers(name: str, tables: Tables) -> str:
    return f"INSERT INTO {name} VALUES {','.join(f'({number},{n})' for number, n in enumerate(tables.numbers, 1))}"


def _items(tables: Tables) -> str:
    """The items that ``Tables.item`` makes, in SQL: all their values come from a hash of the id."""

    def part(index: int) -> str:
        return f"('x' || substr(h, {4 * index + 1}, 4))::bit(16)::integer"

    def one_of(names: Sequence[str], index: str) -> str:
        listed = ",".join(f"'{name}'" for name in names)
        return f"(ARRAY[{listed}])[1 + {index}]"

    tags = f"{one_of(TAGS[:5], f'{part(6)} % 5')}, {one_of(TAGS[5:], f'{part(6)} / 5 % 5')}"
    category = one_of(CATEGORIES, f"{part(2)} % {len(CATEGORIES)}")
    return (
        f"INSERT INTO items SELECT id, 'Item ' || substr(h, 1, 8), {category},"
        f" {part(3)} % 500 + 1, {part(4)} % 50 + 1, {part(5)} % 2 = 0, jsonb_build_array({tags}),"
        f" {part(7)} % 50 + 1, {part(7)} / 50 % 500"
        f" FROM (SELECT id, md5('{tables.salt} ' || id) AS h FROM generate_series(1, {ITEMS}) AS id) AS hashed"
    )


def launching(tables: Tables) -> Sequence[Statement]:
    """Statements for an instance that has just started: rows that differ from launch to launch."""
    return _messages(tables) if tables.schema == "hello_world" else ()


def changing(tables: Tables, owners: Sequence[str] = ()) -> Sequence[Statement]:
    """Statements after which the tables have the changed rows.

    Args:
        owners: roles with items of their own.
    """
    names = TABLES[tables.schema]
    if tables.schema == "rows":
        made = [_renumbered("rows", "n", tables)]
    elif tables.schema == "hello_world":
        made = [*(_renumbered(name, "randomNumber", tables) for name in _WORLDS), *_messages(tables)]
    else:
        ids = (tables.changing[0], tables.changing[-1])
        names = (*names, *(f"{owner}.items" for owner in owners))
        # With placeholders in a statement, %% is %.
        made = [(f"UPDATE {name} SET quantity = quantity %% 50 + 1 WHERE id BETWEEN %s AND %s", ids) for name in names]
    return [*made, *((f"VACUUM (FREEZE, ANALYZE) {name}", ()) for name in names)]


def _renumbered(name: str, column: str, tables: Tables) -> Statement:
    values = "unnest(%s::integer[]) WITH ORDINALITY AS changed(n, number)"
    return (f"UPDATE {name} SET {column} = changed.n FROM {values} WHERE id = number", (list(tables.numbers),))


def _messages(tables: Tables) -> Sequence[Statement]:
    made: list[Statement] = []
    for name in _FORTUNES:
        values = "unnest(%s::text[]) WITH ORDINALITY AS drawn(message, number)"
        made.append((f"DELETE FROM {name}", ()))
        made.append((f"INSERT INTO {name} SELECT number, message FROM {values}", (list(tables.fortunes),)))
    return made


def own_copies(role: str, schema: Schema) -> Sequence[str]:
    """Statements that give a role tables of its own, which it may change; no other role's rows change with them."""
    made = [f"CREATE SCHEMA {role}"]
    for name in TABLES[schema]:
        made += [f"CREATE TABLE {role}.{name} (LIKE public.{name} INCLUDING ALL)"]
        made += [f"INSERT INTO {role}.{name} SELECT * FROM public.{name}", f"VACUUM (FREEZE, ANALYZE) {role}.{name}"]
        made += [f"GRANT SELECT, INSERT, UPDATE, DELETE ON {role}.{name} TO {role}"]
    return [*made, f"GRANT USAGE ON SCHEMA {role} TO {role}", f"ALTER ROLE {role} SET search_path = {role}, public"]


def own_numbers(role: str, schema: Schema) -> Sequence[str]:
    """Queries for the rows of a role's own tables, of which it uses one: their ids, and the numbers that it writes."""
    if schema == "items":
        return [f"SELECT id, price FROM {role}.items ORDER BY id"]
    return [f"SELECT id, randomNumber FROM {role}.{name} ORDER BY id" for name in _WORLDS]
