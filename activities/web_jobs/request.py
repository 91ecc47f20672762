"""The request for a job: the same URL, headers and bytes for each attempt, but for the time of its signature."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from dataclasses import replace
from urllib.parse import quote, unquote, urlsplit

from uritemplate import URITemplate

from activities.http.exchange import HttpRequest
from activities.web_jobs import urls
from activities.web_jobs.contracts import Call
from activities.web_jobs.job_type import JobType
from activities.web_jobs.signature import signed
from perdure import Refused
from perdure.contracts import Key

_LONGEST_KEY = 255  # characters
_PLAIN = re.compile(r"[ -~]*")
_OPTIONAL = "?&"  # form-style: {?page} may be left out


def call_of(type_: JobType, call: Call, key: Key, more: dict[str, str]) -> HttpRequest:
    """The request that does a job.

    Args:
        more: headers: of the trace, of the callback.

    Raises:
        Refused: the job's params don't fit the type's URL.
        NoSecret: it can't be signed.
    """
    body = None if type_.method in ("GET", "DELETE") else body_of(call)
    usual = {} if body is None else {"Content-Type": "application/json"}
    bare = HttpRequest(type_.method, url_of(type_.url, call, {}), usual, body)
    return _signed(type_, bare, identity(call.job, key) | more)


def get(type_: JobType, url: str, job: str, key: Key, more: dict[str, str]) -> HttpRequest:
    """A request that only reads, signed as the call is.

    Raises:
        NoSecret: it can't be signed.
    """
    return _signed(type_, HttpRequest("GET", url, {"Accept": "application/json"}), identity(job, key) | more)


def body_of(call: Call) -> bytes:
    """Compact JSON with sorted keys: the same bytes for each attempt."""
    data = call.params if call.payload is None else call.payload
    try:
        return json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")
    except ValueError:
        raise Refused("its payload holds NaN or an infinity, which JSON does not have") from None


def url_of(template: str, call: Call, more: dict[str, str]) -> str:
    """The type's URL with the job's params, `id` and `type` in it (RFC 6570).

    Raises:
        Refused: it names what the job does not have, or a param would lead to another page.
    """
    params = {"id": call.job, "type": call.type, **call.params, **more}
    for variable in URITemplate(template).variables:
        needed = () if variable.operator.value in _OPTIONAL and variable.operator.value else variable.variable_names
        if missing := [name for name in needed if name not in params]:
            raise Refused(f"the type's URL names {{{missing[0]}}}, which is not among the job's params")
    url = urls.expanded(template, params)
    if _dots(url) - _dots(urls.expanded(template, dict.fromkeys(params, "x"))):
        raise Refused("one of its params is . or .., which would lead to another page")
    return url


def identity(job: str, key: Key) -> dict[str, str]:
    """The headers that name the job and its key."""
    return {
        "Accept-Encoding": "identity",
        "User-Agent": "perdure",
        "Idempotency-Key": structured(key),
        "Perdure-Job": quote(job, safe="/:@+,;=~"),
    }


def _signed(type_: JobType, bare: HttpRequest, ours: Mapping[str, str]) -> HttpRequest:
    """`bare` with the headers and the signature that the type declares for the origin of its URL."""
    headers, secrets = type_.credentials(bare.url)
    sent = _merged(bare.headers, headers, ours)
    proof = signed(secrets, bare.method, bare.url, sent, bare.body or b"", int(time.time()))
    return replace(bare, headers=sent | proof)


def structured(key: Key) -> str:
    """The key as a string of RFC 8941, 3.3.3: itself where it fits, else its token."""
    text = key if len(key) <= _LONGEST_KEY and _PLAIN.fullmatch(key) else key.token
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _merged(*layers: Mapping[str, str]) -> dict[str, str]:
    """Each header once, whatever case its name is in: the last one counts."""
    last = {name.lower(): (name, value) for layer in layers for name, value in layer.items()}
    return dict(last.values())


def _dots(url: str) -> set[str]:
    """Segments that a server takes for a step to elsewhere (RFC 3986, 5.2.4), however they are encoded."""
    return {each for each in unquote(urlsplit(url).path).split("/") if each in (".", "..")}
