"""Other distributions bring stores, sources and sinks; a broken one is named and hurts nobody."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from headgate import plugins
from headgate.errors import ConfigError
from headgate.stores import FileStore, open_store

GOOD = """
from headgate.stores import FileStore

def open_store(uri):
    return FileStore("/tmp/" + uri.partition("://")[2])

class Feed:
    def check(self): ...
    def owns(self, uri): return False
    def fetch(self, envelope): return ()
"""


def install(site: Path, name: str, code: str, **points: str) -> None:
    """A distribution as an installer leaves it: a module, and a folder of metadata beside it."""
    module = name.replace("-", "_")
    (site / f"{module}.py").write_text(code)
    info = site / f"{module}-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n")
    groups = [f"[headgate.{group}]\n{line.format(m=module)}\n" for group, line in points.items()]
    (info / "entry_points.txt").write_text("\n".join(groups))


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of installed distributions."""
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_a_store_is_found_by_its_scheme(site: Path) -> None:
    """`store="shelf://lake"` opens what the distribution says."""
    install(site, "good-shelf", GOOD, stores="shelf = {m}:open_store")
    store = open_store("SHELF://lake")
    assert isinstance(store, FileStore)
    with pytest.raises(ConfigError, match="other://"):
        open_store("other://lake")


def test_a_broken_plugin_is_named_and_breaks_no_other(site: Path) -> None:
    """The message says which distribution it is, and the others work."""
    install(site, "good-feed", GOOD, sources="feed = {m}:Feed", stores="shelf2 = {m}:open_store")
    install(site, "bad-import", "raise RuntimeError('no licence')", stores="bad = {m}:open_store")
    install(site, "bad-exit", "raise SystemExit(1)", sinks="leave = {m}:Sink")
    install(site, "bad-name", "", sources="gone = {m}:Nothing")
    install(site, "bad-shape", "class Feed: ...", sources="shape = {m}:Feed")
    assert isinstance(open_store("shelf2://lake"), FileStore)
    with pytest.raises(ConfigError, match=r"plugin bad \(stores\) of bad-import 1\.2 .*no licence"):
        open_store("bad://lake")
    state = {p.name: _problem(p) for p in plugins.installed() if p.name not in ("shelf",)}
    assert state["feed"] is None
    assert "no licence" in (state["bad"] or "")
    assert "bad-exit 1.2" in (state["leave"] or "")
    assert "Nothing" in (state["gone"] or "")
    assert "it has no check" in (state["shape"] or "")


def test_a_scheme_that_two_distributions_claim_is_refused(site: Path) -> None:
    """Which of them was meant, nobody can know."""
    for name in ("first-one", "second-one"):
        install(site, name, GOOD, stores="twice = {m}:open_store")
    with pytest.raises(ConfigError, match=r"first-one 1\.2 and second-one 1\.2"):
        open_store("twice://lake")


def test_headgate_plugins_lists_them(tmp_path: Path) -> None:
    """With the distribution each comes from; exit code 1 when one cannot be used."""

    def run(*args: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "headgate", "plugins", *args],
            env={**os.environ, "PYTHONPATH": str(tmp_path)},
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )

    none = run()
    assert (none.returncode, none.stdout, none.stderr) == (0, "", "No plugins are installed.\n")
    install(tmp_path, "good-shelf", GOOD, stores="shelf = {m}:open_store")
    fine = run("--json")
    assert fine.returncode == 0
    assert json.loads(fine.stdout) == {
        "plugins": [
            {
                "kind": "stores",
                "name": "shelf",
                "from": "good-shelf 1.2",
                "is": "good_shelf:open_store",
                "problem": None,
            }
        ]
    }
    install(tmp_path, "bad-import", "import nowhere", sources="bad = {m}:Feed")
    bad = run()
    assert bad.returncode == 1
    assert "No module named 'nowhere'" in bad.stdout
    assert "good-shelf 1.2" in bad.stdout


def _problem(plugin: plugins.Plugin) -> str | None:
    try:
        plugin.load()
    except ConfigError as error:
        return str(error)
    return None
