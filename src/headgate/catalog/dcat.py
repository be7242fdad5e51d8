"""DCAT 3 as JSON-LD: a dataset series per collection, a dataset with its distributions per item.

The context is inside the document, and whatever is pointed to says what it is: nothing has to be
fetched to read a document, or to check it against DCAT-AP.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

from headgate.model.dataset import Dataset
from headgate.model.facts import Facts, File

from . import hrefs as layout
from . import names
from .assets import readable
from .hrefs import Hrefs
from .render import iri, moment, said
from .stac import Extent, description_of, shown_item, shown_version, title_of
from .together import together

ACCESS = "http://publications.europa.eu/resource/authority/access-right/"
STATUS = "http://publications.europa.eu/resource/authority/dataset-status/"
MEDIA_TYPES = "https://www.iana.org/assignments/media-types/"
SPDX_LICENSES = "https://spdx.org/licenses/"

CONTEXT: dict[str, Any] = {
    "adms": "http://www.w3.org/ns/adms#",
    "dcat": "http://www.w3.org/ns/dcat#",
    "dct": "http://purl.org/dc/terms/",
    "foaf": "http://xmlns.com/foaf/0.1/",
    "geo": "http://www.opengis.net/ont/geosparql#",
    "prov": "http://www.w3.org/ns/prov#",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "spdx": "http://spdx.org/rdf/terms#",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
}

Document = dict[str, Any]


def series(dataset: Dataset, extent: Extent, hrefs: Hrefs, *, name: str | None = None) -> Document:
    """A collection as a dcat:DatasetSeries."""
    name = name or dataset.name
    at = hrefs.seen_from(layout.series_name(name))
    return {
        "@context": CONTEXT,
        "@id": names.series(name),
        "@type": "dcat:DatasetSeries",
        "dct:identifier": name,
        "dct:title": title_of(dataset),
        "dct:description": description_of(dataset),
        **_rights(dataset),
        **_where(extent.bbox),
        **_when(extent.start, extent.end),
        "rdfs:seeAlso": {"@id": at.collection(name)},
    }


def dataset(parts: Sequence[Facts], hrefs: Hrefs) -> Document:
    """An item as a dcat:Dataset of its series."""
    items = [shown_item(part) for part in parts]
    collection, id = items[0].collection, items[0].id
    about = parts[0].dataset or Dataset(collection)
    at = hrefs.seen_from(layout.dataset_name(collection, id))
    me, number = names.item(collection, id), sum(shown_version(p).number for p in parts)
    newest = max(parts, key=lambda part: (part.position, part.entry))
    _, bbox = together(items)
    added: Document = {}
    for shown in items:
        added |= shown.properties
    made: Document = {
        "@context": CONTEXT,
        "@id": me,
        "@type": "dcat:Dataset",
        "dct:identifier": id,
        "dct:title": added.get("title") or f"{title_of(about)}: {id}",
        "dct:description": added.get("description") or description_of(about),
        **_rights(about),
        **_where(bbox),
        **_when(min(i.start for i in items), max(i.end for i in items)),
        "dct:source": [_source(part) for part in parts],
        "dct:modified": _time(newest.at),
        "dcat:inSeries": {
            "@id": names.series(collection),
            "@type": "dcat:DatasetSeries",
            "dct:title": title_of(about),
            "dct:description": description_of(about),
        },
        "dcat:version": str(number),
        "dcat:hasCurrentVersion": {"@id": f"{me}:version:{number}"},
        "prov:wasGeneratedBy": [_is("prov:Activity", names.run(part)) for part in parts],
        "rdfs:seeAlso": [
            {"@id": at.item(collection, id)},
            *({"@id": at.run(p.store, p.run, "provenance.prov.jsonld")} for p in parts),
        ],
        "dcat:distribution": [
            _distribution(part, file, about, at) for part in parts for file in readable(part)
        ],
    }
    if len(parts) == 1 and parts[0].before is not None and not parts[0].before.removed:
        made["dcat:previousVersion"] = {"@id": f"{me}:version:{parts[0].before.number}"}
    if number == 1:
        made["dct:issued"] = _time(newest.at)
    if any(shown_version(part).retired for part in parts):
        made["adms:status"] = {"@id": f"{STATUS}DEPRECATED"}
    return made


def _distribution(facts: Facts, file: File, about: Dataset, hrefs: Hrefs) -> Document:
    where = _is("rdfs:Resource", hrefs.file(facts.store, file))
    made: Document = {
        "@id": names.publication(facts, facts.entry, "file", file.name),
        "@type": "dcat:Distribution",
        "dct:identifier": f"sha256:{file.digest}",
        "dct:title": file.name,
        "dct:issued": _time(facts.at),
        "dcat:accessURL": where,
        "dcat:downloadURL": where,
        "dcat:mediaType": _is("dct:MediaType", media_type(file.media_type)),
        "spdx:checksum": {
            "@type": "spdx:Checksum",
            "spdx:algorithm": _is("spdx:ChecksumAlgorithm", "spdx:checksumAlgorithm_sha256"),
            "spdx:checksumValue": {"@type": "xsd:hexBinary", "@value": file.digest},
        },
        **_license(about),
    }
    if file.size is not None:
        made["dcat:byteSize"] = {"@type": "xsd:nonNegativeInteger", "@value": str(file.size)}
    return made


def _source(facts: Facts) -> Document:
    return {
        **_is("dcat:Dataset", iri(facts.envelope.uri)),
        "dct:title": facts.shown["uri"],
        "dct:description": "The object, as its source has it",
    }


@lru_cache(256)
def media_type(text: str) -> str:
    """The IANA's address of a media type, without its parameters."""
    return iri(MEDIA_TYPES + text.partition(";")[0].strip().lower())


# Most datasets of a series have these in common, and nobody changes what was made once.
@lru_cache(256)
def _rights(dataset: Dataset) -> Document:
    right = dataset.access.upper().replace("-", "_")
    made: Document = {
        "dct:accessRights": _is("dct:RightsStatement", f"{ACCESS}{right}"),
        **_license(dataset),
    }
    if dataset.publisher:
        agent = _is("foaf:Agent", names.agent(dataset.publisher))
        made["dct:publisher"] = {**agent, "foaf:name": dataset.publisher}
    if dataset.keywords:
        made["dcat:keyword"] = list(dataset.keywords)
    return made


@lru_cache(256)
def _license(dataset: Dataset) -> Document:
    if dataset.license_url:
        return {"dct:license": _is("dct:LicenseDocument", iri(dataset.license_url))}
    if dataset.license and dataset.license != "other":
        return {"dct:license": _is("dct:LicenseDocument", iri(SPDX_LICENSES + dataset.license))}
    return {}


def _where(bbox: tuple[float, ...] | None) -> Document:
    if bbox is None:
        return {}
    west, south, east, north = (bbox[0], bbox[1], bbox[len(bbox) // 2], bbox[len(bbox) // 2 + 1])
    corners = ((west, south), (east, south), (east, north), (west, north), (west, south))
    ring = ", ".join(f"{x:.9g} {y:.9g}" for x, y in corners)
    literal = {"@type": "geo:wktLiteral", "@value": f"POLYGON (({ring}))"}
    return {"dct:spatial": {"@type": "dct:Location", "dcat:bbox": literal}}


def _when(start: datetime | None, end: datetime | None) -> Document:
    period = said(
        **{
            "dcat:startDate": None if start is None else _time(start),
            "dcat:endDate": None if end is None else _time(end),
        }
    )
    return {"dct:temporal": {"@type": "dct:PeriodOfTime", **period}} if period else {}


def _is(kind: str, iri: str) -> Document:
    return {"@id": iri, "@type": kind}


def _time(at: datetime) -> Document:
    return {"@type": "xsd:dateTime", "@value": moment(at)}
