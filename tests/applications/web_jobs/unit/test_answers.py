"""A page's answer is kept where it can be kept, and a list of children is read whole or not at all."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest
from multidict import CIMultiDict

from activities.http.exchange import Reply
from activities.web_jobs.answer import MOST_KEPT, answer_of
from activities.web_jobs.children import MOST_CHILDREN, Unusable, listing
from activities.web_jobs.contracts import Answer
from perdure import Refused
from tests.applications.web_jobs.fixtures import web

URL = "http://page.example/jobs/7"


def reply(body: Any = None, *, raw: bytes | None = None, **headers: str) -> Reply:
    named = CIMultiDict({name.replace("_", "-"): value for name, value in headers.items()})
    return Reply(200, named, json.dumps(body).encode() if raw is None else raw)


async def receipt(given: Reply) -> Answer:
    return await answer_of(given, web=web(), job="m", url=URL)


DEEP = b"[" * 5_000 + b"]" * 5_000


@pytest.mark.parametrize(
    ("raw", "kept"),
    [
        (b'{"sent": true, "n": [1, 2.5, "\\ud83d\\ude00"]}', {"sent": True, "n": [1, 2.5, "\U0001f600"]}),
        (b'"text"', "text"),
        (b"0", 0),
        (b"OK, sent", "OK, sent"),
        (b"", None),
        (b"null", None),
        (b'{"broken": ', '{"broken": '),
        (b"NaN", "NaN"),
        (b"[1e999]", "[1e999]"),
        (b'"\\u0000"', '"\\u0000"'),
        (b'"\\ud800"', '"\\ud800"'),
        (b"a\x00b", None),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b"1" * 5_000, "1" * 5_000),
        (DEEP, DEEP.decode()),
        (b"[" * 300 + b"]" * 300, "[" * 300 + "]" * 300),
        (json.dumps("x" * MOST_KEPT).encode(), None),
        (json.dumps("x" * (MOST_KEPT - 2)).encode(), "x" * (MOST_KEPT - 2)),
    ],
)
async def test_a_body_is_kept_as_json_else_as_text_if_postgresql_can_store_it(raw: bytes, kept: Any) -> None:
    found = await receipt(reply(raw=raw))
    assert found.body == kept
    assert Answer.model_validate_json(found.model_dump_json()) == found
    assert (found.then, found.children) == ("nothing", 0)


@pytest.mark.parametrize("body", [{"children": None}, {"child": []}, [{"children": []}], "children"])
async def test_an_answer_that_lists_no_children_is_an_ordinary_one(body: Any) -> None:
    assert (await receipt(reply(body))).then == "nothing"


async def test_json_in_an_encoding_that_was_not_asked_for_is_refused_and_other_content_left_out() -> None:
    raw = gzip.compress(b'{"children": []}')
    with pytest.raises(Refused, match="answered 200, so it was called; but its JSON can't be read: it is encoded"):
        await receipt(reply(raw=raw, Content_Encoding="gzip", Content_Type="application/json"))
    assert (await receipt(reply(raw=raw, Content_Encoding="gzip", Content_Type="text/html"))).body is None


SICK = {"id": "1", "type": "page", "payload": "PAYLOAD"}
LIST = json.dumps({"children": [SICK]}).encode()


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (LIST.replace(b'"PAYLOAD"', b"NaN"), "it holds NaN or an infinity"),
        (LIST.replace(b"PAYLOAD", "caf\u00e9".encode("latin-1")), "it is not UTF-8"),
        (LIST.replace(b"PAYLOAD", b"\\u0000"), "a text in it holds NUL"),
        (LIST.replace(b"PAYLOAD", b"\\ud800"), "a text in it holds NUL or half a character"),
        (LIST.replace(b'"PAYLOAD"', b"[" * 62 + b"]" * 62), "it is nested more than 64 levels deep"),
        (LIST.replace(b'"PAYLOAD"', b"1" * 5_000), "Exceeds the limit"),
        (LIST[:-20], "Unterminated string"),
        (b"Warning: x in y on line 3\n" + LIST, "Expecting value"),
    ],
)
async def test_a_list_of_children_that_can_not_be_read_is_never_taken_for_text(raw: bytes, why: str) -> None:
    for lists in (False, True):
        with pytest.raises(Refused, match=f"answered 200, so it was called; but its JSON can't be read: {why}"):
            await answer_of(reply(raw=raw), web=web(), job="m", url=URL, lists=lists)


async def test_a_page_that_may_list_children_answers_in_json_or_nothing() -> None:
    async def answer(given: Reply) -> Answer:
        return await answer_of(given, web=web(), job="m", url=URL, lists=True)

    assert [(await answer(reply(raw=raw))).body for raw in (b"", b" \n", b'"OK"')] == [None, " \n", "OK"]
    with pytest.raises(Refused, match="but its JSON can't be read: Expecting value"):
        await answer(reply(raw=b"OK"))
    with pytest.raises(Refused, match="but its JSON can't be read: it is longer than PERDURE_WEB_MOST_RESPONSE"):
        await answer(Reply(200, CIMultiDict(), None, too_long=True))
    at_work = Reply(202, CIMultiDict({"Location": "/state"}), b"accepted")
    assert (await answer(at_work)).then == "follow"


async def test_a_byte_order_mark_is_no_part_of_the_json() -> None:
    assert (await receipt(reply(raw=b'\xef\xbb\xbf{"sent": true}'))).body == {"sent": True}


def listed(children: list[Any], following: str | None = None, **more: Any) -> Any:
    return listing({"children": children, **more}, master="m", url=URL, following=following)


def test_a_payload_is_measured_as_it_is_stored() -> None:
    """Not as the escapes of ASCII, which have six bytes a letter, and not with blanks."""
    assert listed([{"id": "1", "type": "page", "payload": "\u0436" * 127_000}]).children
    assert listed([{"id": "1", "type": "page", "payload": [1] * 127_000}]).children
    with pytest.raises(Unusable, match="is longer than 256,000 bytes"):
        listed([{"id": "1", "type": "page", "payload": "\u0436" * 128_000}])
    with pytest.raises(Unusable, match="half a character"):
        listed([{"id": "1", "type": "page", "payload": "\ud800"}])


def test_a_list_has_its_children_its_next_page_and_what_the_master_wants() -> None:
    found = listed([{"id": "1", "type": "page", "params": {"a": 1}}], "?page=2", window=5, tolerates=None)
    assert found.children == [{"id": "1", "type": "page", "params": {"a": 1}, "payload": None}]
    assert (found.next_page, found.window, found.tolerates) == (URL + "?page=2", 5, None)
    usual = listed([])
    assert (usual.children, usual.next_page, usual.window, usual.tolerates) == ([], None, 50, 0)


ONE = {"id": "1", "type": "page"}


@pytest.mark.parametrize(
    ("children", "more", "says"),
    [
        ([ONE, {"id": "2"}], {}, "child 2 ('2'): type: field required"),
        ([{"type": "page"}], {}, "child 1: id: field required"),
        ([{"id": 7, "type": "page"}], {}, "child 1: id: input should be a valid string"),
        ([{"id": "", "type": "page"}], {}, "child 1 (''): id: string should have at least 1 character"),
        ([{"id": "1", "type": "No Type"}], {}, "child 1 ('1'): type: string should match pattern"),
        ([{"id": "a b\n", "type": "page"}], {}, "child 1 ('a b\\n'): the entity id"),
        ([{"id": "a/b", "type": "page"}], {}, "child 1 ('a/b'): its id has a slash"),
        ([{"id": "1", "type": "page", "name": "x"}], {}, "child 1 ('1'): name: extra inputs are not permitted"),
        ([{"id": "1", "type": "page", "payload": "\0"}], {}, "child 1 ('1'): a text in it holds NUL"),
        ([{"id": "1", "type": "page", "payload": "x" * 300_000}], {}, "child 1 ('1'): payload: value error, is longer"),
        (["1"], {}, "child 1 is no object"),
        ([ONE, ONE], {}, "child 2 has the id '1', as another one before it"),
        ([ONE] * (MOST_CHILDREN + 1), {}, "it lists 10,001 children; 10,000 is the most on one page"),
        ([ONE], {"window": 0}, "its 'window' is no whole number from 1 to 10,000"),
        ([ONE], {"window": True}, "its 'window' is no whole number"),
        ([ONE], {"tolerates": -1}, "its 'tolerates' is no whole number"),
        ([ONE], {"following": "https://page.example/jobs"}, "the next page of its list is at another origin"),
        ([ONE], {"following": "http://evil.example/jobs"}, "the next page of its list is at another origin"),
        ([ONE], {"following": URL}, "the next page of its list is the same page"),
    ],
)
def test_a_list_that_can_not_be_used_says_why_and_which_child_it_is(
    children: list[Any], more: dict[str, Any], says: str
) -> None:
    with pytest.raises(Unusable) as error:
        listed(children, **more)
    assert str(error.value).startswith(says)
    assert "x" * 70 not in str(error.value)


@pytest.mark.parametrize("body", [{"children": {"id": "1"}}, {"children": 3}])
async def test_an_answer_whose_children_can_not_be_used_ends_its_job_and_says_that_it_was_called(body: Any) -> None:
    with pytest.raises(Refused, match="answered 200, so it was called; but its children can't be used: it is no list"):
        await receipt(reply(body))
