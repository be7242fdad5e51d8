"""Suites and checkpoints of Great Expectations: tables of pandas.

Only expectations are asked: of a checkpoint its suites, and none of its actions, since a check does
nothing outside. Each object is looked at in a context of its own that is kept nowhere.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import version
from typing import Any

import orjson

from headgate.errors import PipelineError
from headgate.model.facts import Check
from headgate.model.object import Object

from .frame import BROKEN, Read, frame_of

KIND = "great_expectations"
OLDEST = (1, 24)
# A new context takes the place of the process' one, and validation asks for that.
_ONE_AT_A_TIME = threading.Lock()


class Framed:
    """A suite, a single expectation, a validation definition or a checkpoint as a check."""

    kind = KIND

    def __init__(self, given: Any, read: Read | None) -> None:
        _must_be_silent(version("great-expectations"))
        self._expectations = list(_expectations(given))
        if not self._expectations:
            raise PipelineError(
                f"validate: {given.name} expects nothing", hint="add expectations to its suite"
            )
        self.name: str = getattr(given, "name", None) or KIND
        # Its ids are made by chance, anew in every process.
        told = [_plain(expectation) for expectation in self._expectations]
        self.content = orjson.dumps(told, option=orjson.OPT_SORT_KEYS).decode()
        self._read = read

    def examine(self, obj: Object, name: str) -> Iterator[Check]:
        """Hold an object against it."""
        frame = frame_of(obj, self._read, "pandas")
        with _ONE_AT_A_TIME:
            batch = _batch(frame)
            results = [
                batch.validate(expectation, result_format="BASIC")
                for expectation in self._expectations
            ]
        for result in results:
            yield _said(result, name)


def _expectations(given: Any) -> Iterator[Any]:
    if hasattr(given, "validation_definitions"):
        for definition in given.validation_definitions:
            yield from definition.suite.expectations
    elif hasattr(given, "suite"):
        yield from given.suite.expectations
    elif hasattr(given, "expectations"):
        yield from given.expectations
    else:
        yield given


def _plain(expectation: Any) -> dict[str, Any]:
    told = expectation.configuration.to_json_dict()
    return {"type": told["type"], "kwargs": told["kwargs"]}


def _batch(frame: Any) -> Any:
    gx: Any = import_module("great_expectations")
    base: Any = import_module("great_expectations.data_context.types.base")
    config = base.DataContextConfig(
        store_backend_defaults=base.InMemoryStoreBackendDefaults(init_temp_docs_sites=False),
        progress_bars=base.ProgressBarsConfig(globally=False),
        analytics_enabled=False,
    )
    context = gx.get_context(mode="ephemeral", project_config=config)
    asset = context.data_sources.add_pandas("headgate").add_dataframe_asset("object")
    return asset.add_batch_definition_whole_dataframe("all").get_batch({"dataframe": frame})


def _said(result: Any, name: str) -> Check:
    config, found = result.expectation_config, result.result
    columns = [config.kwargs.get(key) for key in ("column", "column_A", "column_B", "column_list")]
    about = " ".join(str(column) for column in columns if column is not None)
    told = f"{name}: {config.type}{f' {about}' if about else ''}"
    examined, failed = _count(found, "element_count"), _count(found, "unexpected_count")
    if result.success:
        return Check(told, True, KIND, examined=examined, failed=failed)
    text = _trouble(result.exception_info)
    if text is None and failed is not None:
        text = f"{failed} of {examined} failed"
    if text is None:
        text = f"found {found['observed_value']}" if "observed_value" in found else "it is not so"
    return Check(told, False, KIND, BROKEN, text, examined, failed)


def _count(found: Any, what: str) -> int | None:
    return int(found[what]) if found.get(what) is not None else None


def _trouble(info: Any) -> str | None:
    """What kept an expectation from being asked, as when its column is not there."""
    if info and "raised_exception" not in info:
        info = min(info.values(), key=lambda one: str(one.get("exception_message")))
    return info.get("exception_message") if info and info.get("raised_exception") else None


def _must_be_silent(installed: str) -> None:
    if tuple(map(int, re.findall(r"\d+", installed)[:2])) < OLDEST:
        raise PipelineError(
            f"validate: great_expectations {installed} is too old",
            hint="use 1.24 or newer: older ones may report their use to their makers",
        )
