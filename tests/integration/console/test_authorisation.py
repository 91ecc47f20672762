"""What each role may see and do, on each page; forged, replayed and foreign forms; and data that tries to be more."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from perdure._text.shown import UNSEEN
from perdure.console import Role
from perdure.console.guarding import LARGEST
from perdure.console.listed import MOST
from perdure.console.pages import PAGES
from tests.apps.talking import app
from tests.integration.console.browsing import Browser, open_console, readable
from tests.integration.operations.acts import untouched
from tests.world import World

pytestmark = pytest.mark.world(app)

ENTITIES = """
    select perdure.start(l, i, '{"secret": "zebra"}', tenant => t)
    from (values ('ring', 'mine', 'acme'), ('ring', 'theirs', 'evil'), ('rest', 'third', 'acme')) x (l, i, t);
    delete from perdure.outbox;
    update perdure.entity set attention = 'do-ring is in doubt: no answer' where lifecycle = 'ring';
    insert into perdure.effect
        (key, lifecycle, id, generation, effect, token, status, digest, first_at, attempt_at, deadline, why)
        select id, lifecycle, id, 0, 'do-ring', id, 'in_doubt', 'd', now(), now(), now(), 'no answer'
        from perdure.entity where lifecycle = 'ring';
"""
ONE = {"lifecycle": "ring", "id": "mine"}
ACTS: dict[str, tuple[Role, dict[str, str]]] = {
    "/act/cancel": (Role.SETTLE, {**ONE, "note": "n"}),
    "/act/retry": (Role.SETTLE, {**ONE, "note": "n"}),
    "/act/send-again": (Role.SETTLE, {**ONE, "note": "n"}),
    "/act/resolve": (Role.SETTLE, {**ONE, "note": "n", "outcome": "done"}),
    "/act/restart": (Role.SETTLE, {**ONE, "note": "n"}),
    "/entity/ring/payloads": (Role.PAYLOADS, {"id": "mine"}),
}
HOSTILE = (
    "<script>alert(1)</script>",
    "'\"><img src=x onerror=alert(1)>",
    "{{ 7 * 7 }}{% raw %}",
    "=cmd|' /C calc'!A0",
    "../../../etc/passwd?x=1&y=2#z",
    "%2e%2e%2f%00",
    "</textarea></title></style><b>",
    "javascript:alert(1)",
)


async def token(browser: Browser) -> dict[str, str]:
    """A form of one's own: any page with one has a token."""
    return await browser.form("/act/cancel?lifecycle=ring&id=mine", "/act/cancel")


async def test_each_role_may_do_what_it_says_and_nothing_else(world: World) -> None:
    await world.db.execute(ENTITIES)
    before = await untouched(world)
    async with open_console(world, app=app) as site:
        for role in Role:
            browser = site.browser("ann", f"{role}:rest")  # of another lifecycle: enough for a page, for no act
            await browser.get("/")
            for path, (_, fields) in ACTS.items():
                answer = await browser.http.post(path, data={"form_token": site.token(browser), **fields})
                assert answer.status_code in (403, 404), (role, path, answer.status_code, readable(answer.text))
        for roles in ("look", "payloads", "settle:ring@evil", "bulk@evil", "look,settle:rest", "look,administer@evil"):
            browser = site.browser("eve", roles)
            await browser.get("/")
            for path, (needed, fields) in ACTS.items():
                if needed is Role.PAYLOADS and roles == "payloads":
                    continue
                answer = await browser.http.post(path, data={"form_token": site.token(browser), **fields})
                assert answer.status_code in (403, 404), (roles, path, answer.status_code)
        many = {"lifecycle": "ring", "note": "n", "as_of": "2030-01-01T00:00:00+00:00", "total": "2"}
        browser = site.browser("sam", "settle")
        await browser.get("/")
        answer = await browser.http.post("/act/cancel", data={"form_token": site.token(browser), **many})
        assert answer.status_code == 403, "who may settle one may not act on many"
        assert await untouched(world) == before


async def test_somebody_sees_the_entities_of_their_roles_alone(world: World) -> None:
    await world.db.execute(ENTITIES)
    async with open_console(world, app=app) as site:
        ann = site.browser("ann", "look:ring@acme")
        assert "1 in doubt: do-ring of ring" in readable(await ann.get("/inbox"))
        for page in ("/inbox/doubts?lifecycle=ring", "/act/resolve?lifecycle=ring&effect=do-ring&why=no+answer"):
            text = readable(await ann.get(page))
            assert "theirs" not in text, page
            assert "third" not in text, page
        await ann.get("/entity/ring", id="mine")
        hidden, missing = await ann.get("/entity/ring", 404, id="theirs"), await ann.get("/entity/ring", 404, id="nil")
        assert readable(hidden).replace("theirs", "nil") == readable(missing), (
            "what is hidden looks like what is not there"
        )
        await ann.get("/entity/rest", 404, id="third")
        await ann.get("/jobs", 403)


async def test_pages_are_for_people_who_are_known_and_forms_for_posts(world: World) -> None:
    async with open_console(world, app=app) as site:
        stranger = site.browser(None)
        for page in PAGES:
            path = re.sub(r"{\w+}", "ring", page.path)
            answer = await stranger.http.request(page.method, path)
            assert answer.status_code == 401, page.name
            if page.method == "POST":
                assert (await site.browser().http.get(path)).status_code in (400, 404, 405), page.name


async def test_a_form_counts_once_for_one_person_and_from_our_own_pages_alone(world: World) -> None:
    await world.db.execute(ENTITIES)
    before = await untouched(world)
    async with open_console(world, app=app) as site:
        ann, eve = site.browser("ann", "settle"), site.browser("eve", "settle")
        fields = {**ONE, "note": "n"}
        anns, foreign = await token(ann), {"Origin": "https://attacker.example"}
        tries = [
            (ann, fields, {}),
            (ann, {**fields, "form_token": "forged"}, {}),
            (eve, {**fields, **await token(ann)}, {}),
            (ann, {**fields, **anns}, foreign),
            (ann, {**fields, **anns}, {"Origin": "null"}),
            (ann, {**fields, **anns}, {"Sec-Fetch-Site": "cross-site"}),
            (ann, {**fields, **anns}, {"Sec-Fetch-Site": "same-site"}),
            (ann, {**fields, **anns}, {"Cookie": ""}),
        ]
        for browser, sent, headers in tries:
            answer = await browser.http.post("/act/cancel", data=sent, headers=headers)
            assert answer.status_code == 403, (sent, headers)
            assert "Nothing was done" in readable(answer.text)
        typed = await ann.http.post("/act/cancel", json={**fields, **anns})
        assert typed.status_code == 415
        large = await ann.http.post("/act/cancel", data={**fields, **anns, "note": "x" * LARGEST})
        assert large.status_code == 413
        keys = "\n".join(f"{number:064}" for number in range(MOST))
        assert (
            await ann.http.post("/act/cancel", data={**fields, **await token(ann), "note": keys})
        ).status_code == 400
        assert await untouched(world) == before
        own = {"Origin": site.url.rstrip("/"), "Sec-Fetch-Site": "same-origin"}
        assert (await ann.http.post("/act/cancel", data={**fields, **anns}, headers=own)).status_code == 303
        after = await untouched(world)
        assert after != before
        assert (await ann.http.post("/act/cancel", data={**fields, **anns}, headers=own)).status_code == 403
        assert await untouched(world) == after, "sent again, it does nothing"


class Tags(HTMLParser):
    """The tags of a page, and its attributes that could run code."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.wrong: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """See base class."""
        self.tags.add(tag)
        for name, value in attrs:
            outside = name in ("href", "src", "action") and not re.match(r"[/#]", value or "")
            if name.startswith("on") or name == "style" or outside:
                self.wrong.append(f"{tag} {name}={value}")


async def test_a_thousand_hostile_ids_reasons_and_notes_are_shown_as_text(world: World) -> None:
    await world.db.execute(
        "insert into perdure.ident (lifecycle, id) select 'ring', e || n from unnest($1::text[]) e, "
        "generate_series(1, 125) n",
        list(HOSTILE),
    )
    await world.db.execute(
        "insert into perdure.entity (lifecycle, id, generation, state, attention, tenant, input) "
        "select lifecycle, id, 0, id || chr(8238), id || chr(27) || '[2J', id, to_jsonb(id) from perdure.ident"
    )
    await world.db.execute(
        "insert into perdure.effect (key, lifecycle, id, generation, effect, token, status, digest, first_at, "
        "attempt_at, deadline, why) select id, lifecycle, id, 0, 'do-ring/' || id, id, 'in_doubt', 'd', now(), now(), "
        "now(), left(id, 20) || chr(8238) from perdure.ident"
    )
    async with open_console(world, app=app) as site:
        browser = site.browser("<img src=x onerror=alert(1)>", "bulk,payloads")
        paths = [
            "/",
            "/inbox",
            "/inbox/doubts?lifecycle=ring",
            "/inbox/attention?lifecycle=ring",
            "/act/retry?lifecycle=ring",
        ]
        pages = [await browser.get(each) for each in paths]
        for each in HOSTILE:
            pages.append(await browser.get("/entity/ring", id=f"{each}1"))
            pages.append(await browser.get("/act/resolve", lifecycle="ring", id=f"{each}1"))
            assert f"{each}1" in readable(pages[-1]), "it is shown exactly"
        for page in pages:
            tags = Tags()
            tags.feed(page)
            assert tags.wrong == []
            assert not {"b", "title2"} & tags.tags
            assert len(page.encode()) < 150_000
            assert not UNSEEN.search(page.replace("\n", "")), "nothing that can't be seen, or turns text around"
