"""A wrong declaration, call or update of a lifecycle is refused with a sentence that gives the reason."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

import pytest
from pydantic import BaseModel
from temporalio import workflow

from perdure import (
    Done,
    Effect,
    Escalate,
    Expired,
    GaveUp,
    InDoubt,
    Lifecycle,
    NotDone,
    NotPerformed,
    OperatorRequest,
    Refused,
    Repeat,
    RetryPolicy,
    state,
)
from perdure._operations.diagram import diagram
from perdure.client import Resolution, SendAgain
from perdure.contracts import EffectStatus
from perdure.errors import DeclarationError, InvalidInput
from perdure.testing import (
    CANCEL_WORKFLOW,
    START,
    After,
    At,
    Rehearsal,
    When,
    WhenBlocked,
    WhenIn,
    WhenParked,
    WorkerLost,
    rehearse,
)

ANN = OperatorRequest(by="ann", note="on the phone")
STEADY = RetryPolicy(
    initial_interval=timedelta(seconds=1), backoff_coefficient=2, maximum_interval=timedelta(seconds=8), jitter=0
)


class Step(StrEnum):
    NEW = state("new", leads_to=("going", "held"))
    GOING = state("going", leads_to=("done", "held"))
    HELD = state("held", leads_to=("going",), attention=True)
    DONE = state("done", final=True)
    OFF = state("off", cancelled=True)


class Other(StrEnum):
    GONIG = "gonig"
    DONE = state("done", final=True)


class Order(BaseModel):
    """How the lifecycle below goes about it."""

    how: str = "once"
    lasts: float = 0.0


SEND = Effect[Order, int]("send", timeout=timedelta(seconds=10), doubt=Escalate(), retry=STEADY)
RING = Effect[Order, int]("ring", timeout=timedelta(seconds=10), doubt=Repeat(), retry=STEADY)
STRANGER = Effect[Order, int]("stranger", timeout=timedelta(seconds=10), doubt=Repeat())
LIMITED = Effect[Order, int](
    "limited",
    timeout=timedelta(seconds=10),
    doubt=Repeat(),
    retry=RetryPolicy(initial_interval=timedelta(seconds=1), jitter=0, maximum_attempts=2),
)


OVER, CANCELLED = state("over", final=True), state("cancelled", cancelled=True)


def named(states: list[str]) -> type[StrEnum]:
    """An enum of these."""
    make: Any = StrEnum
    found: type[StrEnum] = make("Named", {each.upper(): each for each in states})
    return found


WRONG: Any = {"lasts": "Ruled"}


@workflow.defn(name="ruled")
class Ruled(Lifecycle[Order, Step]):
    """Does as its order says, mostly wrong things."""

    effects = (SEND, RING, LIMITED)

    @workflow.run
    async def run(self, order: Order) -> None:
        ways: dict[str, Callable[[Order], Any]] = {
            "once": self._until_done,
            "twice at once": self._twice_at_once,
            "both": self._both,
            "stranger": lambda order: self.perform(STRANGER, order),
            "wrong input": lambda _: self.perform(SEND, WRONG),
            "too far": lambda _: self.enter(Step.DONE),
            "too far with it": lambda order: self.perform(SEND, order, entering=Step.DONE),
            "undeclared": lambda _: self.enter(Other.GONIG),  # type: ignore[arg-type]
            "final beside": self._final_beside,
            "final with it": self._final_with_it,
            "stops short": lambda _: self.enter(Step.GOING),
            "limited": self._limited,
            "one left behind": self._one_left_behind,
            "two until done": self._two_until_done,
            "each until done": self._each_until_done,
        }
        await ways[order.how](order)

    async def _until_done(self, order: Order) -> None:
        expires_at = workflow.now() + timedelta(seconds=order.lasts) if order.lasts else None
        while True:
            match await self.perform(SEND, order, entering=Step.GOING, expires_at=expires_at):
                case Done(receipt):
                    return await self.enter(Step.DONE, why=f"number {receipt}")
                case NotPerformed(why) as end:
                    await self.enter(Step.HELD, why=f"{type(end).__name__}: {why}, in doubt: {end.in_doubt}")
                    await self.retry_requested()

    async def _twice_at_once(self, order: Order) -> None:
        await asyncio.gather(self.perform(RING, order), self.perform(RING, order))

    async def _both(self, order: Order) -> None:
        await self.enter(Step.GOING)
        await asyncio.gather(self.perform(SEND, order), self.perform(RING, order))
        await self.enter(Step.DONE)

    async def _final_beside(self, order: Order) -> None:
        await self.enter(Step.GOING)
        ringing = asyncio.create_task(self.perform(RING, order))
        await asyncio.sleep(0)
        await self.enter(Step.DONE)
        await ringing

    async def _final_with_it(self, order: Order) -> None:
        await self.enter(Step.GOING)
        await self.perform(SEND, order, entering=Step.DONE)

    async def _limited(self, order: Order) -> None:
        while not isinstance(end := await self.perform(LIMITED, order, entering=Step.GOING), Done):
            assert isinstance(end, GaveUp)
            await self.enter(Step.HELD, why=end.why)
            await self.retry_requested()
        await self.wait_until(START + timedelta(hours=1))
        await self.enter(Step.DONE)

    async def _one_left_behind(self, order: Order) -> None:
        await self.perform(RING, order, expires_at=START)
        await self._until_done(order)

    async def _each_until_done(self, order: Order) -> None:
        async def until_done(effect: Effect[Order, int]) -> None:
            while not isinstance(await self.perform(effect, order), Done):
                await self.retry_requested()

        await self.enter(Step.GOING)
        await asyncio.gather(until_done(SEND), until_done(RING))
        await self.enter(Step.DONE)

    async def _two_until_done(self, order: Order) -> None:
        while True:
            ends = await asyncio.gather(self.perform(SEND, order), self.perform(LIMITED, order))
            if isinstance(ends[1], Done):
                await self.enter(Step.GOING)
                return await self.enter(Step.DONE)
            await self.retry_requested()


async def ruled(how: str, script: dict[Any, list[Any]], *messages: Any, lasts: float = 0.0) -> Rehearsal[Step]:
    return await rehearse(Ruled, Order(how=how, lasts=lasts), script, messages=messages, allow_unused=True)


def decorated(run: Any) -> Any:
    """`@workflow.run`, which wants no local class."""
    run.__qualname__ = "Wrong.run"
    return workflow.run(run)


class TestDeclaration:
    """A declaration that can't work is refused when the class is made."""

    def declare(self, states: Any = Step, effects: Any = (), **more: Any) -> type:
        async def run(self: Any, order: Order) -> None: ...

        body = {"effects": effects, "run": decorated(run)}
        return type("Wrong", (Lifecycle,), {**body, "__orig_bases__": (Lifecycle[Order, states],), **more})

    def test_a_right_one_is_taken(self) -> None:
        assert self.declare(Step, effects=(SEND,)).__name__ == "Wrong"

    @pytest.mark.parametrize(
        ("states", "why"),
        [
            (
                [state("new", leads_to=("gonig",)), OVER],
                "Wrong: 'gonig' is not one of its states; there are:",
            ),
            ([state("new", leads_to=("ovr",)), OVER], "'ovr' is not .*; did you mean 'over'"),
            (
                [CANCELLED, OVER, state("off", cancelled=True)],
                "'cancelled' and 'off' are both cancelled=True: keep one",
            ),
            (["new", state("over", final=True, leads_to=("new",))], "'over' is final, but leads on"),
            (["new", state("off", cancelled=True, leads_to=("new",))], "'off' is final, but leads on"),
            ([state("new", leads_to=("over",)), "held", OVER], "no state leads to 'held'"),
            (["new", "going"], r"no state is final, .* as in GOING = state\('going', final=True\)"),
            (["new", OVER, "late"], "'late' leads to no state: give it final=True, or leads_to="),
            ([OVER, state("held", leads_to=())], "no state leads to 'held'"),
            (["starting", OVER], "'starting' is what an entity shows until it is delivered"),
            ([state("new", aliases=("over",)), OVER], "aliases='over' is the name of another state as well"),
            ([], "its enum of states is empty"),
        ],
    )
    def test_states_that_can_not_work_are_refused(self, states: list[str], why: str) -> None:
        with pytest.raises(DeclarationError, match=why):
            self.declare(named(states))

    def test_two_members_with_one_text_are_refused(self) -> None:
        class Copied(StrEnum):
            NEW = "new"
            WORKING = "working"
            BROKEN = state("working", attention=True)  # only another name of WORKING
            OVER = OVER

        with pytest.raises(DeclarationError, match="Wrong: WORKING and BROKEN are both 'working': give each its own"):
            self.declare(Copied)

    @pytest.mark.parametrize("text", ["", "a\nb", " new", "a\u200bb", "\ud800", "c" * 64, "\u00e4" * 32])
    def test_a_state_that_can_not_be_shown_is_refused(self, text: str) -> None:
        with pytest.raises(DeclarationError, match=r"Wrong: the state '.*' can't be shown: use 1 to 63 bytes"):
            self.declare(StrEnum("Odd", {"NEW": "new", "ODD": text, "OVER": OVER}))

    def test_a_state_of_several_words_is_taken(self) -> None:
        assert self.declare(named(["New order", "c" * 63, OVER])).__name__ == "Wrong"

    def test_a_state_in_which_a_cancel_ends_is_not_required(self) -> None:
        assert self.declare(named(["new", OVER])).__name__ == "Wrong"

    @pytest.mark.parametrize("states", [Any, str, "new"])
    def test_states_that_are_no_enum_are_refused(self, states: Any) -> None:
        with pytest.raises(
            DeclarationError, match=r"its states are .*: write `class Wrong\(Lifecycle\[Input, States\]\)`"
        ):
            self.declare(states)

    @pytest.mark.parametrize("argument", ["leads_to", "aliases"])
    def test_a_mere_string_in_place_of_a_tuple_is_refused(self, argument: str) -> None:
        with pytest.raises(DeclarationError, match=rf"{argument}='over' must be a tuple: \('over',\)"):
            state("new", **{argument: "over"})  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        "name",
        [
            "resolve",
            "retry_now",
            "send_again",
            "cancel",
            "status",
            "enter",
            "perform",
            "state",
            "retry_requested",
            "wait_for",
        ],
    )
    def test_the_methods_of_every_lifecycle_cannot_be_overridden(self, name: str) -> None:
        with pytest.raises(DeclarationError, match=f"Wrong.{name} overrides what every lifecycle has"):
            self.declare(**{name: lambda self: None})

    def test_a_cancelling_that_can_not_be_called_is_refused(self) -> None:
        async def takes_nothing(self: Any) -> None: ...
        def not_async(self: Any, asked: OperatorRequest) -> None: ...

        for wrong in (takes_nothing, not_async):
            with pytest.raises(DeclarationError, match=r"Wrong.cancelling can't be awaited: write `async def c"):
                self.declare(cancelling=wrong)

    def test_a_cancelling_that_is_never_called_is_refused(self) -> None:
        async def cancelling(self: Any, asked: OperatorRequest) -> None: ...

        with pytest.raises(DeclarationError, match=r"Wrong.cancelling would never be called: mark a state with cancel"):
            self.declare(named(["new", OVER]), cancelling=cancelling)
        assert self.declare(cancelling=cancelling).__name__ == "Wrong"

    @pytest.mark.parametrize(
        ("wrong", "why"),
        [
            ({"mirror": "orders.state"}, "Wrong: mirror='orders.state' is of type str: .* AppColumn or None"),
            ({"expects": "select 1"}, "Wrong: expects='select 1' is of type str: it must be of type AppRows or None"),
            ({"erasure": "a note"}, "Wrong: erasure='a note' is of type str: it must be of type Erasure or None"),
            ({"search_attribute": 5}, "Wrong: search_attribute=5 is of type int"),
            ({"effects": SEND}, r"Wrong: effects=Effect\('send'\) is of type Effect: it must be of type tuple or list"),
            ({"effects": (SEND, print)}, r"Wrong: effects\[1\]=<.*> is of type builtin_.*: it must be of type Effect"),
            ({"steps": (SEND,)}, r"Wrong: steps\[0\]=Effect\('send'\) is of type Effect: it must be of type Step"),
        ],
    )
    def test_an_attribute_of_another_type_is_refused(self, wrong: dict[str, Any], why: str) -> None:
        with pytest.raises(DeclarationError, match=why):
            self.declare(**wrong)

    def test_an_input_that_pydantic_does_not_know_is_refused(self) -> None:
        class Strange: ...

        async def run(self: Any, given: Any) -> None: ...

        run.__annotations__["given"] = Strange
        with pytest.raises(DeclarationError, match=r"Wrong: the input is <.*Strange'>, which Pydantic can't validate"):
            self.declare(run=decorated(run), __orig_bases__=(Lifecycle[Strange, Step],))

    def test_a_missing_run_is_refused(self) -> None:
        with pytest.raises(DeclarationError, match=r"needs its own `@workflow.run async def run"):

            class Runless(Lifecycle[Order, Step]):
                states = Step

    def test_a_run_without_its_decorator_is_refused(self) -> None:
        with pytest.raises(DeclarationError, match=r"needs its own `@workflow.run async def run"):

            class Undecorated(Lifecycle[Order, Step]):
                async def run(self, order: Order) -> None: ...

    def test_a_run_with_another_input_is_refused(self) -> None:
        async def run(self: Any, order: str) -> None: ...

        with pytest.raises(DeclarationError, match=r"run must take one input annotated .*Order.*; it takes .*str"):
            self.declare(run=decorated(run))

    def test_a_run_without_an_input_is_refused(self) -> None:
        async def run(self: Any) -> None: ...

        with pytest.raises(DeclarationError, match=r"run must take one input annotated .*Order.*; it takes None"):
            self.declare(run=decorated(run))

    def test_a_lifecycle_without_types_is_refused(self) -> None:
        with pytest.raises(DeclarationError, match=r"write `class Wrong\(Lifecycle\[Input, States\]\)`"):
            self.declare(__orig_bases__=())

    def test_one_effect_declared_twice_is_refused(self) -> None:
        with pytest.raises(DeclarationError, match="Wrong: 'send' is declared twice"):
            self.declare(effects=(SEND, RING, SEND))

    def test_an_effect_without_types_is_refused(self) -> None:
        untyped: Any = Effect("send", timeout=timedelta(seconds=1), doubt=Repeat())
        with pytest.raises(DeclarationError, match=r"has no types: write Effect\[Input, Receipt\]\('send', ...\)"):
            self.declare(effects=(untyped,))


class Lamp(StrEnum):
    OFF = state("off", leads_to=("on",))
    ON = "on"
    OUT = state("out", final=True)
    BROKEN = state("broken", cancelled=True)


@workflow.defn(name="unled")
class Unled(Lifecycle[str, Lamp]):
    """No state declares that it leads to the one in which a cancel ends."""

    @workflow.run
    async def run(self, how: str) -> None:
        await self.enter(Lamp.ON)
        if how == "by itself":
            await self.enter(Lamp.BROKEN)
        else:
            await self.wait_for(lambda: False)


class TestConduct:
    """What `run` may not do is a bug, said with the entity and the way out."""

    @pytest.mark.parametrize(
        ("how", "script", "why"),
        [
            ("stranger", {}, "Ruled performs Effect.'stranger'., which is not in its `effects`"),
            ("twice at once", {}, "ruled/1/ring is being performed already: await the task that performs it"),
            ("too far", {}, "ruled/1: 'new' may not lead to 'done'; declared are: going, held, off"),
            ("too far with it", {}, "ruled/1: 'new' may not lead to 'done'; declared are: going, held, off"),
            ("undeclared", {}, "Ruled: 'gonig' is not one of its states; did you mean 'going'"),
            ("final with it", {}, "entering='done' is a final state: it can only follow, by then="),
            ("stops short", {}, "run.. returned in state 'going', which is not final"),
        ],
    )
    async def test_a_step_that_is_not_allowed_is_refused(self, how: str, script: Any, why: str) -> None:
        with pytest.raises(DeclarationError, match=why):
            await ruled(how, script)

    @pytest.mark.parametrize("how", ["by a cancel", "by itself"])
    async def test_a_cancel_ends_in_a_state_that_no_state_declares(self, how: str) -> None:
        seen = await rehearse(
            Unled, how, {}, messages=[At(timedelta(seconds=1), "cancel", ANN)] if how == "by a cancel" else []
        )
        assert (seen.states, seen.end) == ([Lamp.ON, Lamp.BROKEN], Lamp.BROKEN)
        assert diagram(Unled).count("--> s3") == 2

    async def test_a_final_state_is_entered_after_what_is_being_performed(self) -> None:
        seen = await ruled("final beside", {RING: [InDoubt("cut"), After(timedelta(seconds=3), 1)]})
        assert (seen.end, list(seen.outcomes.values())) == (Step.DONE, [[EffectStatus.IN_DOUBT, EffectStatus.DONE]])
        assert seen.took > timedelta(seconds=3)

    async def test_an_input_that_does_not_fit_its_effect_is_refused_without_its_value(self) -> None:
        with pytest.raises(InvalidInput, match="send: the input does not fit") as caught:
            await ruled("wrong input", {})
        assert "Ruled" not in str(caught.value)

    async def test_two_effects_are_performed_at_once(self) -> None:
        script: dict[Any, Any] = {
            SEND: [After(timedelta(seconds=5), 1)],
            RING: [After(timedelta(seconds=3), NotDone("busy")), After(timedelta(seconds=3), 2)],
        }
        seen = await ruled("both", script)
        assert (seen.states, seen.took) == ([Step.GOING, Step.DONE], timedelta(seconds=7))
        assert seen.keys == ["ruled/1/send", "ruled/1/ring"]

    async def test_two_effects_at_once_go_on_in_new_runs(self) -> None:
        script: dict[Any, Any] = {SEND: [InDoubt("cut off")], RING: [NotDone("busy"), WorkerLost(), 2]}
        said = Resolution(by="ann", outcome=EffectStatus.DONE, receipt=7)
        seen = await rehearse(
            Ruled, Order(how="both"), script, messages=[WhenBlocked("resolve", said)], renew_at_every_wait=True
        )
        assert (seen.states, seen.calls(SEND), seen.calls(RING)) == ([Step.GOING, Step.DONE], 1, 3)
        assert seen.runs > 2


class TestRetry:
    """Pauses, limits and deadlines."""

    async def test_the_pause_grows_up_to_its_cap(self) -> None:
        seen = await ruled("once", {SEND: [NotDone("busy")] * 6 + [1]})
        assert seen.took == timedelta(seconds=1 + 2 + 4 + 8 + 8 + 8)

    async def test_jitter_keeps_to_its_share(self) -> None:
        jittery = RetryPolicy(initial_interval=timedelta(seconds=10), jitter=0.5)
        assert {jittery.pause(1, luck) for luck in (-1.0, 0.0, 1.0)} == {
            timedelta(seconds=5),
            timedelta(seconds=10),
            timedelta(seconds=15),
        }

    async def test_the_other_side_s_wish_to_be_left_alone_is_honoured(self) -> None:
        seen = await ruled("once", {SEND: [NotDone("busy", retry_after=timedelta(minutes=10)), NotDone("busy"), 1]})
        assert seen.took == timedelta(minutes=10) + timedelta(seconds=2)

    @pytest.mark.parametrize("often", [False, True])
    async def test_it_gives_up_after_as_many_attempts_as_declared_and_a_retry_gives_it_as_many_again(
        self, often: bool
    ) -> None:
        script: dict[Any, Any] = {LIMITED: [NotDone("1"), NotDone("2"), NotDone("3"), 4]}
        retry = WhenBlocked("retry_now", ANN)
        seen = await rehearse(Ruled, Order(how="limited"), script, messages=[retry], renew_at_every_wait=often)
        assert seen.states == [Step.GOING, Step.HELD, Step.GOING, Step.DONE]
        assert seen.keys == ["ruled/1/limited"]

    async def test_an_effect_that_expired_before_its_attempt_has_none(self) -> None:
        seen = await ruled("once", {SEND: [WorkerLost(before=True)]}, lasts=3)
        assert (seen.states, seen.keys) == ([Step.HELD], [])
        assert seen.attention == "Expired: it was of no use any more, in doubt: False"

    async def test_what_expires_while_it_waits_is_not_attempted_again(self) -> None:
        seen = await ruled("once", {SEND: [NotDone("busy", retry_after=timedelta(hours=1))]}, lasts=60)
        assert (seen.states, seen.took, seen.calls(SEND)) == ([Step.GOING, Step.HELD], timedelta(seconds=60), 1)
        assert seen.attention == "Expired: it was of no use any more, in doubt: False"

    async def test_what_expires_in_doubt_says_so(self) -> None:
        seen = await ruled("once", {SEND: [InDoubt("cut off")]}, lasts=60)
        assert (seen.states, seen.took) == ([Step.GOING, Step.HELD], timedelta(seconds=60))
        assert seen.attention == "Expired: it was of no use any more, and in doubt, in doubt: True"

    async def test_a_receipt_that_comes_after_the_time_still_counts(self) -> None:
        seen = await ruled("once", {SEND: [After(timedelta(seconds=9), 1)]}, lasts=5)
        assert seen.end is Step.DONE


def why(seen: Rehearsal[Any], number: int = -1) -> str | None:
    """The sentence of a refusal."""
    assert seen.answers[number].how == "rejected", seen.answers
    return seen.answers[number].why


BUSY = {SEND: [After(timedelta(seconds=9), 1)]}
DURING = timedelta(seconds=5)


class TestRetryNow:
    """`retry_now` goes on at once, where that makes sense."""

    async def test_it_cuts_a_pause_short(self) -> None:
        script = {SEND: [NotDone("busy", retry_after=timedelta(hours=1)), 1]}
        seen = await ruled("once", script, At(timedelta(seconds=5), "retry_now", ANN))
        assert (seen.end, seen.took, seen.answers[0].result) == (Step.DONE, timedelta(seconds=5), "goes on from going")

    async def test_it_is_refused_while_nothing_waits(self) -> None:
        assert why(await ruled("once", BUSY, At(DURING, "retry_now", ANN))) == (
            "nothing waits for a retry in state 'going'"
        )

    async def test_it_is_refused_while_an_effect_is_parked_in_doubt(self) -> None:
        seen = await ruled("once", {SEND: [InDoubt("cut off")]}, WhenParked("retry_now", ANN))
        assert why(seen) == "send is in doubt, so a retry could repeat it: use resolve"

    async def test_it_is_refused_where_it_would_make_no_call(self) -> None:
        given_up = Resolution(by="ann", outcome=EffectStatus.ABANDONED, note="sent by hand")
        script = {SEND: [InDoubt("cut off")]}
        seen = await ruled("once", script, WhenBlocked("resolve", given_up), WhenBlocked("retry_now", ANN))
        assert why(seen) == "ruled/1/send was given up, so a retry would make no call: use send_again"

    async def test_a_second_one_is_refused_where_the_first_came_back_to_nothing_but_what_was_given_up(self) -> None:
        given_up = WhenBlocked("resolve", Resolution(by="ann", outcome=EffectStatus.ABANDONED, note="sent by hand"))
        asked = WhenBlocked("retry_now", ANN), WhenBlocked("retry_now", ANN)
        anew = WhenBlocked("send_again", SendAgain(by="ann", effect="ruled/1/send"))
        seen = await ruled("one left behind", {SEND: [InDoubt("cut off"), 2]}, given_up, *asked, anew)
        assert [each.how for each in seen.answers] == ["completed", "completed", "rejected", "completed"]
        assert why(seen, 2) == "ruled/1/send was given up, so a retry would make no call: use send_again"
        assert seen.end is Step.DONE

    async def test_each_is_heard_where_one_was_given_up_and_another_can_be_called(self) -> None:
        given_up = WhenBlocked("resolve", Resolution(by="ann", outcome=EffectStatus.ABANDONED, note="sent by hand"))
        asked = [WhenBlocked("retry_now", ANN)] * 3
        script: dict[Any, list[Any]] = {SEND: [InDoubt("cut off")], LIMITED: [NotDone("busy")] * 6 + [7]}
        seen = await ruled("two until done", script, given_up, *asked)
        assert ([each.how for each in seen.answers], seen.end) == (["completed"] * 4, Step.DONE)

    async def test_it_needs_a_name(self) -> None:
        seen = await ruled("once", {SEND: [Refused("no")]}, WhenBlocked("retry_now", {"by": ""}))
        assert seen.answers[0].how == "rejected"
        assert "by" in (seen.answers[0].why or "")


class TestSendAgain:
    """`send_again` sends anew what ended without being done: a new key, so a new request for the other side."""

    @pytest.mark.parametrize(
        ("script", "messages", "lasts"),
        [
            ([Refused("no"), 1], [], 0),
            ([InDoubt("cut off"), 1], [WhenParked("resolve", Resolution(by="ann", outcome=EffectStatus.ABANDONED))], 0),
        ],
        ids=["refused", "abandoned"],
    )
    async def test_it_has_a_new_key(self, script: Any, messages: Any, lasts: float) -> None:
        seen = await ruled("once", {SEND: script}, *messages, WhenBlocked("send_again", SendAgain(by="ann")))
        assert (seen.end, seen.keys) == (Step.DONE, ["ruled/1/send", "ruled/1/send~1"])
        assert seen.answers[-1].result == "send goes anew"

    async def test_what_expired_is_sent_anew(self) -> None:
        script: dict[Any, Any] = {RING: [], SEND: [InDoubt("cut off"), 1]}
        seen = await rehearse(Brief, Order(), script, messages=[WhenBlocked("send_again", SendAgain(by="ann"))])
        assert (seen.end, seen.keys) == (Step.DONE, ["brief/1/send", "brief/1/send~1"])

    async def test_it_may_be_asked_for_again_after_two_refusals(self) -> None:
        again = [WhenBlocked("retry_now", ANN), WhenBlocked("send_again", SendAgain(by="ann", effect="send"))]
        seen = await ruled("once", {SEND: [Refused("1"), Refused("2"), 3]}, *again)
        assert [each.how for each in seen.answers] == ["completed", "completed"]
        assert seen.keys == ["ruled/1/send", "ruled/1/send~1", "ruled/1/send~2"]

    @pytest.mark.parametrize("renews", [False, True], ids=["one run", "many runs"])
    async def test_it_sends_no_effect_of_another_branch(self, renews: bool) -> None:
        minute = timedelta(minutes=1)
        messages = [At(minute, "send_again", SendAgain(by="ann", effect="ring")), At(2 * minute, "retry_now", ANN)]
        script: dict[Any, Any] = {SEND: [Refused("no"), 1], RING: [Refused("no"), 2]}
        seen = await rehearse(
            Ruled, Order(how="each until done"), script, messages=messages, renew_at_every_wait=renews
        )
        assert seen.keys == ["ruled/1/send", "ruled/1/ring", "ruled/1/ring~1", "ruled/1/send~1"]

    async def test_it_is_refused_while_nothing_waits(self) -> None:
        seen = await ruled("once", BUSY, At(DURING, "send_again", SendAgain(by="ann")))
        assert why(seen) == "nothing waits to be sent again in state 'going'"

    async def test_it_is_refused_for_another_effect(self) -> None:
        asked = SendAgain(by="ann", effect="ring")
        seen = await ruled("once", {SEND: [Refused("no")]}, WhenBlocked("send_again", asked))
        assert why(seen) == "effect='ring': name one of send"


@workflow.defn(name="brief")
class Brief(Lifecycle[Order, Step]):
    """Gives each sending a minute."""

    effects = (SEND, RING)

    @workflow.run
    async def run(self, order: Order) -> None:
        while True:
            expires_at: datetime = workflow.now() + timedelta(minutes=1)
            end = await self.perform(SEND, order, entering=Step.GOING, expires_at=expires_at)
            if isinstance(end, Done):
                return await self.enter(Step.DONE)
            assert isinstance(end, Expired)
            await self.enter(Step.HELD)
            await self.retry_requested()


class TestResolve:
    """`resolve` says what became of an effect in doubt."""

    async def say(self, **said: Any) -> Rehearsal[Step]:
        message = WhenParked("resolve", {"by": "ann", **said})
        return await ruled("once", {SEND: [InDoubt("cut off"), 2]}, message)

    async def test_done_carries_the_receipt(self) -> None:
        seen = await self.say(outcome="done", receipt=7)
        assert (seen.states, seen.answers[0].result) == ([Step.GOING, Step.DONE], "resolved as done")
        assert seen.effects[seen.keys[0]].receipt == 7

    async def test_not_done_sends_again_under_the_same_key(self) -> None:
        seen = await self.say(outcome="not_done")
        assert (seen.end, seen.keys, seen.calls(SEND)) == (Step.DONE, ["ruled/1/send"], 2)

    async def test_abandoned_ends_it_with_the_note(self) -> None:
        seen = await self.say(outcome="abandoned", note="sent by hand")
        assert (seen.states, seen.attention) == (
            [Step.GOING, Step.HELD],
            "Abandoned: sent by hand, in doubt: False",
        )

    @pytest.mark.parametrize(
        ("said", "sentence"),
        [
            ({"outcome": "refused"}, "outcome='refused': give done, not_done or abandoned"),
            ({"outcome": "done", "receipt": "x"}, "the receipt does not fit what send declares"),
            ({"outcome": "done"}, "the receipt does not fit what send declares"),
            ({"outcome": "not_done", "effect": "ring"}, "effect='ring': name one of send"),
        ],
    )
    async def test_an_impossible_resolution_is_refused(self, said: dict[str, Any], sentence: str) -> None:
        seen = await self.say(**said)
        assert (why(seen) or "").startswith(sentence)
        assert seen.waits_for == "resolve send"

    async def test_it_is_refused_while_nothing_is_parked(self) -> None:
        seen = await ruled("once", BUSY, At(DURING, "resolve", Resolution(by="ann", outcome=EffectStatus.DONE)))
        assert why(seen) == "nothing is parked in doubt in state 'going'"


class TestCancel:
    """`cancel` ends it, when nothing is under way or in doubt."""

    @pytest.mark.parametrize("name", ["cancel", CANCEL_WORKFLOW])
    @pytest.mark.parametrize(
        ("phase", "script", "took", "states"),
        [
            ("in a pause", [NotDone("busy", retry_after=timedelta(hours=1)), 1], 5, [Step.GOING, Step.OFF]),
            (
                "in an attempt that does nothing",
                [After(timedelta(seconds=9), NotDone("busy")), 1],
                9,
                [Step.GOING, Step.OFF],
            ),
            ("in an attempt that succeeds", [After(timedelta(seconds=9), 1)], 9, [Step.GOING, Step.DONE]),
            ("while it waits for a retry", [Refused("no")], 5, [Step.GOING, Step.HELD, Step.OFF]),
        ],
    )
    async def test_it_ends_what_waits_and_lets_what_is_under_way_end(
        self, name: str, phase: str, script: list[Any], took: float, states: list[Step]
    ) -> None:
        seen = await ruled("once", {SEND: script}, At(DURING, name, *([ANN] if name == "cancel" else [])))
        assert (seen.states, seen.took) == (states, timedelta(seconds=took)), phase

    async def test_it_is_refused_while_an_effect_is_parked_in_doubt(self) -> None:
        seen = await ruled("once", {SEND: [InDoubt("cut off")]}, WhenParked("cancel", ANN))
        assert why(seen) == "send is in doubt: resolve it first, as abandoned if need be"

    async def test_it_waits_for_a_doubt_to_be_settled_where_temporal_was_asked(self) -> None:
        said = Resolution(by="ann", outcome=EffectStatus.NOT_DONE)
        script = {SEND: [InDoubt("cut off"), 1]}
        seen = await ruled("once", script, WhenParked(CANCEL_WORKFLOW), WhenBlocked("resolve", said))
        assert (seen.states, seen.calls(SEND)) == ([Step.GOING, Step.OFF], 1)

    async def test_it_is_refused_the_second_time(self) -> None:
        script = {SEND: [After(timedelta(seconds=9), NotDone("busy"))]}
        seen = await ruled("once", script, At(DURING, "cancel", ANN), At(timedelta(seconds=6), "cancel", ANN))
        assert why(seen) == "ann has already requested that"

    async def test_it_is_refused_where_no_state_is_meant_for_it(self) -> None:
        seen = await rehearse(Stubborn, Order(), {}, messages=[WhenBlocked("cancel", ANN)])
        assert why(seen) == "stubborn declares no state with cancelled=True to end in"

    async def test_one_through_temporal_changes_nothing_where_no_state_is_meant_for_it(self) -> None:
        seen = await rehearse(Stubborn, Order(), {}, messages=[WhenBlocked(CANCEL_WORKFLOW)])
        assert (seen.end, seen.waits_for) == (None, "a message")


@workflow.defn(name="stubborn")
class Stubborn(Lifecycle[Order, Other]):
    """Waits for ever and can't be cancelled."""

    @workflow.run
    async def run(self, order: Order) -> None:
        await self.wait_for(lambda: False)


class Leg(StrEnum):
    HOME = state("home", leads_to=("sea",))
    SEA = state("sea", leads_to=("shore",))
    SHORE = "shore"
    BACK = state("back", final=True)


@workflow.defn(name="tour")
class Tour(Lifecycle[Order, Leg]):
    """Passes through its states in a line, and waits in between."""

    effects = (SEND, RING)

    @workflow.run
    async def run(self, order: Order) -> None:
        await self.enter(Leg.SEA)
        assert isinstance(await self.perform(SEND, order), Done)
        await self.wait_until(START + timedelta(hours=1))
        await self.enter(Leg.SHORE)
        await self.wait_until(START + timedelta(hours=2))
        assert isinstance(await self.perform(RING, order, suffix="bell"), Done)
        await self.wait_until(START + timedelta(hours=3))
        await self.enter(Leg.BACK)


@pytest.mark.parametrize("often", [False, True])
async def test_a_new_run_passes_what_was_done_without_doing_it_again(often: bool) -> None:
    seen = await rehearse(Tour, Order(), {SEND: [1], RING: [2]}, renew_at_every_wait=often)
    assert seen.states == [Leg.SEA, Leg.SHORE, Leg.BACK]
    assert (seen.calls(SEND), seen.calls(RING), seen.took) == (1, 1, timedelta(hours=3))
    assert (seen.runs > 3) == often


@workflow.defn(name="restless")
class Restless(Lifecycle[Order, Step]):
    """Enters no state in between, and gives each sending a minute."""

    effects = (SEND,)

    @workflow.run
    async def run(self, order: Order) -> None:
        while True:
            expires_at = workflow.now() + timedelta(minutes=1)
            if isinstance(await self.perform(SEND, order, expires_at=expires_at), Done):
                return await self.enter(Step.OFF)
            await self.retry_requested()


@pytest.mark.parametrize("often", [False, True])
async def test_a_retry_counts_once_whatever_new_runs_come_in_between(often: bool) -> None:
    script = {SEND: [Refused("no"), NotDone("busy", retry_after=timedelta(hours=9)), 1]}
    messages = [WhenBlocked("retry_now", ANN)]
    seen = await rehearse(Restless, Order(), script, messages=messages, renew_at_every_wait=often, allow_unused=True)
    assert (seen.calls(SEND), seen.waits_for) == (2, "retry_now")


async def test_a_message_to_what_is_over_is_too_late() -> None:
    seen = await ruled("once", {SEND: [1]}, When(lambda status: status.final, "retry_now", ANN))
    assert why(seen) == "too late: already done"


async def test_the_answer_of_status_shows_what_it_waits_for() -> None:
    seen = await ruled("once", {SEND: [NotDone("busy"), InDoubt("cut off")]}, WhenIn(Step.GOING, "status"))
    [effect] = seen.answers[0].result.effects
    assert (effect.effect, effect.status, effect.attempts, effect.parked) == ("send", EffectStatus.NOT_DONE, 1, False)
    assert effect.next_at == START + timedelta(seconds=1)
    [effect] = seen.status.effects
    assert (effect.key, effect.status, effect.attempts, effect.parked) == (
        "ruled/1/send",
        EffectStatus.IN_DOUBT,
        2,
        True,
    )
    assert effect.why == "cut off"
