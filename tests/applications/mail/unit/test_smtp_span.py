"""The span around an SMTP conversation: where it went and how far it came, and nothing of the mail."""

from __future__ import annotations

from pathlib import Path

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from activities.mail.smtp import send_mail
from infra.mail.server import At, Fault
from perdure import Refused
from tests.applications.mail.fixtures import LETTER, attempt, mail_server


async def test_a_mail_that_is_handed_over_makes_a_client_span(tmp_path: Path, spans: InMemorySpanExporter) -> None:
    async with mail_server(tmp_path) as server:
        await send_mail(LETTER, attempt())
    [span] = spans.get_finished_spans()
    assert (span.name, span.kind, span.status.status_code) == ("smtp", SpanKind.CLIENT, StatusCode.UNSET)
    assert span.attributes == {
        "server.address": "127.0.0.1",
        "server.port": server.port,
        "smtp.stage": "the end of data",
    }


async def test_a_refusal_is_seen_but_not_quoted(tmp_path: Path, spans: InMemorySpanExporter) -> None:
    async with mail_server(tmp_path) as server:
        server.order(At.RCPT, Fault("550 5.1.1 jo.doe@reader.example does not live here"))
        with pytest.raises(Refused):
            await send_mail(LETTER, attempt())
    [span] = spans.get_finished_spans()
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, "Refused")
    # Nothing else, so nothing that the server said and nothing of the mail.
    assert span.attributes == {"server.address": "127.0.0.1", "server.port": server.port, "smtp.stage": "RCPT"}
    assert span.events == ()


async def test_the_mail_itself_does_not_name_the_trace(tmp_path: Path, spans: InMemorySpanExporter) -> None:
    async with mail_server(tmp_path) as server:
        await send_mail(LETTER, attempt())
        [mail] = [each for each in server.maildir.rglob("*") if each.is_file()]
    [span] = spans.get_finished_spans()
    assert span.context is not None
    text = mail.read_text().lower()
    assert "traceparent" not in text
    assert f"{span.context.trace_id:032x}" not in text
