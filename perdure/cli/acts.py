"""`perdure resolve | retry | send-again | cancel | restart`: for one entity, or for all that a filter chooses."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Annotated, Any

import typer

from perdure._operations.acts import Acts
from perdure.cli.acting import Verb, carry_out
from perdure.cli.cli import ACT, cli
from perdure.cli.options import options_of
from perdure.cli.printing import MOST, refuse
from perdure.cli.targets import DoubtfulTargets, FinishedTargets, InDoubt, OpenTargets, Targets
from perdure.contracts.keys import Entity, Key, slot_of
from perdure.contracts.outcomes import EffectStatus
from perdure.errors import NotNow


class Outcome(StrEnum):
    """What became of an effect in doubt."""

    DONE = "done"
    NOT_DONE = "not_done"
    ABANDONED = "abandoned"


Effect = Annotated[
    str | None,
    typer.Option(help="which effect, its suffix after a slash, or its key; not needed where there is only one"),
]


@cli.command(
    epilog="Example: perdure resolve order 42 --as not_done --effect charge-card --by ann --note 'not in their log'",
    rich_help_panel=ACT,
)
@options_of(DoubtfulTargets)
def resolve(
    targets: DoubtfulTargets,
    outcome: Annotated[Outcome, typer.Option("--as", help="what became of it")],
    effect: Effect = None,
    attempt: Annotated[
        int | None,
        typer.Option(
            help="with ID: number of the attempt that is meant, as `attempts` in `perdure doubts --json`; refused if "
            "another one is in doubt",
            min=1,
            max=MOST,
        ),
    ] = None,
    receipt: Annotated[
        typer.FileText | None,
        typer.Option(help="with --as done: the receipt as JSON, with a filter the same for all; - = standard input"),
    ] = None,
) -> None:
    """Settle an effect in doubt, with a --note on how you know.

    A filter means those that are parked in doubt, or with --ended those that ended with the doubt open; one whose
    effect declares another receipt is refused. Exit status 1 if one was refused or nothing matches.
    """
    targets.check()
    _needs_note(targets)
    if receipt is not None and outcome is not Outcome.DONE:
        refuse("--receipt goes with --as done", 2)
    if attempt is not None and targets.entity_id is None:
        refuse("--attempt is of one entity: give LIFECYCLE and ID", 2)
    given = None if receipt is None else _json(receipt, "--receipt")

    async def act(acts: Acts, entity: Entity, doubts: Sequence[InDoubt]) -> str:
        key, meant = (effect, attempt) if targets.entity_id else _meant(entity, doubts, effect)
        return await acts.resolve(entity, EffectStatus(outcome), given, key, meant)

    verb = Verb(
        "resolve",
        f"resolved as {outcome}",
        act,
        how=f"as {outcome}" + (", all with this one receipt" if receipt and targets.entity_id is None else ""),
        asks_temporal=not targets.ended,
        ended_too=True,
    )
    carry_out(targets if targets.entity_id or targets.ended else replace(targets, in_doubt=True, attention=True), verb)


@cli.command(epilog="Example: perdure retry order 42 --by ann", rich_help_panel=ACT)
@options_of(OpenTargets)
def retry(targets: OpenTargets) -> None:
    """Let it go on at once, where it waits for its next attempt or for somebody to ask.

    One whose workflow was terminated, has failed or is gone is started again from its record. With a filter, no effect
    that was refused is sent again: those are refused here, and `perdure send-again` sends them. Exit status 1 if one
    was refused or nothing matches.
    """
    by_name = targets.entity_id is not None
    carry_out(targets, Verb("retry", "go on", lambda acts, entity, _: acts.retry(entity, send_refused=by_name)))


@cli.command(
    "send-again", epilog="Example: perdure send-again order 42 --by ann --note 'he lost it'", rich_help_panel=ACT
)
@options_of(OpenTargets)
def send_again(targets: OpenTargets, effect: Effect = None) -> None:
    """Send an effect anew, under a new key, that ended without being done: the other side sees a new request.

    Exit status 1 if one was refused or nothing matches.
    """
    _needs_note(targets)
    carry_out(targets, Verb("send-again", "go anew", lambda acts, entity, _: acts.send_again(entity, effect)))


@cli.command(
    epilog="Example: perdure cancel --lifecycle order --state waiting --by ann --note 'the shop closes'",
    rich_help_panel=ACT,
)
@options_of(OpenTargets)
def cancel(targets: OpenTargets) -> None:
    """Ask for its end: no new attempt is begun; what is under way or in doubt is settled first.

    Goes through the outbox, so Temporal may be away. A lifecycle without a state for it goes on; with --app that is
    known beforehand. Exit status 1 if one was refused or nothing matches.
    """
    carry_out(
        targets, Verb("cancel", "requested to end", lambda acts, entity, _: acts.cancel(entity), asks_temporal=False)
    )


@cli.command(
    epilog="Example: perdure restart --lifecycle order --state failed --since 2h --by ann --note 'they are back'",
    rich_help_panel=ACT,
)
@options_of(FinishedTargets)
def restart(
    targets: FinishedTargets,
    given: Annotated[
        typer.FileText | None,
        typer.Option("--input", help="another input than last time, as JSON; - = standard input"),
    ] = None,
    generation: Annotated[
        int | None,
        typer.Option(
            help="with ID: the generation that is meant, as `generation` in `perdure show --json`; refused if the "
            "entity was restarted since",
            min=0,
            max=MOST,
        ),
    ] = None,
) -> None:
    """Run what is finished again, as a new generation with new keys: everything happens once more.

    Refused while one of its effects is in doubt. Exit status 1 if one was refused or nothing matches.
    """
    _needs_note(targets)
    if given is not None and targets.entity_id is None:
        refuse("--input is of one entity: give LIFECYCLE and ID", 2)
    if generation is not None and targets.entity_id is None:
        refuse("--generation is of one entity: give LIFECYCLE and ID", 2)
    another = None if given is None else _json(given, "--input")
    if given is not None and another is None:
        refuse("--input is null, and would run it with the input of last time: leave --input out for that", 2)
    carry_out(
        targets,
        Verb(
            "restart",
            "restarted",
            lambda acts, entity, _: acts.restart(entity, another, generation),
            asks_temporal=False,
        ),
    )


def _meant(entity: Entity, doubts: Sequence[InDoubt], effect: str | None) -> tuple[str | None, int | None]:
    """The effect that is meant, and the attempt that the answer is about.

    The workflow knows former names of an effect, and which of several waits for a person.
    """
    if not doubts:
        raise NotNow(f"{entity}: nothing of it is in doubt")
    if any(each.began_later for each in doubts):
        raise NotNow(f"{entity}: an attempt has begun since the command counted: run it again")
    named = [each for each in doubts if effect in (each.key, each.effect, slot_of(*Key(each.key).performance[:2]))]
    match named or doubts:
        case [one] if named or effect is None:
            return one.key, one.attempt
        case _:
            return effect, None


def _needs_note(targets: Targets) -> None:
    if not targets.note.strip() and not targets.dry_run:
        refuse("--note is missing: give the reason, for the record", 2)


def _json(file: typer.FileText, option: str) -> Any:
    try:
        return json.loads(file.read())
    except ValueError as error:
        refuse(f"{option}: {file.name} is no JSON: {error}", 2)
