"""Each documented error of the provider has the documented outcome."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from pathlib import Path

import pytest

from activities.http.exchange import Reply
from activities.telephony.twilio.outcomes import TABLE, Verdict, ending, read
from perdure import InDoubt, NotDone, Refused

PAGE = Path(__file__).parents[4] / "activities" / "telephony" / "README.md"


def answer(status: int, code: object = None, **headers: str) -> NotDone | Refused | InDoubt:
    """How an answer with an error ends an attempt."""
    body = json.dumps({"code": code, "message": "To +15552223333 says no", "status": status}).encode()
    return ending(read(Reply(status, {name.replace("_", "-"): value for name, value in headers.items()}, body)))


def test_the_page_has_the_table() -> None:
    rows = re.findall(r"^\| ((?:\d{5}.*?)) \| (\*\w+(?: done)?\*)(.*) \|$", PAGE.read_text(), re.MULTILINE)
    documented = {int(code): index for index, row in enumerate(rows) for code in re.findall(r"\d{5}", row[0])}
    order = [Verdict.REFUSED, Verdict.BUSY, Verdict.OURS]
    assert documented == {code: order.index(verdict) for code, (verdict, _) in TABLE.items()}


@pytest.mark.parametrize("code", TABLE)
def test_a_documented_code_ends_as_its_table_says_in_the_tables_own_words(code: int) -> None:
    verdict, sentence = TABLE[code]
    end = answer(400, code)
    kinds = {Verdict.REFUSED: Refused, Verdict.BUSY: NotDone, Verdict.OURS: NotDone}
    assert type(end) is kinds[verdict]
    assert end.why == f"answered 400, error {code}: {sentence}"
    if isinstance(end, NotDone):
        assert end.retry_after == timedelta(seconds=5 if verdict is Verdict.BUSY else 300)


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        *((status, None, InDoubt) for status in (300, 302, 307, 308, 500, 501, 502, 503, 504, 599)),
        *((500, code, InDoubt) for code in (20500, 20503, 21211, 20003)),
        *((503, code, InDoubt) for code in (20500, "20503", True)),
        (503, 20503, NotDone),
        *((status, None, NotDone) for status in (400, 401, 403, 404, 405, 407, 408, 425, 429)),
        *((status, 29999, NotDone) for status in (401, 403, 404, 408, 429)),
        *((status, 29999, Refused) for status in (400, 409, 410, 422)),
    ],
)
def test_an_unknown_error_code_ends_by_its_http_status(status: int, code: object, kind: type[Exception]) -> None:
    assert type(answer(status, code)) is kind


def test_the_pause_that_is_asked_for_is_kept_within_limits() -> None:
    pauses = [answer(429, 20429, Retry_After=given) for given in ("7", "86400", "soon", "-1")]
    assert [each.retry_after for each in pauses if isinstance(each, NotDone)] == [
        *(timedelta(seconds=7), timedelta(minutes=10), timedelta(seconds=5), timedelta(seconds=5)),
    ]


def test_no_reason_quotes_what_the_provider_says() -> None:
    told = [answer(status, code).why for status in (400, 401, 429, 500, 503) for code in (None, 21211, 20503, 29999)]
    assert [why for why in told if "15552223333" in why] == []
