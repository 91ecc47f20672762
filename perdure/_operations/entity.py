"""Everything about one entity: what the app's database has on record, what Temporal's history adds, how it stands."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from temporalio.client import Client
from temporalio.service import RPCError

from perdure._operations.condition import Assessment, Attempt, Facts, WorkflowView, assess
from perdure._operations.history import History
from perdure._operations.temporal import look
from perdure._store.schema import Connection
from perdure._store.sql import queries
from perdure._text.shown import entity_name
from perdure.app import App
from perdure.contracts.effects import Effect
from perdure.contracts.keys import Entity, Key
from perdure.contracts.policies import AskFirst, Dedupe, DoubtPolicy, Escalate, Repeat
from perdure.errors import NoSuchEntity, PerdureError

query = queries(__name__)

TRANSITIONS = 500
"""Transitions that are shown, the newest ones."""

PATIENCE = 15.0
"""Seconds until Temporal counts as away."""

Row = Mapping[str, Any]


@dataclass(slots=True)
class Record:
    """What the app's database has of one entity; each list is in the order in which it happened.

    Attributes:
        row: of `ident` and `entity`, or `finished`.
        behind: the row of the app, if a try to show the state in it has failed.
        cut: whether there are more transitions.
    """

    row: Row
    effects: list[Row]
    transitions: list[Row]
    messages: list[Row]
    outbox: list[Row]
    rejected: list[Row]
    findings: list[Row]
    behind: list[Row]
    cut: bool = False

    @property
    def entity(self) -> Entity:
        """Its name."""
        return Entity(self.row["lifecycle"], self.row["id"], self.row["generation"])


@dataclass(slots=True)
class Seen:
    """One entity, as far as it could be seen.

    Attributes:
        workflow: None = Temporal did not answer.
        problem: why not.
    """

    record: Record
    standing: Assessment
    workflow_id: str
    workflow: WorkflowView | None = None
    history: History = field(default_factory=History)
    problem: str | None = None


async def read_record(connection: Connection, lifecycle: str, entity_id: str, *, payloads: bool = False) -> Record:
    """What is on record of it.

    Args:
        payloads: whether to read its input, snapshot, messages and receipts, too.

    Raises:
        NoSuchEntity: it was never started.
    """
    row = await connection.fetchrow(query("shown_entity"), lifecycle, entity_id, payloads)
    if row is None:
        raise NoSuchEntity(
            f"there is no {entity_name(lifecycle, entity_id)}: it was never started, or its transaction was rolled back"
        )

    async def rows(name: str, *more: object) -> list[Row]:
        return [dict(each) for each in await connection.fetch(query(name), lifecycle, entity_id, *more)]

    transitions = await rows("shown_transitions", TRANSITIONS + 1)
    return Record(
        dict(row),
        [{**each, "token": Key(each["key"]).token} for each in await rows("shown_effects", payloads)],
        transitions[TRANSITIONS - 1 :: -1] if len(transitions) > TRANSITIONS else transitions[::-1],
        await rows("shown_messages", payloads),
        await rows("shown_outbox"),
        await rows("shown_rejected"),
        await rows("shown_findings"),
        await rows("shown_behind"),
        cut=len(transitions) > TRANSITIONS,
    )


async def see(record: Record, client: Client | PerdureError, scope: str | None, app: App | None) -> Seen:
    """How it stands: with Temporal's word for it, or the reason why there is none."""
    workflow_id = record.row["workflow_id"] or record.entity.workflow_id(scope)
    workflow, history, problem = None, History(), None
    if isinstance(client, PerdureError):
        problem = str(client)
    else:
        try:
            workflow, history = await asyncio.wait_for(look(client, workflow_id), PATIENCE)
            problem = history.unread and f"the attempts and look-ups can't be read: {history.unread}"
        except RPCError as error:
            problem = f"Temporal did not answer: {error.message}"
        except TimeoutError:
            problem = f"Temporal did not answer within {PATIENCE:g} s"
    facts = facts_of(record, workflow, app)
    return Seen(record, assess(facts), workflow_id, workflow, history, problem)


def facts_of(record: Record, workflow: WorkflowView | None, app: App | None) -> Facts:
    """What decides about its condition."""
    row = record.row
    start = next((each for each in record.outbox if each["kind"] == "start"), None)
    messages = [each["since"] for each in record.outbox if each["kind"] != "start" and not each["later"]]
    return Facts(
        now=row["now"],
        final=row["final"],
        attention=row["attention"],
        starts=start["since"] if start and not start["later"] else None,
        problem=start["error"] if start else None,
        later=start["due_at"] if start and start["later"] else None,
        rejected=record.rejected[-1]["reason"] if record.rejected else None,
        undelivered_since=min(messages, default=None),
        attempts=[
            Attempt(each["effect"], each["attempts"], each["attempt_at"], each["deadline"])
            for each in record.effects
            if each["status"] == "attempting" and each["generation"] == row["generation"]
        ],
        workflow=workflow,
        doubts=doubts(app),
    )


def doubts(app: App | None) -> dict[str, str]:
    """What follows when an attempt is lost, by the names of the app's effects."""
    contracts = [contract for contract, _ in app.bodies.values()] if app else []
    return {name: _follows(each.doubt) for each in contracts if isinstance(each, Effect) for name in each.names}


def _follows(policy: DoubtPolicy[Any, Any]) -> str:
    match policy:
        case Repeat():
            return "it is made again"
        case Dedupe():
            return "it is in doubt, and is sent again with the same key"
        case AskFirst(find):
            return f"it is in doubt, and is looked up with {find.name}"
        case Escalate():
            return "it is in doubt, and waits for a person"


def as_json(seen: Seen) -> dict[str, Any]:
    """All of it, as data."""
    record, history = seen.record, seen.history
    row = {name: value for name, value in record.row.items() if name not in ("now", "workflow_id")}
    return {
        **row,
        "condition": seen.standing.condition.value,
        "sentence": seen.standing.sentence,
        "workflow_id": seen.workflow_id,
        "workflow_status": seen.workflow.status if seen.workflow else None,
        "runs": history.runs,
        "transitions": record.transitions,
        "effects": record.effects,
        "tries": [{name: getattr(each, name) for name in type(each).__slots__} for each in history.tries],
        "messages": record.messages,
        "outbox": record.outbox,
        "rejected": record.rejected,
        "findings": record.findings,
        "behind": record.behind,
        "problem": seen.problem,
    }


def link(web_ui: str | None, namespace: str, workflow_id: str) -> str:
    """Where a browser shows its workflow; without a Web UI, what to look for there."""
    if web_ui is None:
        return f"workflow {workflow_id} in namespace {namespace}"
    return f"{web_ui.rstrip('/')}/namespaces/{quote(namespace, safe='')}/workflows/{quote(workflow_id, safe='')}"
