"""A stand-in for an OpenTelemetry collector: an HTTP server that decodes what it is sent (OTLP/HTTP, protobuf)."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass(frozen=True, slots=True)
class SeenSpan:
    """A span as it arrived; ids in hex, `parent` empty for a root."""

    name: str
    trace: str
    id: str
    parent: str
    kind: int
    status: int
    service: str
    attributes: dict[str, Any]
    seconds: float


class Collector:
    """What was sent to `endpoint`.

    Attributes:
        spans: in order of arrival.
        metrics: names of the metrics that came, with the attributes of each data point.
        bodies: everything that came, as the bytes it was.
    """

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self.spans: list[SeenSpan] = []
        self.metrics: dict[str, list[dict[str, Any]]] = {}
        self.bodies: list[bytes] = []

    def named(self, start: str) -> list[SeenSpan]:
        """The spans whose name starts so."""
        return [each for each in self.spans if each.name.startswith(start)]

    def take(self, path: str, body: bytes) -> None:
        """Decode what came."""
        self.bodies.append(body)
        if path == "/v1/traces":
            for of_service in ExportTraceServiceRequest.FromString(body).resource_spans:
                service = _values(of_service.resource.attributes)["service.name"]
                self.spans += [_seen(span, service) for scope in of_service.scope_spans for span in scope.spans]
        elif path == "/v1/metrics":
            for of_process in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                for metric in (metric for scope in of_process.scope_metrics for metric in scope.metrics):
                    points = getattr(metric, str(metric.WhichOneof("data"))).data_points
                    self.metrics[metric.name] = [_values(point.attributes) for point in points]
        else:
            raise AssertionError(f"nobody should send anything to {path}")


@contextmanager
def collecting() -> Iterator[Collector]:
    """A collector on 127.0.0.1 for as long as the context lasts."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            collector.take(self.path, gzip.decompress(body) if self.headers["Content-Encoding"] == "gzip" else body)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    collector = Collector(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        server.server_close()


def _values(attributes: Any) -> dict[str, Any]:
    plain = (MessageToDict(each) for each in attributes)
    return {each["key"]: next(iter(each["value"].values())) for each in plain}


def _seen(span: Any, service: str) -> SeenSpan:
    return SeenSpan(
        name=span.name,
        trace=span.trace_id.hex(),
        id=span.span_id.hex(),
        parent=span.parent_span_id.hex(),
        kind=span.kind,
        status=span.status.code,
        service=service,
        attributes=_values(span.attributes),
        seconds=(span.end_time_unix_nano - span.start_time_unix_nano) / 1e9,
    )
