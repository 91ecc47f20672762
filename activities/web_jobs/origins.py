"""The allow-list of origins for calls, which is checked when a job is routed and again before each request."""

from __future__ import annotations

from ipaddress import ip_address

from yarl import URL

from activities.http.addresses import allowed
from activities.web_jobs.settings import WebSettings, web_settings

ANY = "*"


def forbidden(url: str) -> str | None:
    """Why `url`, which may still be a template behind its origin, may not be called; None if it may.

    It names the setting that would have to change. The address behind a name is looked at when it is connected to.
    """
    settings = web_settings()
    try:
        parsed = _parsed(url)
        origin = _origin(parsed)
    except ValueError:
        return "its URL can't be read"
    if parsed.raw_user is not None or parsed.raw_password is not None:
        return "its URL names a user: send a header, or sign the calls"
    listed = {_origin(URL(each)) for each in settings.origins if each != ANY}
    if origin not in listed and ANY not in settings.origins:
        return f"PERDURE_WEB_ORIGINS does not list {origin}"
    return _forbidden_address(parsed.host or "", settings)


def within_origin(url: str, place: str) -> str | None:
    """`place`, as the page at `url` gives it, resolved for a request; None if it has another origin, or can't be read.

    Scheme, host and port make the origin (RFC 6454, 5).
    """
    try:
        base = URL(url, encoded=True)
        resolved = base.join(_parsed(place)).with_fragment(None)
        return str(resolved) if _origin(resolved) == _origin(base) else None
    except ValueError:
        return None


def same_origin(one: str, other: str) -> bool:
    """Whether two URLs, which may still be templates behind their origins, have one origin (RFC 6454, 5)."""
    return _origin(URL(one)) == _origin(URL(other))


def _parsed(url: str) -> URL:
    """The URL as the client's own parser reads it: no two opinions on where a host ends.

    Raises:
        ValueError: it can't be read.
    """
    try:
        return URL(url)
    except IndexError:  # the parser's own error for brackets before an empty host
        raise ValueError("no host") from None


def _origin(url: URL) -> str:
    if url.scheme not in ("http", "https") or not url.raw_host:
        raise ValueError("neither http nor https")
    return str(url.origin())


def _forbidden_address(host: str, settings: WebSettings) -> str | None:
    """Only where the URL has an address in place of a name."""
    try:
        address = str(ip_address(host))
    except ValueError:
        return None
    if allowed(address, settings.networks):
        return None
    return f"{address} is no public address, and PERDURE_WEB_NETWORKS does not list it"
