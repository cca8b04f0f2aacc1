"""What qmd's configuration says of its collections."""

import pytest

from mdrecall.qmd.listing import ListedCollection, drop_collections, parse_config

CONFIG = """\
collections:
  memory-root-main:
    path: /w
    pattern: MEMORY.md
  odd:
    path: "/tmp/o'dd: #ü \\"x\\""
    pattern: "{a,b}.md"
    ignore:
      - "**/drafts/**"
    context:
      /: |
        path: /not/this
  'it''s':
    path: '/it''s'
    pattern: "**/*.md"
    includeByDefault: false
global_context: |
  other:
    path: /nor/this
models:
  embed: hf:a/b/c.gguf
"""


def test_the_configuration_that_qmd_writes_is_understood() -> None:
    assert parse_config(CONFIG) == (
        ListedCollection("memory-root-main", "/w", "MEMORY.md"),
        ListedCollection("odd", '/tmp/o\'dd: #ü "x"', "{a,b}.md"),
        ListedCollection("it's", "/it's", "**/*.md"),
    )
    assert parse_config("collections: {}\n") == ()
    assert parse_config("") == ()


@pytest.mark.parametrize(
    "text",
    [
        "collections: {a: {path: /x}}\n",
        "collections:\n  a: {path: /x}\n",
        "collections:\n  a:\n    path: &anchor /x\n",
        "collections:\n  a:\n    path: *anchor\n",
        "collections:\n  a:\n    path: !!str /x\n",
        "collections:\n  a:\n    path: |\n      /x\n",
        "collections:\n  a:\n    path: /x # or not\n",
        "collections:\n  a:\n    path: null\n",
        "collections:\n  a:\n    pattern: x.md\n",
        "collections:\n   a:\n     path: /x\n",
        "collections:\n\ta:\n",
        'collections:\n  a:\n    path: "\\x41"\n',
        "{not yaml",
    ],
)
def test_a_configuration_of_any_other_shape_is_not_guessed_at(text: str) -> None:
    assert parse_config(text) is None
    assert drop_collections(text, ["a"]) is None


def test_a_configuration_can_leave_out_collections_and_keeps_the_rest_to_the_letter() -> None:
    left = drop_collections(CONFIG, ["odd", "it's"])
    assert left is not None
    assert parse_config(left) == (ListedCollection("memory-root-main", "/w", "MEMORY.md"),)
    assert left.endswith(CONFIG[CONFIG.index("global_context") :])
    assert drop_collections(CONFIG, []) == CONFIG
