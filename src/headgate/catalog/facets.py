"""Facets of OpenLineage: which of the public ones we write, and our own, each with its schema."""

from __future__ import annotations

from functools import cache
from typing import Any

from headgate.model.energy import Used

from .names import PRODUCER

CORE = "https://openlineage.io/spec/2-0-2/OpenLineage.json"
_PUBLIC = "https://openlineage.io/spec/facets"
# Facet → version and name of its public schema.
STANDARD = {
    "dataQualityAssertions": ("1-1-0", "DataQualityAssertionsDatasetFacet"),
    "dataSource": ("1-0-1", "DatasourceDatasetFacet"),
    "errorMessage": ("1-0-1", "ErrorMessageRunFacet"),
    "inputStatistics": ("1-0-0", "InputStatisticsInputDatasetFacet"),
    "jobType": ("2-0-4", "JobTypeJobFacet"),
    "nominalTime": ("1-0-1", "NominalTimeRunFacet"),
    "outputStatistics": ("1-0-2", "OutputStatisticsOutputDatasetFacet"),
    "processing_engine": ("1-1-1", "ProcessingEngineRunFacet"),
    "schema": ("1-2-0", "SchemaDatasetFacet"),
    "tags": ("1-0-0", "TagsRunFacet"),
    "version": ("1-0-1", "DatasetVersionDatasetFacet"),
}
# Facet → its file in schemas/.
OURS = {
    "headgate_checks": "openlineage/headgate-checks-run-facet-v1.schema.json",
    "headgate_energy": "openlineage/headgate-energy-run-facet-v1.schema.json",
    "headgate_publication": "openlineage/headgate-publication-dataset-facet-v1.schema.json",
    "headgate_run": "openlineage/headgate-run-facet-v1.schema.json",
    "headgate_source": "openlineage/headgate-source-dataset-facet-v1.schema.json",
}


def standard(facet: str, **fields: Any) -> dict[str, Any]:
    """A public facet."""
    return {"_producer": PRODUCER, "_schemaURL": _public(facet), **fields}


def ours(facet: str, **fields: Any) -> dict[str, Any]:
    """A facet of our own."""
    return {"_producer": PRODUCER, "_schemaURL": _own(facet), **fields}


def energy(used: Used) -> dict[str, Any]:
    """What a run took, with what the estimate rests on. Short enough to read."""
    return ours(
        "headgate_energy",
        cpuSeconds=used.cpu_seconds,
        joules=_short(used.joules),
        gramsCO2e=_short(used.grams),
        coreWatts=used.core_watts,
        overhead=used.overhead,
        gridGramsPerKWh=used.grid_grams,
    )


def _short(value: float) -> float:
    return float(f"{value:.6g}")


@cache
def _public(facet: str) -> str:
    version, name = STANDARD[facet]
    return f"{_PUBLIC}/{version}/{name}.json#/$defs/{name}"


@cache
def _own(facet: str) -> str:
    return f"{url_of(OURS[facet])}#/$defs/{title_of(facet)}"


def title_of(facet: str) -> str:
    """What its schema calls a facet: `headgate_run` is a `HeadgateRunFacet`."""
    return "".join(word.capitalize() for word in facet.split("_")) + "Facet"


def url_of(schema: str) -> str:
    """What a schema of ours is called. It is a name: nobody has to fetch it."""
    return f"{PRODUCER}schemas/{schema}"
