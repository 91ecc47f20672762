"""A wrong contract is refused when it is declared, or when a worker starts with it."""

from __future__ import annotations

import copy
import functools
import json
import math
import pickle
from collections.abc import Callable, Coroutine
from datetime import timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any

import pytest
from pydantic import BaseModel, TypeAdapter

from perdure import App, AskFirst, Attempt, Dedupe, Effect, Escalate, Lookup, LookupContext, Repeat, RetryPolicy, state
from perdure.contracts import RateLimit
from perdure.contracts.effects import contract_of
from perdure.contracts.outcomes import InDoubt, NotDone, Refused
from perdure.contracts.spans import LONGEST
from perdure.contracts.states import States
from perdure.errors import DeclarationError, InvalidEntity, InvalidInput, UnknownLifecycle
from tests.apps import contracts as tests_contracts
from tests.apps.bookings import LookupBooking
from tests.apps.bookings import Repeat as RepeatBooking
from tests.apps.contracts import REGULAR, Booking, Ticket


class Shipping(StrEnum):
    SHIPPED = "shipped"


class Parcel(BaseModel):
    street: str
    weight: float = 1.0


class Slip(BaseModel):
    number: int


def effect(**more: Any) -> Effect[Parcel, Slip]:
    return Effect[Parcel, Slip](**{"name": "ship", "timeout": timedelta(seconds=5), "doubt": Escalate(), **more})


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"timeout": timedelta(seconds=0)}, "ship: timeout=0:00:00 must be more than zero"),
        ({"inline": True, "task_queue": "q"}, "task_queue='q' can't be kept"),
        ({"doubt": Dedupe(window=timedelta(seconds=65))}, "leaves no time for a second attempt"),
        (
            {"doubt": Dedupe(window=timedelta(seconds=25), margin=timedelta(seconds=20))},
            "leaves no time for a second attempt",
        ),
        ({"heartbeat_timeout": timedelta(seconds=0.5)}, "too short to tell a lost worker from a slow one"),
        ({"timeout": timedelta.max}, "ship: timeout=.* must be from 0 to 36500 days"),
        ({"heartbeat_timeout": timedelta.max}, "ship: heartbeat_timeout=.* must be from 0 to 36500 days"),
        (
            {"schedule_to_start_timeout": timedelta(days=-1)},
            "ship: schedule_to_start_timeout=.* must be from 0 to 36500 days",
        ),
    ],
)
def test_an_effect_that_can_not_work_is_refused(more: dict[str, Any], why: str) -> None:
    with pytest.raises(DeclarationError, match=why):
        effect(**more)


@pytest.mark.parametrize(
    "declare",
    [
        lambda far: Dedupe(window=far),
        lambda far: Dedupe(window=timedelta(seconds=90), margin=far),
        lambda far: AskFirst(Lookup[Parcel, Slip]("find"), visibility_delay=far),
        lambda far: AskFirst(Lookup[Parcel, Slip]("find"), visibility_delay=timedelta(seconds=1), every=far),
        lambda far: RetryPolicy(maximum_interval=far),
        lambda far: Lookup[Parcel, Slip]("find", timeout=far),
        lambda far: state("shipped", within=far),
    ],
)
def test_a_time_that_no_clock_can_hold_is_refused_where_it_is_declared(
    declare: Callable[[timedelta], object],
) -> None:
    with pytest.raises(DeclarationError, match="must be from 0 to 36500 days"):
        declare(timedelta(days=36_501))
    declare(timedelta(days=36_500))


ASKS: Any = functools.partial(AskFirst, lookup=Lookup("find"), visibility_delay=timedelta(seconds=1))


@pytest.mark.parametrize(
    ("declare", "given", "why"),
    [
        (effect, {"timeout": 10}, "ship: timeout=10 is of type int: it must be of type timedelta"),
        (effect, {"timeout": None}, "ship: timeout=None is of type NoneType: it must be of type timedelta"),
        (effect, {"heartbeat_timeout": 5}, "ship: heartbeat_timeout=5 is of type int"),
        (effect, {"schedule_to_start_timeout": "1"}, "ship: schedule_to_start_timeout='1' is of type str"),
        (effect, {"doubt": Escalate}, r"ship: doubt=.*Escalate'> is a class: .* Dedupe or AskFirst or Repeat or "),
        (effect, {"doubt": "repeat"}, "ship: doubt='repeat' is of type str"),
        (effect, {"doubt": ASKS(lookup=print)}, "ship: AskFirst: lookup=.* is of type builtin_.*: .* of type Lookup"),
        (effect, {"retry": 3}, "ship: retry=3 is of type int: it must be of type RetryPolicy or None"),
        (effect, {"limit": 3}, "ship: limit=3 is of type int: it must be of type RateLimit or None"),
        (Lookup, {"name": "find", "timeout": 5}, "find: timeout=5 is of type int"),
        (Dedupe, {"window": 3600}, "Dedupe: window=3600 is of type int"),
        (Dedupe, {"window": timedelta(1), "otherwise": Repeat}, "Dedupe: otherwise=.*Repeat'> is a class"),
        (ASKS, {"every": 1}, "AskFirst: every=1 is of type int"),
        (ASKS, {"misses": "1"}, "AskFirst: misses='1' is of type str: it must be of type int"),
        (ASKS, {"tries": "1"}, "AskFirst: tries='1' is of type str: it must be of type int or None"),
        (ASKS, {"otherwise": "repeat"}, "AskFirst: otherwise='repeat' is of type str"),
        (RetryPolicy, {"initial_interval": 1}, "RetryPolicy: initial_interval=1 is of type int"),
        (RetryPolicy, {"maximum_attempts": "3"}, "RetryPolicy: maximum_attempts='3' is of type str"),
        (RetryPolicy, {"jitter": "0"}, "RetryPolicy: jitter='0' is of type str: it must be of type float or int"),
        (RateLimit, {"name": "a", "per_second": "1"}, r"RateLimit\('a', ...\): per_second='1' is of type str"),
        (state, {"name": "new", "within": 300}, r"state\('new', ...\): within=300 is of type int"),
        (App, {"lifecycles": RepeatBooking}, "App: lifecycles=.*repeat.Repeat'> is a class: .* of type Sequence"),
        (App, {"lifecycles": [5]}, "5 is no lifecycle: give a class that derives from Lifecycle"),
        (App, {"lifecycles": [RepeatBooking], "effects": print}, "App: effects=<.*> is of type builtin_"),
    ],
)
def test_an_argument_of_another_type_is_named(declare: Any, given: dict[str, Any], why: str) -> None:
    with pytest.raises(DeclarationError, match=why):
        declare(**given)


@pytest.mark.parametrize("name", ["", "Ship", "ship it", "ship/it", "x" * 64, 5, None])
def test_a_name_that_can_not_stand_in_a_key_is_refused(name: str) -> None:
    with pytest.raises(InvalidEntity, match=r"effect .* can't be used as a name"):
        effect(name=name)
    with pytest.raises(InvalidEntity, match=r"lookup .* can't be used as a name"):
        Lookup[Parcel, Slip](name)


def test_a_dedupe_that_leaves_time_is_taken() -> None:
    assert effect(doubt=Dedupe(window=timedelta(seconds=66))).doubt == Dedupe(window=timedelta(seconds=66))


@pytest.mark.parametrize("wrong", [{"misses": 0}, {"tries": 0}])
def test_a_look_up_that_would_never_be_asked_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(DeclarationError, match="both must be at least 1"):
        AskFirst(Lookup[Parcel, Slip]("find"), visibility_delay=timedelta(seconds=1), **wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "wrong",
    [
        {"initial_interval": timedelta(seconds=0)},
        {"initial_interval": timedelta(seconds=9), "maximum_interval": timedelta(seconds=8)},
        {"backoff_coefficient": 0.9},
        {"jitter": -0.1},
        {"jitter": 1.1},
        {"maximum_attempts": 0},
    ],
)
def test_a_retry_that_can_not_work_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(DeclarationError, match=r"RetryPolicy\(.*needs"):
        RetryPolicy(**wrong)


def test_an_input_is_dumped_as_json_data() -> None:
    loose: Any = {"street": "Elm"}
    for given in (Parcel(street="Elm"), loose):
        assert effect().dump_input(given) == {"street": "Elm", "weight": 1.0}


@pytest.mark.parametrize("given", [{"weight": 2}, "Elm", None])
def test_an_input_that_does_not_fit_is_refused_without_its_value(given: Any) -> None:
    with pytest.raises(InvalidInput, match="ship: the input does not fit") as caught:
        effect().dump_input(given)
    assert "Elm" not in str(caught.value)


def test_a_contract_knows_its_types_its_look_up_and_its_module() -> None:
    find = Lookup[Parcel, Slip]("find")
    one = effect(doubt=AskFirst(find, visibility_delay=timedelta(seconds=1)))
    assert one.lookup is find
    assert effect().lookup is None
    assert one.receipt.validate_python({"number": 3}) == Slip(number=3)
    # workers pass it through the sandbox
    assert (one.module, REGULAR["lookup"].module) == (__name__, tests_contracts.__name__)


def test_a_body_is_bound_and_stays_the_function_that_it_was() -> None:
    one = effect()

    async def ship(parcel: Parcel, attempt: Attempt) -> Slip:
        return Slip(number=attempt.number)

    assert one.performs(ship) is ship
    assert contract_of(ship) is one


def body_of(contract: Effect[Booking, Ticket]) -> Any:
    async def body(booking: Booking, attempt: Attempt) -> Ticket:
        return Ticket(number=1)

    return contract.performs(body)


def finder_of(contract: Any) -> Any:
    async def finder(booking: Booking, question: LookupContext) -> Ticket | None:
        return None

    return contract.answers(finder)


class TestApp:
    """A worker whose app does not fit together does not start."""

    def test_one_that_fits_is_taken(self) -> None:
        app = App([LookupBooking], [body_of(REGULAR["lookup"]), finder_of(REGULAR["lookup"].lookup)])
        assert app.lifecycle("lookup") is LookupBooking
        assert set(app.bodies) == {"do-lookup", "find-booking"}

    def test_an_effect_without_its_body_is_refused(self) -> None:
        with pytest.raises(DeclarationError, match=r"Effect\('do-repeat'\) of 'repeat' has no body: .* its .performs"):
            App([RepeatBooking], [])

    def test_a_look_up_without_its_body_is_refused(self) -> None:
        with pytest.raises(
            DeclarationError, match=r"Lookup\('find-booking'\) of 'lookup' has no body: .* its .answers"
        ):
            App([LookupBooking], [body_of(REGULAR["lookup"])])

    def test_a_body_without_its_contract_is_refused(self) -> None:
        async def loose(booking: Booking, attempt: Attempt) -> Ticket:
            return Ticket(number=1)

        with pytest.raises(DeclarationError, match="loose is bound to no contract"):
            App([RepeatBooking], [loose])

    def test_a_body_that_is_not_async_is_refused(self) -> None:
        def blocking(booking: Booking, attempt: Attempt) -> Ticket:
            return Ticket(number=1)

        class Called:
            def __call__(self, booking: Booking, attempt: Attempt) -> Ticket:
                return Ticket(number=1)

        for body in (blocking, functools.partial(blocking), Called()):
            REGULAR["repeat"].performs(body)  # type: ignore[arg-type]
            with pytest.raises(
                DeclarationError, match=r"Effect\('do-repeat'\): .*(blocking|__call__) is not async: write `async def`"
            ):
                App([RepeatBooking], [body])

    def test_a_body_that_can_not_take_its_arguments_is_refused(self) -> None:
        async def without_attempt(booking: Booking) -> Ticket: ...  # type: ignore[empty-body]
        async def of_three(booking: Booking, attempt: Attempt, more: int) -> Ticket: ...  # type: ignore[empty-body]
        async def by_name(booking: Booking, *, attempt: Attempt) -> Ticket: ...  # type: ignore[empty-body]

        for body in (without_attempt, of_three, by_name):
            REGULAR["repeat"].performs(body)  # type: ignore[arg-type]
            name = body.__name__
            why = rf"Effect\('do-repeat'\): .*{name} can't take two arguments: write `async def {name}\(given, att"
            with pytest.raises(DeclarationError, match=why):
                App([RepeatBooking], [body])

    def test_a_decorator_may_give_a_body_more_arguments(self) -> None:
        async def of_three(client: Any, booking: Booking, attempt: Attempt) -> Ticket: ...  # type: ignore[empty-body]

        @functools.wraps(of_three)
        def with_client(booking: Booking, attempt: Attempt) -> Coroutine[Any, Any, Ticket]:
            return of_three(None, booking, attempt)

        for body in (with_client, functools.partial(of_three, None)):
            App([RepeatBooking], [REGULAR["repeat"].performs(body)])

    def test_a_body_that_returns_a_coroutine_is_taken(self) -> None:
        async def book(booking: Booking, attempt: Attempt) -> Ticket:
            return Ticket(number=1)

        def passes(booking: Booking, attempt: Attempt) -> Coroutine[Any, Any, Ticket]:
            return book(booking, attempt)

        @functools.wraps(passes)
        def decorated(*given: Any) -> Any:
            return passes(*given)

        class Called:
            async def __call__(self, booking: Booking, attempt: Attempt) -> Ticket:
                return await book(booking, attempt)

        for body in (book, functools.partial(book), passes, decorated, Called(), lambda *given: book(*given)):
            assert App([RepeatBooking], [REGULAR["repeat"].performs(body)]).bodies["do-repeat"][1] is body

    def test_a_body_that_nobody_needs_is_refused(self) -> None:
        with pytest.raises(DeclarationError, match="performs 'do-escalate', which no lifecycle of this app declares"):
            App([RepeatBooking], [body_of(REGULAR["repeat"]), body_of(REGULAR["escalate"])])

    def test_two_bodies_of_one_effect_are_refused(self) -> None:
        with pytest.raises(DeclarationError, match=r"Effect\('do-repeat'\) has two bodies"):
            App([RepeatBooking], [body_of(REGULAR["repeat"]), body_of(REGULAR["repeat"])])

    def test_a_body_of_a_namesake_is_refused(self) -> None:
        namesake = Effect[Booking, Ticket]("do-repeat", timeout=timedelta(minutes=1), doubt=Repeat())
        with pytest.raises(DeclarationError, match="is bound to another contract named 'do-repeat'"):
            App([RepeatBooking], [body_of(namesake)])

    def test_one_lifecycle_twice_is_refused(self) -> None:
        with pytest.raises(DeclarationError, match="two lifecycles have the same name"):
            App([RepeatBooking, RepeatBooking], [body_of(REGULAR["repeat"])])

    def test_an_unknown_lifecycle_is_named_with_the_nearest(self) -> None:
        with pytest.raises(UnknownLifecycle, match="no lifecycle is named 'repaet'; did you mean 'repeat'"):
            App([RepeatBooking], [body_of(REGULAR["repeat"])]).lifecycle("repaet")


class Mending(StrEnum):
    NEW = state("new", leads_to=("broken",))
    BROKEN = state("broken", leads_to=("mended",))
    MENDED = state("mended", leads_to=("broken", "gone"))
    GONE = state("gone", final=True)
    CANCELLED = state("cancelled", cancelled=True)


@pytest.mark.parametrize(
    ("before", "after", "leads"),
    [
        (Mending.NEW, Mending.GONE, True),
        (Mending.BROKEN, Mending.BROKEN, True),
        (Mending.MENDED, Mending.CANCELLED, True),
        (Mending.MENDED, Mending.NEW, False),
        (Mending.NEW, Mending.NEW, False),
        (Mending.GONE, Mending.CANCELLED, False),
    ],
)
def test_a_state_leads_to_all_that_may_follow_over_others(before: Mending, after: Mending, leads: bool) -> None:
    assert States("mending", Mending).leads(before, after) is leads


class Sorting(StrEnum):
    NEW = "new"
    SORTING = "sorting"
    HELD = state("held", attention=True)
    DONE = state("done", final=True)
    CANCELLED = state("cancelled", cancelled=True)


@pytest.mark.parametrize(
    ("before", "followers"),
    [
        (Sorting.NEW, [Sorting.SORTING, Sorting.HELD, Sorting.DONE, Sorting.CANCELLED]),
        (Sorting.SORTING, [Sorting.HELD, Sorting.DONE, Sorting.CANCELLED]),
        (Sorting.HELD, [Sorting.SORTING, Sorting.DONE, Sorting.CANCELLED]),
        (Sorting.DONE, []),
        (Sorting.CANCELLED, []),
    ],
)
def test_a_state_leads_to_those_below_it_where_nothing_is_declared(before: Sorting, followers: list[Sorting]) -> None:
    """From one that needs a person it goes on wherever that person decides, but not to the start."""
    assert list(States("sorting", Sorting).followers(before)) == followers


def test_a_marked_member_is_a_member_like_any_other() -> None:
    assert Sorting.DONE == Sorting("done") == "done"
    assert json.dumps({Sorting.DONE: [Sorting.DONE, Sorting.DONE.value]}) == '{"done": ["done", "done"]}'
    assert pickle.loads(pickle.dumps(Sorting.DONE)) is copy.deepcopy(Sorting.DONE) is Sorting.DONE
    assert TypeAdapter(Sorting).validate_json('"done"') is Sorting.DONE


@pytest.mark.parametrize("outcome", [NotDone, Refused, InDoubt])
def test_an_outcome_takes_an_exception_for_its_text(outcome: type[NotDone | Refused | InDoubt]) -> None:
    assert outcome(OSError("no route to host")).why == "no route to host"


def test_a_number_of_seconds_is_a_pause() -> None:
    assert NotDone("busy", retry_after=30).retry_after == timedelta(seconds=30)


@pytest.mark.parametrize(
    ("seconds", "pause"), [(math.inf, LONGEST), (1e300, LONGEST), (math.nan, None), (-math.inf, None), (-1, None)]
)
def test_a_number_that_is_no_pause_destroys_no_outcome(seconds: float, pause: timedelta | None) -> None:
    assert NotDone("busy", retry_after=seconds).retry_after == pause


@pytest.mark.parametrize(
    ("given", "pause"),
    [("30", timedelta(seconds=30)), ("Wed, 21 Oct 2026 07:28:00 GMT", None), (Decimal(30), timedelta(seconds=30))],
)
def test_a_header_that_is_no_pause_destroys_no_outcome(given: Any, pause: timedelta | None) -> None:
    assert NotDone("busy", retry_after=given).retry_after == pause
