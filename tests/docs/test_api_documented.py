"""What a user may call, meet or query is said in the reference."""

import dataclasses
import inspect
import re
from pathlib import Path

import pytest

import headgate as hg
from headgate import errors
from headgate.ledger.finding import HINTS
from headgate.model.entry import NEXT, Status

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
PIPELINE = (REFERENCE / "pipeline.md").read_text()
ERRORS = (REFERENCE / "errors.md").read_text()
LEDGER = (REFERENCE / "ledger.md").read_text()
CODED = re.compile(r"`([^`\n]+)`")
CLASSES = [
    value
    for value in vars(errors).values()
    if isinstance(value, type) and issubclass(value, errors.HeadgateError)
]


def section(page: str, title: str, level: int = 2) -> str:
    """The text below a heading, up to the next one of its level."""
    mark = "#" * level
    found = re.search(
        rf"^{mark} {re.escape(title)}\n(.*?)(?=^#{{1,{level}}} |\Z)", page, re.DOTALL | re.MULTILINE
    )
    assert found, f"there is no section {title!r}"
    return found[1]


def words(text: str) -> set[str]:
    """The identifiers that are written as code."""
    return {word for code in CODED.findall(text) for word in re.findall(r"\w+", code)}


@pytest.mark.parametrize("name", hg.__all__)
def test_every_public_name_is_in_the_reference(name: str) -> None:
    """Whatever can be reached as `hg.X` can be looked up."""
    assert re.search(rf"\bhg\.{name}\b", PIPELINE), f"hg.{name} is not in reference/pipeline.md"


@pytest.mark.parametrize("name", ["Object", "Run", "Transaction", "Pipeline"])
def test_every_public_member_is_in_the_reference(name: str) -> None:
    """A handler's author finds every field and method of what a handler is given."""
    made = getattr(hg, name)
    public = {n for n in dir(made) if not n.startswith("_")} | set(made.__annotations__)
    if name == "Object":
        public -= {"moved"}  # Headgate's own
        public |= set(made.__slots__)
    if name == "Pipeline":
        public = {"validate", "rows", "transform", "apply", "item", "source", "add_source", "run"}
    missing = {n for n in public if not n.startswith("_")} - words(section(PIPELINE, f"hg.{name}"))
    assert not missing, f"reference/pipeline.md, hg.{name}: {sorted(missing)}"


@pytest.mark.parametrize(
    "name",
    [
        "Pipeline",
        "Directory",
        "Http",
        "Manifest",
        "Prefix",
        "S3Events",
        "Schedule",
        "ServerSentEvents",
        "Webhook",
    ],
)
def test_every_parameter_is_in_the_reference(name: str) -> None:
    """What can be said when something is declared is explained, and nothing that cannot."""
    page = section(PIPELINE, f"hg.{name}").partition("\n### ")[0]
    listed = re.findall(r"^`(\w+)`\n: ", page, re.MULTILINE)
    assert listed == list(inspect.signature(getattr(hg, name)).parameters)


@pytest.mark.parametrize("name", ["gcs", "azure", "sns", "cloudevents"])
def test_every_parameter_of_a_push_is_in_the_reference(name: str) -> None:
    """What each provider has to be told stands in its line, what all take below the table."""
    page = section(PIPELINE, "hg.Push")
    (line,) = (line for line in page.splitlines() if line.startswith(f"| `hg.Push.{name}`"))
    shared = words(page.rpartition("\nAll take ")[2])
    said = {word for word in words(line) if not word.startswith(("hg", "Push"))} - {name}
    assert said | shared == set(inspect.signature(getattr(hg.Push, name)).parameters)


@pytest.mark.parametrize(
    "name", ["Artifact", "Change", "Check", "EventTime", "JsonSchema", "RetryPlan", "Watermark"]
)
def test_the_reference_shows_how_a_value_is_made(name: str) -> None:
    """Its parameters are there in their order."""
    said = re.search(rf"`hg\.{name}\((.*?)\)`", section(PIPELINE, f"hg.{name}"))
    assert said
    shown = [part.partition("=")[0].strip() for part in said[1].split(", ")]
    assert shown == list(inspect.signature(getattr(hg, name)).parameters)


def test_every_field_of_the_envelope_is_in_the_reference() -> None:
    """A reader of `obj.envelope` knows what each field means."""
    missing = set(hg.Envelope.__struct_fields__) - words(section(PIPELINE, "hg.Envelope"))
    assert not missing, sorted(missing)


def test_every_option_of_a_handler_is_in_the_reference() -> None:
    """So are the options of the decorators."""
    said = words(section(PIPELINE, "Handlers", level=3))
    decorators = (hg.Pipeline.validate, hg.Pipeline.rows, hg.Pipeline.apply, hg.Pipeline.item)
    for handler in decorators:
        options = set(inspect.signature(handler).parameters) - {"self", "function"}
        assert options <= said, sorted(options - said)
    of_sources = words(section(PIPELINE, "A source of its own", level=3))
    assert set(inspect.signature(hg.Pipeline.source).parameters) - {"self"} <= of_sources


@pytest.mark.parametrize("error", CLASSES, ids=lambda error: error.__name__)
def test_every_error_is_in_the_reference(error: type[errors.HeadgateError]) -> None:
    """An operator who meets a reason finds what it means and what to do."""
    assert f"`{error.__name__}` · reason `{error.reason}`" in ERRORS
    entry = ERRORS.partition(f"`{error.__name__}` · reason")[2].partition("· reason")[0]
    assert error.hint in " ".join(entry.split()), f"its hint is {error.hint!r}"


def test_the_tree_of_errors_is_the_one_of_the_code() -> None:
    """What is drawn is what is inherited."""
    drawn = re.findall(r"^([│├└─ ]*)(\w+)$", section(ERRORS, "Errors", level=1), re.MULTILINE)
    parents: dict[int, str] = {}
    shown: dict[str, str] = {}
    for indent, name in drawn:
        depth = len(indent) // 4
        parents[depth] = name
        shown[name] = parents.get(depth - 1, "Exception") if depth else "Exception"
    assert shown == {c.__name__: c.__bases__[0].__name__ for c in CLASSES}


def test_every_violation_is_in_the_reference() -> None:
    """Whatever `headgate verify` may print can be looked up, and nothing else is listed."""
    listed = re.findall(r"^\| `(\w+)` \|", section(LEDGER, "What verify checks"), re.MULTILINE)
    assert sorted(listed) == sorted(HINTS)


def test_the_machine_is_the_one_of_the_code() -> None:
    """The table of what may follow what is `NEXT`."""
    rows = re.findall(
        r"^\| (`.+`) \| (.+) \|$", section(LEDGER, "What may follow what", level=3), re.MULTILINE
    )
    said = {
        Status(start): {Status(end) for end in CODED.findall(ends)}
        for starts, ends in rows
        for start in CODED.findall(starts)
    }
    assert said == {start: set(ends) for start, ends in NEXT.items()}


def test_every_table_and_view_is_in_the_reference() -> None:
    """Who looks into the ledger with SQL finds each name on the page."""
    folder = Path(inspect.getfile(errors)).parent / "ledger" / "migrations"
    sql = "\n".join(file.read_text() for file in sorted(folder.glob("*.sql")))
    made = set(re.findall(r"CREATE (?:TABLE|VIEW) headgate\.(\w+)", sql))
    headings = " ".join(re.findall(r"^### (.*)$", LEDGER, re.MULTILINE))
    missing = made - words(LEDGER) - set(re.findall(r"\w+", headings))
    assert not missing, sorted(missing)


def test_the_fields_of_a_plan_are_in_the_reference() -> None:
    """Each field of a retry plan has a line of its own."""
    listed = re.findall(r"^\| `(\w+)` \|", section(PIPELINE, "hg.RetryPlan"), re.MULTILINE)
    assert listed == [field.name for field in dataclasses.fields(hg.RetryPlan)]
