"""Photographs the console of a lively demo with a real browser, into docs/images.

    make pictures ARGS=console

The stations send for some minutes first, so that there is something to see.
"""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

# Its name is in the pictures.
FOLDER = Path("/tmp/rain")
LIVELY_SECONDS = 420
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@dataclass(frozen=True)
class Photo:
    """A page, how one gets there from the start page, and how high the picture is."""

    name: str
    path: str
    clicks: tuple[str, ...] = ()
    dark: bool = False
    wide: int = 1280
    high: int = 860


_CHANGE = "main table a[href^='/changes/']"
_LIFE = "main a[href^='/entries/']"
PHOTOS = (
    Photo("console-now", "/", high=900),
    Photo("console-change", "/changes?outcome=finalized", clicks=(_CHANGE,)),
    Photo("console-quarantine", "/quarantine", dark=True, high=640),
    Photo("console-entry", "/changes?outcome=finalized", clicks=(_CHANGE, _LIFE), dark=True),
    Photo("console-phone", "/", wide=390, high=844),
)


def photographs(images: Path) -> Iterator[Path]:
    """Take them all; the files."""
    browser = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if browser is None:
        sys.exit("the console is photographed with Chromium: install your system's package")
    with _lively() as link, sync_playwright() as playwright:
        time.sleep(LIVELY_SECONDS)
        opened = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        context = opened.new_context(device_scale_factor=1.5)
        page = context.new_page()
        page.goto(link)
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_load_state("load")
        for photo in PHOTOS:
            yield _take(page, link.partition("/login")[0], photo, images)
        opened.close()


def _take(page: Page, url: str, photo: Photo, images: Path) -> Path:
    page.set_viewport_size({"width": photo.wide, "height": photo.high})
    page.emulate_media(color_scheme="dark" if photo.dark else "light")
    page.goto(url + photo.path)
    for click in photo.clicks:
        page.locator(click).first.click()
        page.wait_for_load_state("load")
    file = images / f"{photo.name}.png"
    page.screenshot(path=file)
    return file


@contextmanager
def _lively() -> Iterator[str]:
    """`headgate demo --serve`; the link that signs in to its console."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(mode=0o755)
    running = subprocess.Popen(
        [sys.executable, "-m", "headgate", "demo", ".", "--serve"],
        cwd=FOLDER, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert running.stdout is not None
    try:
        said = [line for line in iter(running.stdout.readline, "   Ctrl-C ends it.\n") if line]
        links = [found[0] for line in said if (found := re.search(r"http://\S+ticket=\S+", line))]
        yield links[-1]
    finally:
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=120)
        shutil.rmtree(FOLDER, ignore_errors=True)
