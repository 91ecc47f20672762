"""Mounts the console beside an application that can't mount one itself, such as Django's."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send


def mounted(host: ASGIApp, made: ASGIApp, at: str = "/perdure", *, prefix: str | None = None) -> ASGIApp:
    """An ASGI application that passes requests below a path to the console, and all others to its host.

    Args:
        host: the application.
        made: the console, as `console` makes it.
        at: the path, as the host would see it.
        prefix: what a proxy removes from the path of each request before the host sees it, as Django's
            FORCE_SCRIPT_NAME has it; None = the server's `root_path`.

    Example:
        >>> async def django(scope, receive, send): ...
        >>> application = mounted(django, django, "/perdure")  # in place of the latter: console(who)
    """

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        before = (prefix or scope.get("root_path", "")).rstrip("/")
        path = str(scope.get("path", ""))
        within = path[len(before) :] if f"{path}/".startswith(f"{before}/") else path
        if scope["type"] == "http" and f"{within}/".startswith(f"{at}/"):
            await made({**scope, "root_path": before + at, "path": before + within}, receive, send)
        else:
            await host(scope, receive, send)

    return application
