"""A lifecycle's declaration as a Mermaid `stateDiagram-v2`; Mermaid's syntax: https://mermaid.js.org/syntax/stateDiagram.html."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from perdure._operations.durations import shown
from perdure._workflow.lifecycle import Lifecycle
from perdure.app import name_of
from perdure.contracts.effects import Effect
from perdure.contracts.policies import AskFirst, Dedupe
from perdure.contracts.states import State


def diagram(lifecycle: type[Lifecycle[Any, Any]], here: str | None = None) -> str:
    """The text of the diagram.

    Args:
        here: a state that is marked, as the one that an entity is in.
    """
    states = list(lifecycle.declared)
    ids = {each.name.value: f"s{n}" for n, each in enumerate(states)}
    lines = ["---", f'title: "{name_of(lifecycle)}"', "---", "stateDiagram-v2"]
    lines += [f"    {ids[each.name.value]} : {_label(each)}" for each in states]
    lines.append(f"    [*] --> {ids[str(lifecycle.declared.initial.value)]}")
    for each in states:
        follow = lifecycle.declared.followers(each.name.value)
        lines += [f"    {ids[each.name.value]} --> {ids[follower.value]}" for follower in follow]
        if each.final:
            lines.append(f"    {ids[each.name.value]} --> [*]")
    lines += _notes(lifecycle, ids[str(lifecycle.declared.initial.value)])
    lines += _classes(states, ids, here)
    return "\n".join(lines) + "\n"


def _label(state: State[Any]) -> str:
    marks = [f"at most {shown(state.within.total_seconds())}"] if state.within else []
    marks += ["needs a person"] * state.attention + ["when cancelled"] * state.cancelled
    return _plain(state.name.value) + (f" ({', '.join(marks)})" if marks else "")


def _notes(lifecycle: type[Lifecycle[Any, Any]], beside: str) -> Iterator[str]:
    if not lifecycle.effects:
        return
    yield f"    note right of {beside}"
    yield from (f"        {_effect(each)}" for each in lifecycle.effects)
    yield "    end note"


def _effect(effect: Effect[Any, Any]) -> str:
    policy = type(effect.doubt).__name__
    if isinstance(effect.doubt, AskFirst):
        policy = f"{policy} by {effect.doubt.lookup.name}, otherwise {type(effect.doubt.otherwise).__name__}"
    elif isinstance(effect.doubt, Dedupe):
        window = shown(effect.doubt.window.total_seconds())
        policy = f"{policy} for {window}, otherwise {type(effect.doubt.otherwise).__name__}"
    return f"effect {effect.name}, in doubt {policy}"


def _classes(states: list[State[Any]], ids: dict[str, str], here: str | None) -> Iterator[str]:
    attended = [ids[each.name.value] for each in states if each.attention]
    if attended:
        yield "    classDef attention stroke-dasharray: 4 3"
        yield f"    class {','.join(attended)} attention"
    if here is not None and here in ids:
        yield "    classDef here stroke-width:4px,font-weight:bold"
        yield f"    class {ids[here]} here"


def _plain(text: str) -> str:
    """What means something in a label, as Mermaid's entity codes: https://mermaid.js.org/syntax/flowchart.html#entity-codes-to-escape-characters."""
    return "".join(each if each.isalnum() or each in "_- ." else f"#{ord(each)};" for each in text)
