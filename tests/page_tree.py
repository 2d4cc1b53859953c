"""A page as a tree, read as a browser would: to ask what it shows, and as what."""

from __future__ import annotations

import json
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

VOID = {"br", "img", "input", "link", "meta"}


class Element:
    """A tag, its attributes, and what is inside: texts and elements."""

    def __init__(self, tag: str, attributes: dict[str, str]) -> None:
        self.tag, self.attributes = tag, attributes
        self.inside: list[Element | str] = []

    def __iter__(self) -> Iterator[Element]:
        """Go through the element and all those in it, in the order of the page."""
        yield self
        for part in self.inside:
            if isinstance(part, Element):
                yield from part

    @property
    def raw(self) -> str:
        return "".join(part if isinstance(part, str) else part.raw for part in self.inside)

    @property
    def text(self) -> str:
        """Its text as people see it: any number of spaces and line ends are one space."""
        return " ".join(self.raw.split())

    def all(self, tag: str = "", kind: str = "", **attributes: str) -> list[Element]:
        return [
            each for each in self
            if each is not self
            and tag in ("", each.tag)
            and (not kind or kind in each.attributes.get("class", "").split())
            and all(each.attributes.get(name) == value for name, value in attributes.items())
        ]  # fmt: skip

    def one(self, tag: str = "", kind: str = "", **attributes: str) -> Element:
        (found,) = self.all(tag, kind, **attributes)
        return found

    def tables(self) -> list[list[list[str]]]:
        """Texts of the cells of each table, line by line."""
        return [
            [[cell.text for cell in row.inside if isinstance(cell, Element)] for row in t.all("tr")]
            for t in self.all("table")
        ]

    def titles(self) -> list[str]:
        """What each mark of a picture says when asked."""
        return [" ".join(title.text.split()) for title in self.all("title")]


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("", {})
        self.open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        made = Element(tag, {name: value or "" for name, value in attrs})
        self.open[-1].inside.append(made)
        if tag not in VOID:
            self.open.append(made)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open[-1].inside.append(Element(tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1].tag == tag, f"</{tag}> closes <{self.open[-1].tag}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].inside.append(data)


def parsed(page: str) -> Element:
    """Read a page; every tag that is opened must be closed in its turn."""
    reader = _Reader()
    reader.feed(page)
    reader.close()
    assert len(reader.open) == 1
    return reader.root


def heat_of(page: Element) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(page.one("script", id="heat-data").raw)
    return found
