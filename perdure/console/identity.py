"""How the console finds out who somebody is. No page is shown without a person.

`Host` calls the application that the console is mounted in; `Proxy` reads a header that a proxy has set; `Tokens` takes
one-time tokens of `perdure console token`; `InsecureLocal` lets everybody in. OpenID Connect stands in
`perdure.console.openid`.
"""

from __future__ import annotations

import getpass
import inspect
import ipaddress
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.routing import BaseRoute

from perdure.console.roles import Grant, Person, Role, granted_to, usable
from perdure.errors import InvalidSetting

Asked = Callable[[Request], Person | Awaitable[Person | None] | None]
_LOCAL = ("127.0.0.1", "localhost", "::1")


class Identity(ABC):
    """One way to know who somebody is.

    Attributes:
        signs_in: whether people sign in here; their sessions are then the console's own.
        takes_tokens: whether the page to sign in has a field for a token.
        link: where another page to sign in begins, relative to the console, and its words; None = there is none.
    """

    signs_in: bool = False
    takes_tokens: bool = False
    link: tuple[str, str] | None = None

    @property
    def rules(self) -> bytes:
        """What sessions rest on: those that began under other rules end."""
        return b""

    @abstractmethod
    async def person(self, request: Request) -> Person | None:
        """Who sent this request; None = nobody that is known. A session of the console's own goes before it."""

    def routes(self) -> Sequence[BaseRoute]:
        """Further pages that it needs to sign somebody in."""
        return ()

    def refusal(self, request: Request) -> str | None:
        """Why a request is not answered at all, whoever sent it."""
        return None


@dataclass
class Host(Identity):
    """The application that the console is mounted in: a callable, or a coroutine function, that gives the person."""

    ask: Asked

    async def person(self, request: Request) -> Person | None:
        """See base class."""
        found = self.ask(request)
        return await found if inspect.isawaitable(found) else found


@dataclass
class Proxy(Identity):
    """A proxy that has authenticated the person, and puts the name into a header.

    Args:
        header: such as `X-Forwarded-User`. The proxy must remove it from requests that it did not authenticate.
        addresses: of the proxy, or networks; from others the header counts for nothing.
        granting: what a name, `group:NAME` or `*` is granted.
        groups_header: with the person's groups, by comma.

    Raises:
        InvalidSetting: an address is none, or nothing is named.
    """

    header: str
    addresses: Sequence[str]
    granting: Mapping[str, tuple[Grant, ...]]
    groups_header: str | None = None
    _networks: list[ipaddress.IPv4Network | ipaddress.IPv6Network] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not self.addresses:
            raise InvalidSetting("--proxy-header needs --proxy-from: the address of the proxy, or its network")
        for each in self.addresses:
            try:
                self._networks.append(ipaddress.ip_network(each, strict=False))
            except ValueError:
                raise InvalidSetting(
                    f"--proxy-from {each!r} is no address and no network: write 10.0.0.7 or 10.0.0.0/24"
                ) from None

    async def person(self, request: Request) -> Person | None:
        """See base class."""
        names = _values(request, self.header)
        if len(names) != 1 or not usable(names[0]) or not self._is_proxy(request):
            return None
        given = _values(request, self.groups_header) if self.groups_header else []
        groups = given[0] if len(given) == 1 else ""
        grants = granted_to(names[0], filter(None, map(str.strip, groups.split(","))), dict(self.granting))
        return Person(names[0], grants)

    def _is_proxy(self, request: Request) -> bool:
        try:
            address = ipaddress.ip_address(request.client.host if request.client else "")
        except ValueError:
            return False
        if isinstance(address, ipaddress.IPv6Address):
            address = address.ipv4_mapped or address  # IPv4 at a socket of both
        return any(address in each for each in self._networks)


def _values(request: Request, header: str) -> list[str]:
    """What a header has, in UTF-8 as proxies write it, or in the Latin-1 of older ones, as which Starlette reads it."""
    return [_utf8(each) for each in request.headers.getlist(header)]


def _utf8(text: str) -> str:
    try:
        return text.encode("latin-1").decode()
    except UnicodeError:
        return text


class Tokens(Identity):
    """One-time tokens that `perdure console token` makes."""

    signs_in = True
    takes_tokens = True

    async def person(self, request: Request) -> Person | None:
        """See base class."""
        return None


class InsecureLocal(Identity):
    """Everybody on this machine is let in, as its user, with every role."""

    async def person(self, request: Request) -> Person | None:
        """See base class."""
        try:
            name = getpass.getuser()
        except (KeyError, OSError):
            name = "somebody"
        return Person(f"{name} (local, not authenticated)", tuple(Grant(each) for each in Role))

    def refusal(self, request: Request) -> str | None:
        """A name that points to this machine is another site's (DNS rebinding)."""
        host = urlsplit(f"//{request.headers.get('host', '')}").hostname
        here = request.client is not None and request.client.host in _LOCAL
        return None if here and host in _LOCAL else "--insecure-local answers on this machine alone: use 127.0.0.1"
