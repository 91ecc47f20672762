"""Migrations are numbered one after the other: two of one number fail only in a database."""

from __future__ import annotations

from perdure._store import schema


def test_each_migration_has_the_number_after_the_one_before() -> None:
    numbers = [each.number for each in schema.migrations()]
    assert numbers == list(range(1, len(numbers) + 1))
