"""Comments in a note as small labels: who wrote a text, how important it is, whether it still holds."""

import re

from mdrecall.core.text.annotations import read_annotations
from mdrecall.ui.html import Html, tag

#: More of a comment hides the text beside it.
_MAX_CHARS = 300
_AUTHOR = re.compile(r"by ([A-Za-z0-9 ._/-]{1,40})")
_OWN = re.compile(r"mdrecall:(import|digest)\b")


def label_comment(content: str) -> Html:
    """Return a comment as a label. What is not an annotation of ours is shown too: agents read it."""
    text = " ".join(content.split())
    kind = "old" if read_annotations(f"<!--{content}-->")[1].is_superseded else ""
    return tag("span", _describe(text)[:_MAX_CHARS], class_=f"label {kind}".strip())


def _describe(text: str) -> str:
    _, marks = read_annotations(f"<!-- {text} -->")
    if marks.is_superseded:
        by = f" by {marks.superseded_by}" if marks.superseded_by else ""
        return f"superseded{by}" + (f" on {marks.superseded_on}" if marks.superseded_on else "")
    if marks.importance:
        return f"importance {marks.importance} of 10"
    if marks.triggers:
        return f"comes to mind with: {', '.join(marks.triggers)}"
    if marks.project:
        return f"project: {marks.project}"
    if found := _AUTHOR.fullmatch(text):
        return f"written by {found[1]}"
    if found := _OWN.match(text):
        return "imported" if found[1] == "import" else "digest of a conversation"
    return f"comment: {text}"
