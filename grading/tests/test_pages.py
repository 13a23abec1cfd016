"""`make test-pages`: a class's pages in headless Chromium, wide and narrow, light and dark: sorted,
searched, opened, and looked at by axe-core.

The pages' pictures are in build/tests/pages/. axe-core comes from npm; without npm its part is
skipped.
"""

from __future__ import annotations

import shutil
import subprocess
import tarfile
import unittest
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from grading.classroom import likeness, one, pages
from grading.classroom.intake import Taken
from grading.classroom.layouts import Submission
from grading.classroom.results import Row
from grading.tests import test_classroom as classroom
from qemu.machine import ARCHES, ROOT

try:
    from selenium import webdriver  # type: ignore[import]
    from selenium.webdriver.chrome.service import Service  # type: ignore[import]
    from selenium.webdriver.common.by import By  # type: ignore[import]
    from selenium.webdriver.common.keys import Keys  # type: ignore[import]
except ImportError:
    pass  # setUpClass skips the tests

PICTURES = ROOT / "build/tests/pages"
AXE = ROOT / "build/axe-core"
SCREENS = [(width, scheme) for width in (1280, 390) for scheme in ("light", "dark")]
NAMES = ("Ann", "bo", "Zoë Öz", "a student with a long name that has many words in it",
         "<b>Eve</b>", "x" * 60)


def axe() -> str:
    """The program; "": it cannot be had."""
    script = AXE / "package/axe.min.js"
    if not script.exists() and shutil.which("npm"):
        AXE.mkdir(parents=True, exist_ok=True)
        packed = subprocess.run(["npm", "pack", "--silent", "axe-core@4"], cwd=AXE,
                                capture_output=True, text=True, check=False).stdout.strip()
        if packed:
            with tarfile.open(AXE / packed) as tar:
                tar.extract("package/axe.min.js", AXE)
    return script.read_text() if script.exists() else ""


class Pages(classroom.WithFolder):
    @classmethod
    def setUpClass(cls) -> None:
        if not find_spec("selenium") or not shutil.which("chromedriver"):
            print("skipped: a class's pages in Chromium: make test-pages installs it")
            raise unittest.SkipTest("Chromium is not installed")

    def setUp(self) -> None:
        super().setUp()
        PICTURES.mkdir(parents=True, exist_ok=True)
        self.write()
        options = webdriver.ChromeOptions()
        for word in ("--headless=new", "--no-sandbox", "--disable-gpu",
                     "--force-device-scale-factor=1"):
            options.add_argument(word)
        self.browser = webdriver.Chrome(service=Service(shutil.which("chromedriver") or ""),
                                        options=options)
        self.addCleanup(self.browser.quit)

    def write(self) -> None:
        """A class with each kind of result."""
        maker = classroom.Results()
        maker.folder = self.folder
        rows = []
        for n, name in enumerate(NAMES):
            made = maker.row(name)
            row = replace(made, submission=Submission(f"s{n}", name, str(n), Path(f"s{n}"), n == 2))
            row = replace(
                row, result=row.result | {"points": 4 * n, "flaky": n == 1} |
                ({"state": "harness error", "points": None, "arches": []} if n == 5 else {}))
            if n == 2:
                row = replace(
                    row, result=row.result | {
                        "arches": row.result["arches"][1:],
                        "said": "kern/x.S:26: bad instruction\nbuild failure: kern/x.S: it does "
                                "not compile\n"
                    })
            (self.folder / f"students/s{n}").mkdir(parents=True)
            rows.append(row)
        one.write(self.folder, rows[0].result["key"], rows[0].result, self.folder)
        pages.write(self.folder, 3, rows)
        alike = Taken({"kern/x.c": f"{classroom.Likeness.OWN}// <script>\n".encode()})
        likeness.write(self.folder, 3, [
            Row(Submission(name, name, "", Path()), alike, {"key": name}, [])
            for name in ("ann", "bo")
        ], {"kern/x.c": b""}, {"kern/x.c": b"int x;\n"}, self.folder)

    @contextmanager
    def shown(self, page: str, width: int, scheme: str) -> Iterator[None]:
        with self.subTest(page, width=width, scheme=scheme):
            self.browser.execute_cdp_cmd(
                "Emulation.setDeviceMetricsOverride",
                {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600})
            self.browser.execute_cdp_cmd(
                "Emulation.setEmulatedMedia",
                {"features": [{"name": "prefers-color-scheme", "value": scheme}]})
            self.browser.get((self.folder / page).as_uri())
            yield
            self.browser.save_screenshot(str(PICTURES / f"{Path(page).stem}-{width}-{scheme}.png"))
            self.assertLessEqual(
                self.browser.execute_script("return document.documentElement.scrollWidth"), width,
                "the page is wider than the screen")

    def column(self, at: int) -> list[str]:
        return [
            cell.text.split("\n")[0] for cell in self.browser.find_elements(
                By.CSS_SELECTOR,
                f"#class tbody:not([hidden]) tr:first-child td:nth-child({at + 1})")
        ]

    def test_the_instructor_s_page_is_used(self) -> None:
        for width, scheme in SCREENS:
            with self.shown("index.html", width, scheme):
                heads = self.browser.find_elements(By.CSS_SELECTOR, "#class thead button")
                self.assertEqual([head.text for head in heads],
                                 ["student", "state", "points", *ARCHES, "first error"])
                heads[2].click()
                self.assertEqual(self.column(2), ["/20", "0/20", "4/20", "8/20", "12/20", "16/20"])
                heads[2].send_keys(Keys.ENTER)
                self.assertEqual(self.column(2), ["16/20", "12/20", "8/20", "4/20", "0/20", "/20"])
                search = self.browser.find_element(By.ID, "search")
                search.send_keys("EVE")
                self.assertEqual((self.column(0), self.browser.find_element(By.ID, "count").text),
                                 (["s4"], "1 shown"))
                search.send_keys(Keys.BACKSPACE * 3)
                self.assertEqual(len(self.column(0)), len(NAMES))
                name = self.browser.find_element(By.CSS_SELECTOR, "#class button.name")
                name.send_keys(Keys.ENTER)
                self.assertEqual(name.get_attribute("aria-expanded"), "true")
                detail = self.browser.find_element(By.CSS_SELECTOR,
                                                   "#class tbody:first-of-type td.detail")
                self.assertIn("<script>alert(1)</script>", detail.text)
                detail.find_element(By.CSS_SELECTOR, "summary").click()
                self.assertIn("log <script>",
                              detail.find_element(By.CSS_SELECTOR, "details pre").text)

    def test_axe_finds_nothing_serious(self) -> None:
        if not (script := axe()):
            self.skipTest("npm cannot fetch axe-core")
        for width, scheme in SCREENS:
            for page in ("index.html", "likeness.html", "students/s2/feedback.html"):
                with self.shown(page, width, scheme):
                    for closed in self.browser.find_elements(By.CSS_SELECTOR,
                                                             "button.name, summary")[:2]:
                        closed.click()
                    self.browser.execute_script(script)
                    found: list[dict[str, Any]] = self.browser.execute_async_script(
                        "axe.run().then(found => arguments[0](found.violations))")
                    self.assertEqual([(v["impact"], v["id"], v["nodes"][0]["html"][:200])
                                      for v in found], [])


if __name__ == "__main__":
    unittest.main()
