"""Is the built site whole: every link leads somewhere, and nothing is fetched from elsewhere."""
from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

FETCHED = {("script", "src"), ("img", "src"), ("link", "href"), ("iframe", "src"),
           ("source", "src"), ("object", "data")}


class Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.unsaid: list[str] = []  # pictures without words
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        have = {key: value or "" for key, value in attrs}
        self.ids |= {have[key] for key in ("id", "name") if key in have}
        for key in ("href", "src", "data"):
            if (tag, key) in FETCHED and key in have and have.get("rel") not in ("canonical",
                                                                                 "prev", "next"):
                self.fetched.append(have[key])
            elif key == "href" and key in have:
                self.links.append(have[key])
        if tag == "img" and not have.get("alt"):
            self.unsaid.append(have.get("src", ""))


def check(site: Path) -> list[str]:
    """What is wrong with the site, one sentence each."""
    pages = {
        p: Page(p.read_text(errors="replace"))
        for p in sorted(site.rglob("*.html")) if p.name != "404.html"
    }
    wrong = []
    for path, page in pages.items():
        at = path.relative_to(site)
        wrong += [f"{at}: a picture without words: {src}" for src in page.unsaid]
        for url in page.fetched + page.links:
            parts = urlsplit(url)
            if parts.scheme or parts.netloc:
                if url in page.fetched and parts.scheme != "data":
                    wrong.append(f"{at}: fetched from elsewhere: {url}")
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.is_file():
                wrong.append(f"{at}: dead link: {url}")
            elif parts.fragment and target in pages and unquote(
                    parts.fragment) not in pages[target].ids | {"__skip"}:
                wrong.append(f"{at}: dead link: {url}: no such section")
    for sheet in site.rglob("*.css"):
        wrong += [
            f"{sheet.relative_to(site)}: fetched from elsewhere: {url}"
            for url in re.findall(r"""(?:url\(|@import )['"]?((?:https?:)?//[^'")\s]+)""",
                                  sheet.read_text(errors="replace"))
        ]
    return wrong
