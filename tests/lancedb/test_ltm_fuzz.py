"""Whatever a model calls the long-term memory's tools with: an answer, and nothing of it is another agent's."""

import importlib.util
import json
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mdrecall.extras.lancedb.tools import ltm_tools
from mdrecall.tools.toolset import Toolset
from tests.conftest import examples
from tests.lancedb.conftest import LtmDatabase
from tests.tools.test_fuzz import any_text, anything, numbers, texts

CANARY = "zq7 canary of another agent"
TTLS = ["12h", "30d", "0d", "-1d", "1e9d", "9" * 400 + "d", "d", "5", "٣d", "12h 30m", "inf"]


class Place:
    """The memories of two agents in one table."""

    def __init__(self, database: LtmDatabase) -> None:
        self.other = database.memories("other")
        self.theirs = self.other.store(f"I prefer tea and {CANARY}").row.id
        self.mine = database.memories()
        self.own = self.mine.store("I prefer tea").row.id
        self.tools = Toolset(ltm_tools(self.mine))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    if importlib.util.find_spec("lancedb") is None:
        pytest.skip("not installed: lancedb; sh scripts/test installs it")
    database = LtmDatabase(tmp_path_factory.mktemp("fuzz") / "lancedb")
    yield Place(database)
    database.close()


@st.composite
def calls(draw: st.DrawFn, place: Place) -> tuple[str, dict[str, object]]:
    """A tool and what its schema asks for, in part something else."""
    fitting = {
        "query": st.one_of(texts, st.sampled_from(["tea", CANARY, "I prefer tea"])),
        "text": st.one_of(texts, st.sampled_from(["I prefer tea", CANARY[:3]])),
        "limit": numbers,
        "importance": numbers,
        "category": st.sampled_from(["fact", "Preference", "x' OR '1'='1"]),
        "ttl": st.sampled_from(TTLS),
        "replaces": st.sampled_from([place.theirs, place.own, "' OR '1'='1", "%", ""]),
        "memoryId": st.sampled_from([place.theirs, place.theirs.upper(), f" {place.own}", "' OR '1'='1", "%"]),
    }
    spec = draw(st.sampled_from(place.tools.specs))
    given: dict[str, object] = {}
    for name in spec.parameters["properties"]:
        asked = draw(st.integers(0, 4))
        if asked or name in spec.parameters.get("required", ()):
            given[name] = draw(anything if asked == 1 else fitting[name])
    if draw(st.integers(0, 4)) == 0:
        given |= draw(st.dictionaries(any_text, anything, max_size=3))
    return spec.name, given


@given(data=st.data())
@settings(max_examples=examples(20))
def test_every_call_has_an_answer_and_none_touches_the_memories_of_another(data: st.DataObject, place: Place) -> None:
    name, arguments = data.draw(calls(place))
    told = place.tools.call(name, arguments)
    written = json.dumps(told.details, allow_nan=False, ensure_ascii=False) + told.text
    written.encode()
    assert "unexpected" not in told.details.get("error", ""), told.details
    assert CANARY not in written
    assert [row.id for row in place.other.list_all()] == [place.theirs]
