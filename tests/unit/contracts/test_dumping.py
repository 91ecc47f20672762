"""A value that Pydantic would write as null or as asterisks is refused; what a type writes, it reads."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Annotated, Any

import pytest
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    Secret,
    SecretBytes,
    SecretStr,
    SerializationInfo,
    TypeAdapter,
    ValidationError,
    field_serializer,
)
from temporalio import workflow

from perdure import Attempt, Effect, Entity, Lifecycle, Repeat, Step
from perdure.client.naming import input_text
from perdure.contracts.attempt import boot_clock
from perdure.contracts.dumping import dump, load
from perdure.contracts.keys import Key
from perdure.errors import InvalidInput
from tests.apps.large import Stage
from tests.apps.numbers import Measured, Numbers


class Loose(BaseModel):
    """Takes None where it takes a number."""

    price: float | None = None
    rows: list[dict[str, Any]] = []


class AsText(BaseModel):
    """Its author has chosen text for such numbers."""

    model_config = ConfigDict(ser_json_inf_nan="strings")

    price: float


class AsConstant(BaseModel):
    """PostgreSQL has no such constants."""

    model_config = ConfigDict(ser_json_inf_nan="constants")

    price: float


class ForJson(BaseModel):
    """Its serializer is for JSON alone, and reads the context that sealed data has."""

    price: float

    @field_serializer("price")
    def as_text(self, price: float, info: SerializationInfo) -> str:
        """See the class."""
        if info.mode != "json":
            raise RuntimeError("only JSON")
        return f"{price} {(info.context or {})['currency']}"


def effect(kind: Any) -> Effect[Any, None]:
    """An effect with this input."""
    return Effect[kind, None]("pay", timeout=timedelta(seconds=5), doubt=Repeat())


def step(kind: Any) -> Step[Any, None]:
    """A step with this input."""
    return Step[kind, None]("count")


@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan])
@pytest.mark.parametrize(
    ("kind", "given", "place"),
    [
        (float, lambda number: number, "the whole"),
        (Loose, lambda number: Loose(price=number), "price"),
        (Loose, lambda number: Loose(rows=[{}, {"due": number, "a b": 1}]), "rows.1.due"),
        (dict[str, Any], lambda number: {"a": ({"no name": number},)}, r"a.0.\*"),
        (Any, lambda number: number, "the whole"),
        (AsConstant, lambda number: AsConstant(price=number), "price"),
        (deque[float], lambda number: deque([1.0, number]), "1"),
    ],
)
def test_an_input_with_a_number_that_json_does_not_have_is_refused(
    kind: Any, given: Any, place: str, number: float
) -> None:
    with pytest.raises(InvalidInput, match=f"^pay: .*: {place} is Infinity or NaN, which JSON does not have: give "):
        effect(kind).dump_input(given(number))
    with pytest.raises(InvalidInput, match=f"{place} is Infinity or NaN"):
        Step[kind, None]("count").dump_input(given(number))


def test_a_type_that_writes_such_a_number_as_text_keeps_it() -> None:
    pay = effect(AsText)
    data = pay.dump_input(AsText(price=math.inf))
    assert data == {"price": "Infinity"}
    assert pay.input.validate_python(data) == AsText(price=math.inf)


def test_the_input_of_a_start_is_refused_where_its_type_leaves_the_number_open() -> None:
    with pytest.raises(InvalidInput, match=r"^numbers: .*: more is Infinity or NaN"):
        input_text(Entity("numbers", "a"), Numbers, Measured(what="", more=math.nan))


class Login(BaseModel):
    """Pydantic writes asterisks for the password."""

    password: SecretStr


class WritesPassword(Login):
    """The same, mended."""

    @field_serializer("password", when_used="json")
    def as_text(self, password: SecretStr) -> str:
        """See the class."""
        return password.get_secret_value()


@pytest.mark.parametrize("contract", [effect, step])
@pytest.mark.parametrize(
    ("kind", "given", "place"),
    [
        (SecretStr, SecretStr("s3"), "the whole"),
        (dict[str, list[SecretBytes]], {"a": [SecretBytes(b""), SecretBytes(b"s3")]}, "a.1"),
        (Secret[int], Secret[int](3), "the whole"),
        (Login, Login(password=SecretStr("s3")), "password"),
        (Any, {"logins": [Login(password=SecretStr("s3"))]}, r"logins\.0\.password"),
    ],
)
def test_an_input_that_would_become_asterisks_is_refused(contract: Any, kind: Any, given: Any, place: str) -> None:
    with pytest.raises(InvalidInput, match=f": {place} is a secret that Pydantic writes as asterisks: declare `Priv"):
        contract(kind).dump_input(given)


@pytest.mark.parametrize("contract", [effect, step])
def test_a_secret_that_its_type_writes_is_kept(contract: Any) -> None:
    login = WritesPassword(password=SecretStr("s3"))
    data = contract(WritesPassword).dump_input(login)
    assert data == {"password": "s3"}
    assert load(contract(WritesPassword).input, data) == login
    assert contract(SecretStr).dump_input(SecretStr("")) == ""


async def test_progress_and_lookup_hints_with_such_a_number_are_refused() -> None:
    key = Key.of(Entity("numbers", "a"), "pay")
    attempt = Attempt(key, number=1, first_at=None, ends_at=boot_clock() + 60)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match=r"the progress can't be kept: at.0 is Infinity or NaN"):
        attempt.heartbeat({"at": [math.nan]})
    with pytest.raises(InvalidInput, match="the lookup_hint can't be kept: the whole is Infinity or NaN"):
        await attempt.note(math.inf)
    for given in (object(), "\ud800", {"a": [object()]}):
        with pytest.raises(InvalidInput, match=r"^numbers/a/pay: the progress is no JSON data"):
            attempt.heartbeat(given)
        with pytest.raises(InvalidInput, match=r"^numbers/a/pay: the lookup_hint is no JSON data"):
            await attempt.note(given)
    assert (attempt.latest, attempt.lookup_hint) == (None, None)


def test_a_serializer_that_is_for_json_alone_loses_no_receipt() -> None:
    data = dump(TypeAdapter(ForJson).serializer, ForJson(price=1.5), context={"currency": "EUR"})
    assert data == {"price": "1.5 EUR"}


def test_text_that_a_union_takes_as_text_stays_text() -> None:
    either: TypeAdapter[datetime | str] = TypeAdapter(datetime | str)
    assert load(either, "2030-01-01T00:00:00Z") == "2030-01-01T00:00:00Z"


def test_a_strict_type_takes_its_json_data() -> None:
    day: TypeAdapter[date] = TypeAdapter(date, config=ConfigDict(strict=True))
    assert load(day, "2030-01-01") == date(2030, 1, 1)
    with pytest.raises(ValidationError):
        load(day, 5)


class Aliased(BaseModel):
    """Writes the name of the field, and reads its alias alone."""

    first: int = Field(alias="theFirst")


class ReadsAliases(Aliased):
    """The same, mended."""

    model_config = ConfigDict(serialize_by_alias=True)


@pytest.mark.parametrize("contract", [effect, step])
def test_an_input_that_its_type_does_not_read_back_is_refused(contract: Any) -> None:
    with pytest.raises(InvalidInput, match=r"does not read what it writes \(theFirst: Field required\): let it, "):
        contract(Aliased).dump_input(Aliased(theFirst=3))
    assert contract(ReadsAliases).dump_input(ReadsAliases(theFirst=3)) == {"theFirst": 3}


@workflow.defn(name="given", sandboxed=False)
class Given(Lifecycle[Aliased, Stage]):
    """Takes such an input."""

    @workflow.run
    async def run(self, given: Aliased) -> None:
        """Work."""
        await self.enter(Stage.OVER)


def test_an_input_of_a_lifecycle_that_its_type_does_not_read_back_is_refused() -> None:
    with pytest.raises(
        InvalidInput, match=r"the input does not fit: its type does not read what it writes \(theFirst: "
    ):
        input_text(Entity("given", "a"), Given, Aliased(theFirst=3))


class Forgetful(BaseModel):
    """Reads its default in place of what it writes."""

    name: str = Field("", alias="theName")
    loud: Annotated[str, AfterValidator(lambda text: text + "!")] = "."


class Varied(BaseModel):
    """Has what compares unequal, or is written in another order, and is read all the same."""

    names: set[str] = set()
    ratio: Annotated[float, Field(allow_inf_nan=True)] = 0.0
    any: Any = None
    model_config = ConfigDict(ser_json_inf_nan="strings")


@pytest.mark.parametrize("given", [Forgetful(theName="ann"), Forgetful(loud="a")])
def test_what_a_type_loses_when_it_reads_is_refused(given: Forgetful) -> None:
    adapter = TypeAdapter(Forgetful)
    with pytest.raises(InvalidInput, match="does not read what it writes, or not all of it: let it, as with"):
        dump(adapter.serializer, given, reader=adapter)


@pytest.mark.parametrize(
    "given",
    [
        Varied(names={f"{number}" for number in range(100)}),
        Varied(ratio=math.nan),
        Varied(any=(1, deque([2]))),
    ],
)
def test_what_a_type_reads_in_another_form_is_taken(given: Varied) -> None:
    adapter = TypeAdapter(Varied)
    assert adapter.validate_python(dump(adapter.serializer, given, reader=adapter)).names == given.names


class Scan(BaseModel):
    """Has bytes, which need not be text."""

    pages: list[bytes]


class ScanAsText(Scan):
    """The same, mended."""

    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")


@pytest.mark.parametrize("contract", [effect, step])
def test_bytes_that_are_no_text_are_named(contract: Any) -> None:
    pages = [b"text", b"\xff\xfe"]
    with pytest.raises(InvalidInput, match=r": pages.1 has bytes that are no UTF-8: declare ser_json_bytes="):
        contract(Scan).dump_input(Scan(pages=pages))
    with pytest.raises(InvalidInput, match=r": the whole has bytes that are no UTF-8"):
        contract(bytes).dump_input(b"\xff")
    data = contract(ScanAsText).dump_input(ScanAsText(pages=pages))
    assert load(contract(ScanAsText).input, data) == ScanAsText(pages=pages)


class Method(BaseModel):
    """A way to pay."""

    kind: str


class Card(Method):
    """Has a field that `Method` does not write."""

    cents: int


class Hidden(BaseModel):
    """Has a field that nothing writes."""

    cents: int = Field(default=0, exclude=True)


class Noted(Method):
    """Takes fields that it does not declare."""

    model_config = ConfigDict(extra="allow")


@dataclass
class Parcel:
    """A dataclass, for which the same holds."""

    number: int


@dataclass
class Labelled(Parcel):
    """Has a field that `Parcel` does not write."""

    label: str = ""


class Pay(BaseModel):
    """Declares the class, and gets a subclass."""

    method: Method | None = None
    methods: dict[str, list[Method]] = {}
    hidden: tuple[Hidden, ...] = ()
    parcel: Parcel = Parcel(1)
    more: Any = None


@pytest.mark.parametrize("contract", [effect, step])
@pytest.mark.parametrize(
    ("given", "place"),
    [
        (Pay(method=Card(kind="card", cents=500)), "method.cents"),
        (Pay(methods={"a b": [Method(kind="x"), Card(kind="card", cents=500)]}), r"methods.\*.1.cents"),
        (Pay(method=Noted(kind="card", cents=500)), "method.cents"),  # type: ignore[call-arg]
        (Pay(hidden=(Hidden(cents=500),)), "hidden.0.cents"),
        (Pay(parcel=Labelled(1, "fragile")), "parcel.label"),
    ],
)
def test_an_input_with_a_field_that_is_not_written_is_refused(contract: Any, given: Pay, place: str) -> None:
    with pytest.raises(InvalidInput, match=f": {place} is not written: declare the class that has this field, or a un"):
        contract(Pay).dump_input(given)


def test_the_input_of_a_start_is_refused_where_a_subclass_would_lose_a_field() -> None:
    with pytest.raises(InvalidInput, match=r"^paid: .*: method.cents is not written"):
        input_text(Entity("paid", "a"), Paid, Pay(method=Card(kind="card", cents=500)))


@workflow.defn(name="paid", sandboxed=False)
class Paid(Lifecycle[Pay, Stage]):
    """Takes such an input."""

    @workflow.run
    async def run(self, given: Pay) -> None:
        """Work."""
        await self.enter(Stage.OVER)


class Cash(Method):
    """Has no field of its own."""


class Either(BaseModel):
    """Declares each class."""

    method: Card | Cash | Method


@pytest.mark.parametrize(
    "given",
    [
        Pay(method=Cash(kind="cash"), hidden=(Hidden(),)),
        Pay(more=[Card(kind="card", cents=500), Labelled(1, "fragile")]),
        Either(method=Card(kind="card", cents=500)),
    ],
)
def test_a_subclass_that_loses_no_field_is_taken(given: Pay | Either) -> None:
    data = effect(type(given)).dump_input(given)
    assert load(effect(type(given)).input, data).model_dump(mode="json") == given.model_dump(mode="json")
