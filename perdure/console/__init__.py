"""The operator's web console: what only a person can settle, and everything that a person needs for it.

    from perdure.console import Person, console

    def who(request):  # the host application's own user
        return Person(request.user.name, Person.granted("settle")) if request.user.is_authenticated else None

    app.mount("/perdure", console(who, app=my_app))

`perdure console` serves it in a process of its own. It needs the extra `perdure[console]`.

To add a page:

1. Put a module into `perdure/console/pages/`: its first lines say what the page shows. It has one or more `Page`s in
   `PAGES`, and for each a coroutine function that takes a `View` and returns a response. What it shows is a query of
   `perdure._operations` (SQL in `perdure/_operations/queries/`), limited by `view.reach()`; what it does is an act of
   `perdure._operations`, after `view.require(Role.SETTLE, lifecycle, tenant)`.
2. Put a template into `perdure/console/templates/`, which extends `layout.html` and fills the blocks `title` and
   `content`. `_parts.html` has the parts that pages share (entities, times, forms with their token, empty tables).
   All text is escaped. Ids go through `parts.entity(view, lifecycle, id)`, other data through the filter
   `safe_text`. No inline style and no inline script: the browser refuses both.
3. Name its module in `perdure/console/pages/__init__.py`. `Page(menu="Limits")` puts it into the menu.
4. A form is `{% call parts.form(view, "/limits") %}...{% endcall %}`; its page has `method="POST"`, finds the fields
   in `view.form` and ends with `view.redirect(...)`.
5. Something that is slow, or that every open page reads, is read by `view.sources.kept(key, read, fresh=2)`. Temporal
   is asked by `await view.sources.temporal()`, which gives the reason where it is away: show it, and the rest.
6. Test it over HTTP in `tests/integration/console/` (`browsing.py` has a browser without a screen).

An application adds pages as it adds commands: `App(pages={"shop": "package.module:PAGES"})`, with the same `Page` and
`View`. `view.render("shop/tills.html")` then takes `tills.html` from the folder `templates` beside that module. A page
reads its own tables by `view.reading()`, changes them by `view.writing()`, and acts on entities by
`perdure.console.many`. `perdure grant` gives the console's role the tables whose comments begin with `perdure:reader`,
and the functions whose comments begin with `perdure:operator`. `perdure.console.stacks` has stacked bars and columns.
"""

from __future__ import annotations

from perdure.errors import Forbidden, InvalidSetting

try:
    from perdure.console.app import Console, console
    from perdure.console.identity import Host, Identity, InsecureLocal, Proxy, Tokens
    from perdure.console.mounting import mounted
    from perdure.console.page import Page, View
    from perdure.console.roles import Grant, Person, Role
except ImportError as _missing:
    raise InvalidSetting(
        f"the console needs further packages: pip install 'perdure[console]' ({_missing})"
    ) from _missing

__all__ = [
    "Console",
    "Forbidden",
    "Grant",
    "Host",
    "Identity",
    "InsecureLocal",
    "Page",
    "Person",
    "Proxy",
    "Role",
    "Tokens",
    "View",
    "console",
    "mounted",
]
