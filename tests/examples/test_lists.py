"""The examples of prefixes and manifests do what their pages say."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.world import World

EXAMPLES = Path(__file__).parents[2] / "examples"


def copied(name: str, world: World) -> Path:
    """A copy of an example's folder."""
    folder = world.folder / name
    shutil.copytree(EXAMPLES / name, folder)
    return folder


def up(folder: Path, world: World) -> list[str]:
    """`headgate up pipeline.py --until-idle`; the lines it says that are on its page."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("HEADGATE_")}
    said = subprocess.run(
        [sys.executable, "-m", "headgate", "up", "pipeline.py", "--until-idle", "--workers", "1"],
        cwd=folder,
        env={
            **clean,
            "HEADGATE_DATABASE_URL": world.url,
            "HEADGATE_HOME": str(folder / ".headgate"),
        },
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert said.returncode == 0, said.stderr
    page = (folder / "README.md").read_text()
    return [line for line in said.stdout.splitlines() if line and line in page]


async def test_a_prefix_is_polled_as_the_page_says(world: World):
    """Two files below the prefix become rows; a third, left out by the suffix, does not."""
    folder = copied("prefix", world)
    assert len(up(folder, world)) == 2
    assert await world.count("reading") == 3


async def test_a_manifest_is_followed_as_the_page_says(world: World):
    """What it names is read; a file that is not in it is not; half of it changes nothing."""
    folder = copied("manifest", world)
    assert len(up(folder, world)) == 2
    assert await world.count("station") == 3
    changed = b'{"name": "Oslo", "height": 95}\n'
    (folder / "lists/stations/oslo.json").write_bytes(changed)
    list_file = folder / "lists/manifest.csv"
    header, _, bern, _ = list_file.read_text().splitlines()
    row = f"stations/oslo.json,{hashlib.sha256(changed).hexdigest()},{len(changed)}"
    list_file.write_text("\n".join([header, row, bern, ""]))
    up(folder, world)
    assert await world.table("station", "name", "height") == [("Bern", 553), ("Oslo", 95)]
