"""An input that holds a set would have other bytes in each worker, and a text beside a `Private` would stay plain: both
are refused, and the field is named.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import pytest
from pydantic import BaseModel, Field, PlainSerializer, create_model
from temporalio import workflow

from perdure import Effect, Entity, Escalate, Lifecycle, state
from perdure.client.naming import signal_text
from perdure.encryption import Private, PrivateAs, PrivatePattern
from perdure.errors import DeclarationError, InvalidInput

ROOT = Path(__file__).parents[3]


class Way(StrEnum):
    NEW = "new"
    DONE = state("done", final=True)


class Item(BaseModel):
    tags: frozenset[str] = frozenset()


class Order(BaseModel):
    items: list[Item]
    other: Order | None = None


@dataclass
class Parcel:
    marks: dict[str, set[int]]


class Row(NamedTuple):
    seen: AbstractSet[str]


class Ordered(BaseModel):
    tags: Annotated[set[str], PlainSerializer(sorted)]
    names: tuple[str, ...] = ()


class Untyped(BaseModel):
    more: Any


def declare(effect: Effect[Any, Any]) -> type[Lifecycle[Any, Any]]:
    async def run(self: Any, given: str) -> None: ...

    run.__qualname__ = "Holding.run"  # which Temporal wants of no local class
    return type(
        "Holding",
        (Lifecycle,),
        {
            "effects": (effect,),
            "run": workflow.run(run),
            "__orig_bases__": (Lifecycle[str, Way],),
        },
    )


@pytest.mark.parametrize(
    ("kind", "where"),
    [
        (Order, "items.tags"),
        (Parcel, "marks"),
        (Row, "seen"),
        (dict[frozenset[str], int], "the whole"),
        (tuple[int, set[int] | None], "the whole"),
    ],
)
def test_a_set_in_an_input_is_refused_at_its_declaration(kind: Any, where: str) -> None:
    effect = Effect[kind, int]("send", timeout=timedelta(seconds=5), doubt=Escalate())
    with pytest.raises(DeclarationError, match=f"Holding: the input of 'send' holds a set: {where}. .*use a list"):
        declare(effect)


def test_a_set_that_is_put_in_order_is_taken() -> None:
    effect = Effect[Ordered, int]("send", timeout=timedelta(seconds=5), doubt=Escalate())
    declare(effect)
    assert effect.dump_input(Ordered(tags={"b", "c", "a"})) == {"tags": ["a", "b", "c"], "names": []}


@pytest.mark.parametrize("more", [{"a"}, [{"tags": frozenset("ab")}], ({1, 2},), Item(tags=frozenset("ab"))])
def test_a_set_where_no_type_is_declared_is_refused_before_anything_is_sent(more: Any) -> None:
    effect = Effect[Untyped, int]("send", timeout=timedelta(seconds=5), doubt=Escalate())
    declare(effect)
    with pytest.raises(InvalidInput, match="send: the input holds a set, which has no order: use a list or a tuple"):
        effect.dump_input(Untyped(more=more))


def test_an_accepted_input_has_the_same_bytes_in_every_process() -> None:
    """Strings have another hash in each."""
    code = (
        "import json; from tests.unit.contracts.test_input_types import *; "
        "effect = Effect[Ordered, int]('send', timeout=timedelta(seconds=5), doubt=Escalate()); declare(effect); "
        "print(json.dumps(effect.dump_input(Ordered(tags=set('abcdefgh'), names=tuple('xyz')))))"
    )
    told = set()
    for seed in (1, 2, 3):
        env = os.environ | {"PYTHONHASHSEED": str(seed)}
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, env=env, capture_output=True, text=True, check=True
        )
        told.add(done.stdout)
    assert [json.loads(each) for each in told] == [{"tags": list("abcdefgh"), "names": list("xyz")}]


LONG = Annotated[str, Field(min_length=1)]


class Letters(BaseModel):
    """Each field reads a text in one way alone."""

    to: Annotated[Private | None, PrivatePattern(".+")] = None
    item: Private | Ordered
    each: dict[str, list[Private | int]]
    plain: str | int


@pytest.mark.parametrize(
    ("kind", "where"),
    [
        (Private | str, "to"),
        (Private | LONG | None, "to"),
        (Annotated[Private, PrivatePattern(".+")] | str, "to"),
        (list[Annotated[Private, PrivateAs("name")] | Any], "to"),
    ],
)
def test_a_text_beside_a_private_is_refused_at_its_declaration(kind: Any, where: str) -> None:
    letter = create_model("Letter", to=(kind, ...))
    effect = Effect[letter, int]("send", timeout=timedelta(seconds=5), doubt=Escalate())
    with pytest.raises(
        DeclarationError, match=f"Holding: the input of 'send' takes a Private or a plain text: {where}"
    ):
        declare(effect)
    with pytest.raises(DeclarationError, match="the receipt of 'send' takes a Private or a plain text: the whole"):
        declare(Effect[str, kind]("send", timeout=timedelta(seconds=5), doubt=Escalate()))


def test_a_private_beside_what_is_no_text_is_taken() -> None:
    declare(Effect[Letters, Private]("send", timeout=timedelta(seconds=5), doubt=Escalate()))


@workflow.defn(name="takes-both")
class TakesBoth(Lifecycle[str, Way]):
    """Its signal takes a text that is sealed or plain."""

    @workflow.signal
    def hear(self, text: Private | str) -> None: ...

    @workflow.run
    async def run(self, given: str) -> None: ...


def test_a_signal_of_a_text_beside_a_private_is_refused_before_it_is_sent() -> None:
    with pytest.raises(DeclarationError, match="TakesBoth: the signal 'hear' takes a Private or a plain text"):
        signal_text(Entity("takes-both", "1"), TakesBoth, "hear", "12 Road")
