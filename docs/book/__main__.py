"""Builds the book: pages and pictures into build/book, the site into build/docs, and looks whether
it is whole."""
from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from docs.book import pages, site
from qemu import disk

ROOT = Path(__file__).resolve().parents[2]


def draw(book: pages.Book) -> None:
    out = book.out / "pictures"
    out.mkdir(parents=True, exist_ok=True)
    for dot in sorted((book.root / "docs/pictures").glob("*.dot")):
        svg = out / f"{dot.stem}.svg"
        if not svg.is_file() or svg.stat().st_mtime <= dot.stat().st_mtime:
            done = subprocess.run(["dot", "-Tsvg", dot], capture_output=True, text=True,
                                  check=False)
            if done.returncode or done.stderr.strip():
                book.errors.append(f"docs/pictures/{dot.name}: {done.stderr.strip()}")
            else:
                disk.write_whole(svg, done.stdout)


def configure(book: pages.Book) -> Path:
    """docs/mkdocs.yml with the handouts in their place."""
    text = (book.root / "docs/mkdocs.yml").read_text()
    if book.handed_out:  # without some pages
        text = "".join(
            line for line in text.splitlines(True)
            if not line.strip().endswith(".md") or line.split()[-1] in book.sources().values())
    labs = "\n".join(f"      - {book.sources()[h]}" for h in book.handouts())
    config = book.out.parent / "mkdocs.yml"
    config.write_text(text.replace("      # the handouts", labs))
    (book.out / "book.css").write_text((book.root / "docs/book.css").read_text())
    return config


def build(book: pages.Book) -> None:
    draw(book)
    if book.errors:
        return
    done = subprocess.run(
        ["mkdocs", "build", "--quiet", "--clean", "--strict", "-f",
         configure(book)], stderr=subprocess.PIPE, text=True, check=False)
    full = disk.told(done.stderr, ROOT / "build") if done.returncode else ""
    if not full:
        sys.stderr.write(done.stderr)
    if done.returncode:
        book.errors.append(f"mkdocs: {full or 'the site was not built'}")
    else:
        book.errors += site.check(ROOT / "build/docs")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stage", action="store_true",
                        help="the pages alone: what needs no mkdocs")
    stage_only = parser.parse_args().stage
    book = pages.Book(ROOT, ROOT / "build/book/pages")
    pages.stage(book)
    if not stage_only and not book.errors:
        build(book)
    for error in book.errors:
        print(error, file=sys.stderr)
    if not book.errors:
        print(
            f"The book: build/{'book/pages' if stage_only else 'docs/index.html'}, "
            f"{len(book.sources())} pages."
        )
    return 1 if book.errors else 0


if __name__ == "__main__":
    sys.exit(disk.ended(main, "docs", 1, ROOT / "build/book"))
