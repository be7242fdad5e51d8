"""The user's files stay as they are, and the handler does not notice."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headgate.runtime.prove import fence

from .conftest import Watched


def _files(folder: Path) -> dict[str, bytes]:
    return {str(f.relative_to(folder)): f.read_bytes() for f in folder.rglob("*") if f.is_file()}


CHANGES = """
    import bz2, glob, io, os, shutil, sqlite3, tempfile
    from pathlib import Path

    H = Path("HOME")

    def refused(what):
        try:
            what()
        except OSError as error:
            return type(error).__name__
        return "allowed"

    @p.rows("fact", key="name", schema=Fact)
    def facts(obj):
        said = {}
        with open(H / "audit.log", "a") as audit:  # appended
            audit.write("+")
        said["appended"] = (H / "audit.log").read_text()
        (H / "new.txt").write_text("new")
        os.remove(H / "old.txt")
        said["listed"] = sorted(os.listdir(H))
        said["walked"] = sorted(f.name for f in H.rglob("*"))
        said["globbed"] = sorted(os.path.basename(f) for f in glob.glob(str(H / "*.txt")))
        said["removed"] = (H / "old.txt").exists()
        os.rename(H / "count", H / "sub" / "count")
        said["moved"] = [(H / "count").exists(), (H / "sub" / "count").read_text()]
        shutil.rmtree(H / "sub")
        (H / "sub").mkdir()
        said["emptied"] = os.listdir(H / "sub")
        (H / "deep" / "er").mkdir(parents=True)
        with bz2.open(H / "deep" / "er" / "z.bz2", "wt") as z:
            z.write("z")
        base = sqlite3.connect(H / "base.db")
        base.execute("CREATE TABLE t (a)")
        base.close()
        os.link(H / "audit.log", "linked")
        with open("linked", "a") as linked:
            linked.write("through a second name")
        os.symlink(H / "audit.log", "pointing")
        with open("pointing", "a") as pointing:
            pointing.write("!")
        said["pointed"] = (H / "audit.log").read_text()
        os.chdir(H)
        Path("relative").write_text("r")
        os.truncate("audit.log", 1)
        os.chmod("audit.log", 0o600)
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "x").write_text("x")
        said["again"] = [refused(lambda: (H / "sub").mkdir()), refused(lambda: open("old.txt"))]
        said["nowhere"] = refused(lambda: open(H / "no" / "x", "w"))
        said["raw"] = refused(lambda: io.FileIO(str(H / "audit.log"), "w"))
        said["uri"] = refused(lambda: sqlite3.connect("file:HOME/base.db", uri=True))
        for name, value in said.items():
            yield {"name": name, "value": str(value)}

    @p.transform
    def made(obj):
        return {"made": H / "new.txt"}
"""


def _furnish(home: Path) -> dict[str, bytes]:
    (home / "sub").mkdir()
    for name in ("audit.log", "old.txt", "count", "sub/inner"):
        (home / name).write_text(name[0])
    return _files(home)


def test_what_a_handler_does_to_files_happens_to_copies(watched: Watched) -> None:
    """Written, moved and removed as the handler sees it; at home not a byte has changed."""
    before = _furnish(watched.home)
    seen = watched(CHANGES)
    assert seen.outcomes == ["finalized"]
    assert _files(watched.home) == before
    assert seen.facts == {
        "appended": "a+",
        "listed": "['audit.log', 'count', 'new.txt', 'sub']",
        "walked": "['audit.log', 'count', 'inner', 'new.txt', 'sub']",
        "globbed": "['new.txt']",
        "removed": "False",
        "moved": "[False, 'c']",
        "emptied": "[]",
        "pointed": "a+!",
        "again": "['FileExistsError', 'FileNotFoundError']",
        "nowhere": "FileNotFoundError",
        "raw": "FileShut",
        "uri": "FileShut",
    }
    assert [name for name, _ in seen.artifacts] == ["made"], "Headgate reads the copy, too"
    appended = seen.of("file")[0]
    assert appended["line"] == seen.line("# appended")
    assert appended["detail"]["mode"] == "a"
    assert appended["detail"]["path"] == str(watched.home / "audit.log")
    assert Path(appended["detail"]["shadow"]).read_text() == "a"
    refused = [r["code"] for r in seen.of("file") if r["detail"].get("refused")]
    assert [code.split("[")[1][1:4] for code in refused] == ["raw", "uri"]


def test_the_next_process_finds_what_the_last_one_left(watched: Watched) -> None:
    """A counter in a file counts on after a crash, as it would at home. That is how it is found."""
    (watched.home / "count").write_text("7")
    (watched.home / "old").write_text("old")
    source = """
        from pathlib import Path

        @p.rows("fact", key="name", schema=Fact)
        def counted(obj):
            count = Path("HOME/count")
            count.write_text(str(int(count.read_text()) + 1))  # counts
            old = Path("HOME/old")
            yield {"name": "old", "value": str(old.exists())}
            old.unlink(missing_ok=True)
            yield {"name": "count", "value": count.read_text()}
    """
    first = watched(source)
    second = watched(source, after=first)
    assert first.facts == {"count": "8", "old": "True"}
    assert second.facts == {"count": "9", "old": "False"}
    assert _files(watched.home) == {"count": b"7", "old": b"old"}
    assert {r["line"] for r in second.of("file") if r["detail"]["mode"] == "w"} == {
        second.line("# counts")
    }


def test_other_programs_and_c_code_cannot_write_at_home(watched: Watched) -> None:
    """What Python cannot see, the kernel refuses: a shell's redirection, a library's own open."""
    if not _has_fence():
        pytest.skip("this kernel has no Landlock")
    (watched.home / "kept").write_text("kept")
    seen = watched(
        """
        import ctypes, os, subprocess

        @p.rows("fact", key="name", schema=Fact)
        def facts(obj):
            shell = subprocess.run("echo x > HOME/kept", shell=True, capture_output=True)
            yield {"name": "shell", "value": str(shell.returncode != 0)}
            here = subprocess.run("echo x > here", shell=True, capture_output=True)
            yield {"name": "here", "value": open("here").read().strip()}
            number = ctypes.CDLL(None).open(b"HOME/kept", os.O_WRONLY | os.O_TRUNC)
            yield {"name": "libc", "value": str(number)}
        """
    )
    assert seen.facts == {"shell": "True", "here": "x", "libc": "-1"}
    assert _files(watched.home) == {"kept": b"kept"}
    assert [r["detail"]["command"][:10] for r in seen.of("process")] == ["/bin/sh -c"] * 2


def _has_fence() -> bool:
    """Asked in a child: the fence does not come down again."""
    pid = os.fork()
    if pid == 0:
        os._exit(0 if fence.raise_around([Path("/tmp")]) else 1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
