"""Finding pipelines: in a file, in the files of a folder, or in an importable module."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
from collections.abc import Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import NoReturn

from headgate.errors import HeadgateError, PipelineError
from headgate.model.pipeline import Pipeline


def load(target: str) -> list[Pipeline]:
    """The pipelines of `target`: `rain.py`, a folder, or `package.module[:name]`.

    Raises `PipelineError` that names the file and the line when it cannot be imported.
    """
    path = Path(target)
    if path.is_dir():
        found = [p for file in sorted(path.glob("*.py")) for p in _in_module(_from_file(file))]
        where = f"no file in {path.resolve()} declares a pipeline"
    elif target.endswith(".py") or path.exists():
        if not path.is_file():
            raise PipelineError(f"there is no file {path.resolve()}", hint="check the path")
        found = list(_in_module(_from_file(path)))
        where = f"{path} declares no pipeline"
    else:
        found = _from_name(target)
        where = f"{target} declares no pipeline"
    if not found:
        raise PipelineError(where, hint='write: rain = hg.Pipeline("rain", sources=[...])')
    names = [p.name for p in found]
    if twice := next((n for n in names if names.count(n) > 1), None):
        raise PipelineError(f"two pipelines are called {twice!r}", hint="rename one of them")
    return found


def file_of(pipeline: Pipeline) -> Path | None:
    """The file that declares a loaded pipeline; None when no module has it."""
    for module in list(sys.modules.values()):
        # A module may be anything that somebody put there.
        if any(value is pipeline for value in list(getattr(module, "__dict__", {}).values())):
            file = getattr(module, "__file__", None)
            return None if file is None else Path(file)
    return None


class _AsItStands(SourceFileLoader):
    """Compiles the file that is there now.

    Python's cache takes a file for the one it knows if it was edited within the same second and is
    as long as before. What runs, and what is told about it, must be what is written.
    """

    def path_stats(self, path: str) -> NoReturn:
        raise OSError("not cached")


def _from_file(path: Path) -> ModuleType:
    path = path.resolve()
    name = path.stem
    # Handlers import their neighbours as they would when run by python itself.
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    loaded = sys.modules.get(name)
    if loaded is not None and getattr(loaded, "__file__", None) == str(path):
        return loaded
    if loaded is not None:  # a pipeline called json.py must not replace the library
        name = f"headgate_pipeline_{name}"
    loader = _AsItStands(name, str(path))
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    if spec is None or spec.loader is None:
        raise PipelineError(f"{path} is not a Python file", hint="give a .py file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        sys.modules.pop(name, None)
        raise _cannot_import(str(path), error) from error
    return module


def _from_name(target: str) -> list[Pipeline]:
    module_name, _, attribute = target.partition(":")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        module = importlib.import_module(module_name)
    except BaseException as error:
        if isinstance(error, ModuleNotFoundError) and error.name == module_name.partition(".")[0]:
            raise PipelineError(
                f"there is no file and no module called {target!r}",
                hint="give a .py file, a folder, or package.module:pipeline",
            ) from error
        raise _cannot_import(target, error) from error
    if not attribute:
        return list(_in_module(module))
    found = getattr(module, attribute, None)
    if not isinstance(found, Pipeline):
        names = ", ".join(n for n, v in vars(module).items() if isinstance(v, Pipeline)) or "none"
        raise PipelineError(f"{module_name} has no pipeline {attribute!r}", hint=f"it has: {names}")
    return [found]


def _in_module(module: ModuleType) -> Iterator[Pipeline]:
    seen: set[int] = set()
    for value in vars(module).values():
        if isinstance(value, Pipeline) and id(value) not in seen:
            seen.add(id(value))
            yield value


def _cannot_import(where: str, error: BaseException) -> PipelineError:
    if isinstance(error, (KeyboardInterrupt, GeneratorExit)):
        raise error
    frames = traceback.extract_tb(error.__traceback__)
    ours = str(Path(__file__).parent.parent)
    own = [f for f in frames if "importlib" not in f.filename and not f.filename.startswith(ours)]
    line = f", line {own[-1].lineno} of {Path(own[-1].filename).name}" if own else ""
    if isinstance(error, SyntaxError) and error.lineno:
        line = f", line {error.lineno}"
    hint = (
        error.hint if isinstance(error, HeadgateError) else "fix it and run again; nothing was lost"
    )
    said = str(error) if isinstance(error, HeadgateError) else f"{type(error).__name__}: {error}"
    return PipelineError(f"{where} cannot be imported{line}: {said}", hint=hint)
