"""A page: where it is, who may see it, and the view that its function works with."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse
from starlette.responses import Response as Response

from perdure._operations.reach import Reach
from perdure._operations.session import Session, check_rights
from perdure._store.schema import Connection
from perdure._text.shown import entity_name
from perdure.app import App
from perdure.console.roles import Person, Role
from perdure.console.sources import Sources
from perdure.errors import Forbidden, NoSuchEntity
from perdure.settings import Settings

if TYPE_CHECKING:
    from perdure.console.app import Console


@dataclass(frozen=True, slots=True)
class Page:
    """One address of the console.

    Attributes:
        name: distinguishes it from the others; the menu marks the page whose name begins like the current one's.
        path: relative to the console, as `/limits` or `/entity/{lifecycle}`.
        show: makes the answer. With `method="POST"` it is called only for a form that is the person's own.
        role: who has it nowhere gets no answer, and no entry in the menu. What is shown or done is to be limited by
            `View.reach` and `View.require` besides.
        lifecycle: the role is needed for all entities of this one; None = for some entity.
        menu: its words in the menu; None = it is not there.
        acts: whether its form changes something, and so counts once. One that only shows can be sent again.
        lasts: whether its answer lasts for as long as the page is open. It then limits itself how many of them one
            person may have.
        records: what it has on record that the audit does not list, as `a limit`: the audit has a link to the place.

    Example:
        >>> async def tills(view: View) -> Response:
        ...     async with view.reading() as connection:
        ...         rows = await connection.fetch("select name, open from shop.till order by name limit 100")
        ...     return view.render("shop/tills.html", rows=rows)
        >>> PAGES = [Page("tills", "/tills", tills, menu="Tills")]
    """

    name: str
    path: str
    show: Callable[[View], Awaitable[Response]]
    role: Role = Role.LOOK
    method: str = "GET"
    menu: str | None = None
    acts: bool = True
    records: str | None = None
    lasts: bool = False
    lifecycle: str | None = None

    def admits(self, person: Person) -> bool:
        """Whether the person has its role, so that it is in the person's menu and gives an answer."""
        if self.lifecycle is not None:
            return person.may(self.role, self.lifecycle)
        return person.may_somewhere(self.role)


@dataclass
class View:
    """What the function of a page works with: one request of one person.

    Attributes:
        form: the fields of a form that was sent, without its token.
        until_sent: is closed when the answer is sent, or nobody takes it any more.
    """

    console: Console
    request: Request
    person: Person
    page: Page
    visitor: str
    form: Mapping[str, str]
    until_sent: AsyncExitStack = field(default_factory=AsyncExitStack)

    @property
    def config(self) -> Settings:
        """The settings of the console."""
        return self.console.sources.config

    @property
    def app(self) -> App | None:
        """The application's declarations, where they are known."""
        return self.console.sources.app

    @property
    def sources(self) -> Sources:
        """The database and Temporal."""
        return self.console.sources

    @property
    def query(self) -> Mapping[str, str]:
        """The parameters in the address, without empty ones."""
        return {name: value for name, value in self.request.query_params.items() if value}

    def reach(self, role: Role = Role.LOOK) -> Reach:
        """The entities for which the person has the role."""
        return self.person.reach(role)

    def require(self, role: Role, lifecycle: str, tenant: str | None) -> None:
        """Make sure that the person has the role for an entity.

        Raises:
            Forbidden: the person has not.
        """
        if not self.person.may(role, lifecycle, tenant):
            raise Forbidden(f"{self.person.name} has no role {role} for this entity of {lifecycle}")

    def see(self, lifecycle: str, entity_id: str, tenant: str | None) -> None:
        """Make sure that the person may see an entity; one who may not, does not learn that it is there.

        Raises:
            NoSuchEntity: the person may not.
        """
        if not self.person.may(Role.LOOK, lifecycle, tenant):
            raise NoSuchEntity(
                f"there is no {entity_name(lifecycle, entity_id)}: "
                "it was never started, or its transaction was rolled back"
            )

    def require_everywhere(self, role: Role) -> None:
        """Make sure that the person has the role without limits.

        Raises:
            Forbidden: the person has not.
        """
        if not self.person.may_everywhere(role):
            raise Forbidden(f"{self.person.name} has the role {role} for some lifecycles or tenants at most")

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[Connection]:
        """A transaction that only reads; see `Sources.reading` for what it raises."""
        async with self.sources.reading() as connection:
            yield connection

    @asynccontextmanager
    async def writing(self, note: str = "") -> AsyncIterator[Connection]:
        """A transaction that may write what an application's page changes. Check the person's role first.

        Raises:
            DatabaseUnavailable: no PostgreSQL answers.
            NotPermitted: the role of the console may not write, so nothing is begun.
        """
        session = await self.session(note)
        async with session.writing() as connection:
            yield connection

    async def session(self, note: str = "", *, many: bool = False) -> Session:
        """For acts, in the name of the person.

        Args:
            many: for a job: it has connections of its own, so that no page waits for it.

        Raises:
            NotPermitted: the role of the console could not write down who acts, so nothing is begun.
        """
        session = await self.sources.session(self.person.name, note, many=many)
        async with session.reading() as connection:
            await check_rights(connection)
        return session

    def link(self, path: str, **query: object) -> str:
        """An address within the console, wherever it is mounted. Parameters that are None or empty are left out."""
        return self.console.link(self.request, path, **query)

    def render(self, template: str, *, status: int = 200, **context: Any) -> HTMLResponse:
        """The page made of a template, to which `view` and `context` are given."""
        return HTMLResponse(self.console.render(self.request, template, view=self, **context), status)

    def redirect(self, path: str, **query: object) -> Response:
        """To a page that can be loaded again, after a form was dealt with."""
        return RedirectResponse(self.link(path, **query), 303)

    @property
    def notice(self) -> str | None:
        """What came of a form, where the address has it from the console itself."""
        return self.console.forms.noticed(self.request.query_params.get("notice", ""), self.person)

    def signed_notice(self, text: str) -> str:
        """A text for `notice` in the address of the next page, which shows it to this person alone."""
        return self.console.forms.notice(text, self.person)

    def token(self) -> str:
        """For one form."""
        return self.console.forms.token(self.visitor, self.person)


def address(root: str, path: str, query: Mapping[str, object]) -> str:
    """An address below `root`."""
    given = {name: str(value) for name, value in query.items() if value not in (None, "", False)}
    return f"{root}{path}" + (f"?{urlencode(given)}" if given else "")
