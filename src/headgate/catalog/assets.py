"""The assets of a STAC item: the files that readers can have, and the run's own files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headgate.model.facts import Facts, File
from headgate.model.mask import mask_uri

from .hrefs import Hrefs

PROV = "application/ld+json"
# Files of the run that made it: key, file, type, title.
RUN_FILES = (
    ("provenance", "provenance.prov.jsonld", PROV, "Provenance of this version"),
    ("qa", "qa.json", "application/json", "What was checked, and what came of it"),
)

_TAKEN = frozenset(key for key, *_ in RUN_FILES)


def assets(parts: Sequence[Facts], hrefs: Hrefs) -> dict[str, Any]:
    """All assets, by key. A handler may say more about a file, not where it is nor what."""
    made: dict[str, Any] = {}
    for part, prefix in zip(parts, _prefixes(parts), strict=True):
        files = readable(part)
        keys = {file.name: _key(file.name, prefix) for file in files}
        added: Mapping[str, Any] = part.item.assets if part.item is not None else {}
        for name, asset in added.items():
            made[keys.get(name, prefix + name)] = dict(asset)
        for file in files:
            key = keys[file.name]
            made[key] = {**made.get(key, {}), **_file(part, file, made.get(key, {}), hrefs)}
        for key, name, kind, title in RUN_FILES:
            made[prefix + key] = {
                "href": hrefs.run(part.store, part.run, name),
                "type": kind,
                "title": title,
                "roles": [key],
            }
    return made


def readable(facts: Facts) -> tuple[File, ...]:
    """The files of a publication that lie in its store."""
    version = facts.version
    if version is None:
        return ()
    return tuple(f for f in version.files if f.name != "data" or not version.inline)


def _file(facts: Facts, file: File, said: Mapping[str, Any], hrefs: Hrefs) -> dict[str, Any]:
    made: dict[str, Any] = {
        "href": hrefs.file(facts.store, file),
        "type": said.get("type") or file.media_type,
        "roles": said.get("roles") or ["data"],
        # A multihash: SHA-256 (0x12), 32 bytes (0x20), the digest.
        "file:checksum": f"1220{file.digest}",
        "checksum:sha256": f"sha256:{file.digest}",
    }
    if file.size is not None:
        made["file:size"] = file.size
    return made


def _key(name: str, prefix: str) -> str:
    """An artifact must not hide the files of the run."""
    return f"{prefix}artifact-{name}" if name in _TAKEN else prefix + name


def _prefixes(parts: Sequence[Facts]) -> list[str]:
    """Of several parts each has keys of its own, by the last part of its uri."""
    if len(parts) == 1:
        return [""]
    names = [mask_uri(part.envelope.uri).rstrip("/").rpartition("/")[2] for part in parts]
    return [
        f"{name}/" if names.count(name) == 1 else f"{name}-{names[:n].count(name) + 1}/"
        for n, name in enumerate(names)
    ]
