"""`perdure top` at a terminal: it shows what changes, sorts by a key, survives an outage, and ends by a key."""

from __future__ import annotations

from tests.command import perdure
from tests.terminal import at_terminal
from tests.world import World

ENTITIES = """
    select perdure.start(l, n::text, '{}')
    from (values ('order', 3), ('parcel', 1)) x (l, many), generate_series(1, many) n;
"""


async def test_it_shows_what_happens_until_q_is_pressed(world: World) -> None:
    await world.db.execute(ENTITIES)
    async with at_terminal(world, "top", "--every", "0.1") as command:
        await world.until(lambda: "parcel" in command.text and "nothing does" in command.text, "the first reading")
        await world.until(lambda: "started 0.0/s" in command.text, "how fast it moves")
        assert command.text.index("order") < command.text.index("parcel"), "nobody needs a person: by name"
        await world.db.execute(
            "update perdure.entity set attention = E'look\\x1b[31m at it', state = 'charging' where id = '1' "
            "and lifecycle = 'parcel'"
        )
        await world.until(lambda: "parcel/1" in command.text and "charging" in command.text, "who needs a person")
        before = len(command.text)
        await world.until(lambda: "order" in command.text[before:].partition("parcel")[2], "who needs one comes first")
        assert "\x1b[31m at it" not in command.text
        before = len(command.text)
        command.type("s")
        await world.until(lambda: "now: open" in command.text[before:], "the other order")

        await world.db.execute("alter schema perdure rename to elsewhere")
        try:
            await world.until(lambda: "what was read last is shown" in command.text, "the reason why it can't be read")
        finally:
            await world.db.execute("alter schema elsewhere rename to perdure")
        before = len(command.text)
        await world.until(lambda: "started" in command.text[before:], "the next reading")
        command.type("q")
        assert await command.ended() == 0


async def test_it_is_for_a_terminal(world: World) -> None:
    end = await perdure(world, "top")
    assert end.exit_code == 2
    assert (
        end.stderr == "perdure: perdure top is for a terminal, and for a person: perdure status --json is for scripts\n"
    )
