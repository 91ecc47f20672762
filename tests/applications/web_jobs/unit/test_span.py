"""The span around a call: where it went and how far it came, and nothing of the job."""

from __future__ import annotations

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from perdure import InDoubt
from tests.applications.web_jobs.fixtures import LOCAL, call, job, job_type, settings
from tests.pages import Pages, closes


async def test_a_call_makes_a_client_span_that_tells_nothing_of_its_job(
    spans: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KNOWN", "whsec_" + "QUJD" * 8)
    async with Pages().serving() as pages:
        with settings(origins=pages.origin, networks=LOCAL):
            type_ = job_type(pages.origin + "/x/{who}?k={who}", signed_with="env:KNOWN")
            one = job(params={"who": "jo.doe"}, payload={"word": "s3cret"})
            await call(type_, None, one)
            pages.replies["/x/jo.doe"] = [closes()]
            with pytest.raises(InDoubt):
                await call(type_, None, one)
    done, doubt = spans.get_finished_spans()
    assert (done.name, done.kind, done.status.status_code) == ("http", SpanKind.CLIENT, StatusCode.UNSET)
    assert done.attributes == {
        "server.address": "127.0.0.1",
        "server.port": pages.port,
        "http.request.method": "POST",
        "http.response.status_code": 200,
        "http.stage": "the rest of the answer",
    }
    assert (doubt.status.status_code, doubt.events) == (StatusCode.ERROR, ())
    assert doubt.attributes is not None
    assert doubt.attributes["http.stage"] == "the answer"
    told = done.to_json() + doubt.to_json()
    assert [word for word in ("jo.doe", "s3cret", "/x/", "whsec", "QUJD") if word in told] == []
