"""A person at a web page without a script: follows links, chooses, fills in and presses by the words on the page."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser
from http.cookiejar import CookieJar
from urllib.parse import urlencode, urljoin
from urllib.request import HTTPCookieProcessor, ProxyHandler, build_opener

_KINDS = {"a": "href", "button": "", "label": "for"}


@dataclass
class _Form:
    action: str
    values: dict[str, str] = field(default_factory=dict)


@dataclass
class _Part:
    """A link, a button or a label, with its words.

    Attributes:
        target: address of a link; id of the field of a label.
        chosen: name and value of what is chosen inside a label.
    """

    kind: str
    target: str
    form: _Form | None
    words: str = ""
    chosen: tuple[str, str] | None = None


class _Read(HTMLParser):
    """What a page offers.

    Attributes:
        words: all text of it.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.words = ""
        self.parts: list[_Part] = []
        self.names: dict[str, str] = {}
        self._form: _Form | None = None
        self._open: list[_Part] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """See base class."""
        given = {name: value or "" for name, value in attrs}
        if tag == "form":
            self._form = _Form(given["action"]) if given.get("method") == "post" else None
        elif tag in _KINDS:
            self._open.append(_Part(tag, given.get(_KINDS[tag], ""), self._form))
        elif tag in ("input", "textarea") and "name" in given:
            self.names[given.get("id", "")] = given["name"]
            if given.get("type") == "hidden" and self._form is not None:
                self._form.values[given["name"]] = given.get("value", "")
            elif given.get("type") in ("radio", "checkbox") and self._open:
                self._open[-1].chosen = given["name"], given.get("value", "on")

    def handle_data(self, data: str) -> None:
        """See base class."""
        self.words += data
        for each in self._open:
            each.words += data

    def handle_endtag(self, tag: str) -> None:
        """See base class."""
        if tag in _KINDS and self._open:
            part = self._open.pop()
            part.words = " ".join(part.words.split())
            self.parts.append(part)


class Browser:
    """One window.

    Args:
        url: the page that it shows first.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._http = build_opener(ProxyHandler({}), HTTPCookieProcessor(CookieJar()))
        self.load()

    @property
    def words(self) -> str:
        """The text of the page."""
        return " ".join(self._page.words.split())

    def load(self) -> None:
        """Show the page again, as it is now."""
        self._get(self._url)

    def choose(self, words: str) -> None:
        """Follow the link, choose the answer, or press the button with these words.

        Raises:
            LookupError: there is none.
        """
        part = self._found(words)
        if part.kind == "a":
            self._get(urljoin(self._url, part.target))
        elif part.form is None:
            raise LookupError(f"{words!r} belongs to no form")
        elif part.chosen is not None:
            part.form.values |= dict([part.chosen])
        else:
            self._get(urljoin(self._url, part.form.action), urlencode(part.form.values).encode())

    def fill_in(self, words: str, value: str) -> None:
        """Write into the field with this label.

        Raises:
            LookupError: there is none.
        """
        part = self._found(words)
        if part.form is None or part.target not in self._page.names:
            raise LookupError(f"{words!r} is no field")
        part.form.values[self._page.names[part.target]] = value

    def _found(self, words: str) -> _Part:
        """The first part with these words, else the first that begins with them."""
        for part in self._page.parts:
            if part.words == words:
                return part
        for part in self._page.parts:
            if part.words.startswith(words):
                return part
        raise LookupError(f"{self._url} offers {[each.words for each in self._page.parts]}, not {words!r}")

    def _get(self, url: str, data: bytes | None = None) -> None:
        with self._http.open(url, data, timeout=60) as answer:
            self._url = answer.url
            self._page = _Read(answer.read().decode())
