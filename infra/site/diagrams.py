"""The drawings of the pages: `python -m infra.site.diagrams` writes them into docs/images."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from infra.site.drawing import Drawing, Kind

FOLDER = Path(__file__).parents[2] / "docs" / "images"

_APP, _DATABASE, _WORKER, _TEMPORAL, _OTHER = 88, 264, 446, 620, 736
_LANES: tuple[tuple[float, float, Kind, str], ...] = (
    (_APP, 140, "app", "your application"),
    (_DATABASE, 140, "database", "your PostgreSQL"),
    (_WORKER, 110, "worker", "a worker"),
    (_TEMPORAL, 92, "temporal", "Temporal"),
    (_OTHER, 124, "other", "the other side"),
)


def from_commit_to_effect() -> Drawing:
    """The way from the transaction of the app to the state that everyone can see."""
    drawing = Drawing(812, 560, "From the commit to the effect")
    for x, width, kind, text in _LANES:
        drawing.line((x, 56), (x, 548), dashed=True)
        drawing.box(x - width / 2, 20, width, 36, (text,), kind)
    steps: tuple[tuple[float, float, tuple[str, ...]], ...] = (
        (_APP, _DATABASE, ("your row and its start,", "in one transaction")),
        (_DATABASE, _WORKER, ("the relay in the", "worker reads the start")),
        (_WORKER, _TEMPORAL, ("starts the workflow",)),
        (_TEMPORAL, _WORKER, ("orders an attempt",)),
        (_WORKER, _DATABASE, ("the attempt,", "committed")),
        (_WORKER, _OTHER, ("the call, with its key",)),
        (_OTHER, _WORKER, ("the reply",)),
        (_WORKER, _DATABASE, ("outcome and new state,", "committed")),
        (_DATABASE, _APP, ("the state, in a column", "of your own table")),
    )
    y = 60
    for number, (begin, end, lines) in enumerate(steps, 1):
        y += 28 + 15 * len(lines)
        side = 1 if end > begin else -1
        near = _TEMPORAL if _OTHER in (begin, end) else end  # the line of Temporal crosses no text
        drawing.note(
            (_WORKER + near) / 2 if _OTHER in (begin, end) else (begin + end) / 2, y - 8 - 15 * (len(lines) - 1), *lines
        )
        drawing.arrow((begin + 12 * side, y), (end - 2 * side, y), kind="database" if "committed" in lines else None)
        drawing.number(begin, y, number)
    return drawing


def where_a_kill_can_fall() -> Drawing:
    """One attempt from above to below, the places of a kill, and what follows each."""
    drawing = Drawing(780, 510, "Where a kill can fall, and what follows")
    for x, head in ((20, "one attempt"), (240, "in truth"), (396, "the record shows"), (572, "what follows")):
        drawing.text(x, 34, head, anchor="start", bold=True)
    drawing.area(226, 142, 536, 256, "doubt")
    drawing.arrow((32, 52), (32, 492))
    for y, text, below in (
        (124, "the attempt is on record", "committed in PostgreSQL"),
        (220, "the bytes leave", "the call, with its key"),
        (316, "the reply arrives", "with the receipt"),
        (412, "the outcome is on record", "committed in PostgreSQL"),
    ):
        drawing.dot(32, y)
        drawing.text(50, y + 5, text, anchor="start")
        drawing.note(50, y + 21, below, anchor="start")
    for y, truth, record in (
        (80, "nothing was sent", "no attempt"),
        (176, "nothing was sent", "an attempt began"),
        (272, "nobody knows", "an attempt began"),
        (368, "it happened", "an attempt began"),
        (464, "it happened", "done, with the receipt"),
    ):
        drawing.cross(32, y)
        drawing.note(50, y + 4, "killed here", anchor="start")
        drawing.text(240, y + 5, truth, anchor="start")
        drawing.text(396, y + 5, record, anchor="start")
    drawing.text(572, 76, "another worker makes", "the attempt", anchor="start")
    drawing.text(572, 168, "In doubt.", anchor="start", bold=True)
    drawing.text(572, 186, "The doubt policy decides:", anchor="start")
    for y, policy, acts in (
        (216, "Repeat", ("sends again",)),
        (256, "Dedupe", ("sends the same key again,", "the other side drops it")),
        (311, "AskFirst", ("asks, and sends again only", "if it did not happen")),
        (366, "Escalate", ("waits for a person",)),
    ):
        drawing.text(572, y, policy, anchor="start", bold=True)
        drawing.note(572, y + 16, *acts, anchor="start")
    drawing.text(572, 460, "the receipt is read from", "the record: no call", anchor="start")
    return drawing


def states_of_an_effect() -> Drawing:
    """The statuses of the record of an effect, and what leads from one to the next."""
    drawing = Drawing(760, 412, "The states of an effect")
    drawing.box(20, 190, 96, 52, ("no record",))
    drawing.box(186, 190, 120, 52, ("attempting",), "worker")
    drawing.box(500, 190, 120, 52, ("in doubt",), "doubt")
    drawing.box(340, 40, 110, 52, ("not done",), "other")
    drawing.box(340, 330, 110, 52, ("done", "with a receipt"), "database")
    drawing.box(20, 330, 110, 52, ("refused",), "plain")
    drawing.box(630, 330, 110, 52, ("abandoned",), "plain")
    drawing.arrow((116, 216), (184, 216))
    drawing.note(152, 160, "committed before", "the bytes leave")
    drawing.arrow((306, 206), (498, 206), kind="doubt")
    drawing.note(402, 166, "a time-out, a reset, a 5xx,", "the worker was lost: nobody knows")
    drawing.arrow((500, 226), (308, 226))
    drawing.note(402, 244, "Repeat, Dedupe:", "again, with the same key")
    drawing.arrow((222, 190), (222, 54), (338, 54))
    drawing.note(214, 74, "certainly did", "not happen", anchor="end")
    drawing.arrow((340, 80), (268, 80), (268, 188))
    drawing.note(276, 116, "again after a pause,", "with the same key", anchor="start")
    drawing.arrow((560, 190), (560, 66), (452, 66))
    drawing.note(568, 86, "AskFirst does not find it,", "or a person reports that", "it did not happen", anchor="start")
    drawing.arrow((262, 242), (262, 356), (338, 356))
    drawing.note(270, 316, "the reply", anchor="start")
    drawing.arrow((530, 242), (530, 356), (452, 356))
    drawing.note(522, 300, "AskFirst finds it,", "or a person", "reports it", anchor="end")
    drawing.arrow((206, 242), (206, 356), (132, 356))
    drawing.note(198, 276, "the other side will", "never accept it", anchor="end")
    drawing.arrow((600, 242), (600, 300), (685, 300), (685, 328))
    drawing.note(612, 276, "a person gives it up", anchor="start")
    return drawing


def recovery() -> Drawing:
    """An open lifecycle, from a Temporal that lost its data to an empty one."""
    drawing = Drawing(760, 376, "Recovery after Temporal lost its data")
    drawing.box(20, 40, 136, 84, ("the old Temporal", "its histories", "are gone"))
    drawing.line((156, 82), (216, 82), dashed=True)
    drawing.cross(186, 82)
    held = ("open lifecycles: states", "effects: attempts,", "outcomes, receipts", "messages")
    drawing.box(216, 24, 190, 116, ("your PostgreSQL", *held), "database")
    drawing.box(578, 40, 162, 84, ("an empty Temporal", "runs each workflow", "again"), "temporal")
    drawing.arrow((406, 82), (576, 82))
    drawing.text(491, 70, "perdure recover", bold=True)
    drawing.note(491, 102, "the relay starts", "each open lifecycle")
    head = "Each lifecycle runs from its top. What follows depends on the record of each effect:"
    drawing.text(20, 190, head, anchor="start")
    rows: tuple[tuple[Kind, tuple[str, ...], tuple[str, ...]], ...] = (
        ("database", ("done",), ("its receipt comes from the record: no call",)),
        ("doubt", ("in doubt",), ("its doubt policy: ask, send the same key again, or wait for a person",)),
        ("worker", ("no record",), ("it is performed",)),
    )
    for number, (kind, status, follows) in enumerate(rows):
        y = 208 + number * 52
        drawing.box(20, y, 120, 36, status, kind)
        drawing.arrow((140, y + 18), (196, y + 18))
        drawing.text(206, y + 23, *follows, anchor="start")
    return drawing


DIAGRAMS: dict[str, Callable[[], Drawing]] = {
    "from-commit-to-effect": from_commit_to_effect,
    "where-a-kill-can-fall": where_a_kill_can_fall,
    "states-of-an-effect": states_of_an_effect,
    "recovery": recovery,
}
"""Each drawing by the name of its file, with the function that makes it."""


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, draw in DIAGRAMS.items():
        (FOLDER / f"{name}.svg").write_text(draw().svg(), "utf-8")
