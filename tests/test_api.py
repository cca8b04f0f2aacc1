"""The public API is what docs/api.md lists: every name imports, and the documentation imports nothing else."""

import ast
import re
from importlib import import_module
from pathlib import Path

import pytest

import mdrecall
from mdrecall import errors, plugins, tools

DOCS = Path(mdrecall.__file__).parent.parent / "docs"
PAGES = ("adapters.md", "errors.md", "flush.md", "plugins.md", "python.md", "redaction.md", "tutorial.md")


def public_names() -> dict[str, set[str]]:
    """The names of each module in the table of docs/api.md."""
    rows = re.findall(r"^\| `(mdrecall[\w.]*)` \| (.+?) \|", (DOCS / "api.md").read_text(), re.MULTILINE)
    return {module: set(re.findall(r"`(\w+)`", names)) for module, names in rows}


PUBLIC = public_names()


def imported_names(page: str) -> set[tuple[str, str]]:
    """Every name of mdrecall that the Python examples of a page import, with its module."""
    blocks = re.findall(r"^```python\n(.*?)^```", (DOCS / page).read_text(), re.MULTILINE | re.DOTALL)
    found = set()
    for node in (node for block in blocks for node in ast.walk(ast.parse(block))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "mdrecall":
            found |= {(node.module or "", alias.name) for alias in node.names}
        if isinstance(node, ast.Import):
            found |= {(alias.name, "") for alias in node.names if alias.name.startswith("mdrecall.")}
    return found


@pytest.mark.parametrize("module", PUBLIC)
def test_every_public_name_can_be_imported(module: str) -> None:
    home = import_module(module)
    assert [name for name in PUBLIC[module] if not hasattr(home, name)] == []


def test_the_lists_in_the_code_are_those_of_the_page() -> None:
    assert PUBLIC["mdrecall"] == set(mdrecall.__all__)
    assert PUBLIC["mdrecall.tools"] == set(tools.__all__)
    assert PUBLIC["mdrecall.plugins"] == set(plugins.__all__)
    assert PUBLIC["mdrecall.errors"] == set(errors.__all__)


@pytest.mark.parametrize("module", [mdrecall, tools, plugins])
def test_a_name_that_is_not_public_is_not_there(module: object) -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        getattr(module, "nothing")  # noqa: B009


@pytest.mark.parametrize("page", PAGES)
def test_the_documentation_imports_public_names_only(page: str) -> None:
    imported = imported_names(page)
    assert imported
    assert {(module, name) for module, name in imported if name not in PUBLIC.get(module, set())} == set()
