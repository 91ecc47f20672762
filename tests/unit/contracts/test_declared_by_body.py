"""Effects, look-ups and steps that are declared by their bodies, and an app that finds what a module defines."""

from __future__ import annotations

import sys
from datetime import timedelta
from enum import StrEnum
from types import ModuleType
from typing import Any

import pytest
from pydantic import BaseModel
from temporalio import workflow

from perdure import (
    App,
    AskFirst,
    Attempt,
    Dedupe,
    Effect,
    InDoubt,
    Lifecycle,
    Lookup,
    LookupContext,
    OperatorRequest,
    Refused,
    Repeat,
    RetryPolicy,
    Step,
    StepContext,
    effect,
    lookup,
    state,
    step,
)
from perdure.contracts import RateLimit
from perdure.errors import DeclarationError, InvalidInput
from perdure.testing import At, WhenIn, WhenParked, WorkerLost, rehearse

SECOND = timedelta(seconds=1)
ANN = OperatorRequest(by="ann")


class Order(BaseModel):
    cents: int


class Charged(BaseModel):
    id: str


class Stage(StrEnum):
    NEW = "new"
    CHARGING = "charging"
    STUCK = state("stuck", attention=True)
    PAID = state("paid", final=True)
    CANCELLED = state("cancelled", cancelled=True)


@lookup(timeout=3 * SECOND)
async def find_charge(order: Order, context: LookupContext) -> Charged | None:
    return None


@effect(timeout=2 * SECOND, doubt=AskFirst(find_charge, visibility_delay=SECOND))
async def charge_card(order: Order, attempt: Attempt) -> Charged:
    return Charged(id=f"{order.cents}")


@step()
async def add_tax(order: Order, context: StepContext) -> int:
    return order.cents * 6 // 5


@workflow.defn(name="paying")
class Paying(Lifecycle[Order, Stage]):
    effects = (charge_card,)
    steps = (add_tax,)

    @workflow.run
    async def run(self, order: Order) -> None:
        total = await self.step(add_tax, order)
        charged = await self.perform_until_done(
            charge_card, Order(cents=total), entering=Stage.CHARGING, otherwise=Stage.STUCK
        )
        await self.enter(Stage.PAID, why=charged.id)


@workflow.defn(name="silent")
class Silent(Lifecycle[Order, Stage]):
    effects = (charge_card,)

    @workflow.run
    async def run(self, order: Order) -> None:
        await self.perform_until_done(charge_card, order, otherwise=Stage.NEW)


def module(**defined: Any) -> str:
    """Name of an imported module that holds these things."""
    made = ModuleType("shop_for_a_test")
    for name, thing in defined.items():
        setattr(made, name, thing)
    sys.modules[made.__name__] = made
    return made.__name__


def test_name_and_types_are_those_of_the_function() -> None:
    assert [repr(each) for each in (charge_card, find_charge, add_tax)] == [
        "Effect('charge-card')",
        "Lookup('find-charge')",
        "Step('add-tax')",
    ]
    assert isinstance(charge_card, Effect)
    assert isinstance(find_charge, Lookup)
    assert isinstance(add_tax, Step)
    assert charge_card.receipt.validate_python({"id": "1"}) == Charged(id="1")
    assert find_charge.receipt.json_schema() == charge_card.receipt.json_schema()
    assert add_tax.dump_input(Order(cents=5)) == {"cents": 5}
    assert add_tax.receipt.validate_python(5) == 5


def test_an_input_that_does_not_fit_is_refused() -> None:
    wrong: Any = {"cents": "many"}
    with pytest.raises(InvalidInput, match="charge-card: the input does not fit"):
        charge_card.dump_input(wrong)


def test_every_term_of_the_contract_can_be_given() -> None:
    slowly = RateLimit("slowly", per_second=1)
    retry = RetryPolicy(initial_interval=3 * SECOND)

    @effect(name="ring", timeout=SECOND, doubt=Repeat(), limit=slowly, retry=retry, aliases=("call",))
    async def ring_bell(bell: str, attempt: Attempt) -> None: ...

    assert (ring_bell.name, ring_bell.limit, ring_bell.retry, ring_bell.aliases) == ("ring", slowly, retry, ("call",))


def test_a_receipt_may_be_none() -> None:
    @effect(timeout=SECOND, doubt=Repeat())
    async def ring_bell(bell: str, attempt: Attempt) -> None: ...

    assert ring_bell.receipt.validate_python(None) is None


async def _untyped(order, attempt) -> Charged: ...  # type: ignore[no-untyped-def,empty-body]
async def _without_receipt(order: Order, attempt: Attempt): ...  # type: ignore[no-untyped-def]
async def _without_attempt(order: Order) -> Charged: ...  # type: ignore[empty-body]
async def _in_the_wrong_order(attempt: Attempt, order: Order) -> Charged: ...  # type: ignore[empty-body]
async def _of_unknown_type(order: Ordre, attempt: Attempt) -> Charged: ...  # type: ignore[name-defined,empty-body] # noqa: F821


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (_untyped, "_untyped must be annotated: `async def _untyped"),
        (_without_receipt, "_without_receipt must be annotated"),
        (_without_attempt, "_without_attempt must be annotated"),
        (_in_the_wrong_order, r"Effect\('charge'\): the input is <class '.*Attempt'>, which Pydantic can't validate"),
        (_of_unknown_type, "_of_unknown_type has a type that its module does not define: .*'Ordre'"),
    ],
)
def test_a_body_without_its_types_is_refused_when_the_lifecycle_is_made(body: Any, why: str) -> None:
    wrong = effect(name="charge", timeout=SECOND, doubt=Repeat())(body)

    async def run(self: Any, order: Order) -> None: ...

    run.__qualname__ = "Wrong.run"
    bases = {"__orig_bases__": (Lifecycle[Order, Stage],)}
    with pytest.raises(DeclarationError, match=why):
        type("Wrong", (Lifecycle,), {"effects": (wrong,), "run": workflow.run(run), **bases})


def test_terms_that_can_not_work_are_refused_at_the_function() -> None:
    with pytest.raises(DeclarationError, match=r"ring-bell: Dedupe\(window=0:00:02\) leaves no time"):

        @effect(timeout=SECOND, doubt=Dedupe(window=2 * SECOND))
        async def ring_bell(bell: str, attempt: Attempt) -> None: ...


class TestApp:
    def test_bodies_that_declare_their_contract_are_found(self) -> None:
        app = App([Paying])
        assert list(app.bodies) == ["charge-card", "find-charge", "add-tax"]
        assert app.bodies["charge-card"] == (charge_card, charge_card.body)

    def test_one_that_is_named_as_well_is_refused(self) -> None:
        named: Any = charge_card
        with pytest.raises(DeclarationError, match=r"Effect\('charge-card'\) is declared by its body.*: leave it out"):
            App([Paying], [named])

    def test_a_module_is_searched_for_what_it_defines(self) -> None:
        app = App.discover(__name__)
        assert list(app.lifecycles) == ["paying", "silent"]
        assert list(app.bodies) == ["charge-card", "find-charge", "add-tax"]

    def test_bodies_that_stand_apart_are_found_in_the_modules_that_are_named(self) -> None:
        app = App.discover("workflows.mail.mailing", "activities.mail.sendmail")
        assert (list(app.lifecycles), list(app.bodies)) == (["mailing"], ["sendmail", "find-sent-mail"])

    def test_what_a_module_imports_does_not_count(self) -> None:
        with pytest.raises(DeclarationError, match="no lifecycle is defined in shop_for_a_test"):
            App.discover(module(Paying=Paying))

    def test_a_base_class_is_no_lifecycle(self) -> None:
        class Base(Lifecycle[Any, Any]):
            """What two lifecycles of an application have in common."""

        Base.__module__ = "shop_for_a_test"

        with pytest.raises(DeclarationError, match="no lifecycle is defined in shop_for_a_test"):
            App.discover(module(Base=Base))

    def test_it_needs_a_module(self) -> None:
        with pytest.raises(DeclarationError, match="no lifecycle is defined in no module"):
            App.discover()


class TestPerformUntilDone:
    async def test_it_gives_the_receipt(self) -> None:
        seen = await rehearse(Paying, Order(cents=100), {charge_card: [Charged(id="1")], add_tax: [120]})
        assert seen.states == [Stage.CHARGING, Stage.PAID]

    @pytest.mark.parametrize("continue_as_new", [False, True])
    async def test_it_waits_for_a_person_each_time_that_it_ends_without_being_done(self, continue_as_new: bool) -> None:
        seen = await rehearse(
            Paying,
            Order(cents=100),
            {charge_card: [Refused("no"), Refused("never"), Charged(id="1")], add_tax: [120] * 9},
            messages=[WhenIn(Stage.STUCK, "retry_now", ANN), At(timedelta(hours=1), "retry_now", ANN)],
            allow_unused=True,
            renew_at_every_wait=continue_as_new,
        )
        assert seen.states == [Stage.CHARGING, Stage.STUCK, Stage.CHARGING, Stage.STUCK, Stage.CHARGING, Stage.PAID]
        assert seen.calls(charge_card) == 3

    async def test_a_doubt_is_settled_by_the_policy_and_not_by_the_state(self) -> None:
        seen = await rehearse(
            Paying, Order(cents=100), {charge_card: [InDoubt("cut")], find_charge: [Charged(id="1")], add_tax: [120]}
        )
        assert (seen.states, seen.calls(charge_card)) == ([Stage.CHARGING, Stage.PAID], 1)

    async def test_what_a_person_abandons_goes_to_that_state_and_can_be_cancelled_there(self) -> None:
        seen = await rehearse(
            Paying,
            Order(cents=100),
            {charge_card: [WorkerLost()], find_charge: [InDoubt("they do not answer")] * 500, add_tax: [120]},
            messages=[
                WhenParked("resolve", {"outcome": "abandoned", "by": "ann", "note": "written off"}),
                WhenIn(Stage.STUCK, "cancel", ANN),
            ],
            allow_unused=True,
        )
        assert seen.states == [Stage.CHARGING, Stage.STUCK, Stage.CANCELLED]

    async def test_a_state_that_calls_nobody_is_refused(self) -> None:
        with pytest.raises(DeclarationError, match="Silent: otherwise='new' would wait for a person whom nothing"):
            await rehearse(Silent, Order(cents=100), {})


def test_a_body_that_is_listed_takes_the_place_of_the_one_that_the_contract_declares() -> None:
    @charge_card.performs
    async def charges_nobody(order: Order, attempt: Attempt) -> Charged:
        return Charged(id="none")

    assert App([Silent], [charges_nobody]).bodies["charge-card"] == (charge_card, charges_nobody)
    assert App([Silent]).bodies["charge-card"] == (charge_card, charge_card.body)
