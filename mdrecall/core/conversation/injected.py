"""Text that memory puts into a conversation: marked when it goes in, and left out when the conversation is read.

Without the mark, a transcript would bring what was injected back into the index and the notes, and memory would feed
on itself.
"""

import re

_MEMORY = "mdrecall-memory"
#: Elements that hosts put around what hooks inject. Only complete ones are removed: people write about them too.
_OF_HOSTS = ("hook_context", "hook_prompt", "system-reminder", "system_reminder", "qwen:user-prompt-submit-context")
_NAMES = "|".join((_MEMORY, *_OF_HOSTS))
# Gemini writes the angle brackets of an injected text as entities. A tag has few attributes: the limit keeps the search
# linear.
_TAG = re.compile(rf"(?:<|&lt;)(?P<end>/?)(?P<name>{_NAMES})(?:\s[^<>]{{0,400}}?)?(?:>|&gt;)", re.IGNORECASE)
_LIKE_A_TAG = re.compile(rf"(?:<|&lt;)\s{{0,9}}/?\s{{0,9}}(?:{_NAMES})", re.IGNORECASE)
#: How Claude Code introduces the text of a hook, which goes on to the end of the message.
_INTRODUCED = " hook additional context: "
_INTRODUCTION = re.compile(rf"^[A-Z][A-Za-z]{{3,40}}{_INTRODUCED}", re.MULTILINE)


def wrap_memory(text: str, word: str) -> str:
    """Return a text between the marks of memory; nothing inside it can end the block.

    ``word`` is random and stands in both tags. A program reads only true tags, but a model may also read one that is
    written with entities, invisible characters or other brackets: whoever wrote the text cannot know the word.
    """
    inside = _LIKE_A_TAG.sub(lambda found: re.sub("[-_]", " ", found[0]), text.strip())
    return f"<{_MEMORY} {word}>\n{inside}\n</{_MEMORY} {word}>"


def strip_memory(text: str) -> str:
    """Return a text without what memory or a hook put into it.

    A block of memory that has lost its beginning or its end is removed from the start or to the end of the text.
    """
    # Most texts hold none of the names, and looking for words is far quicker than a pattern.
    lower = text.lower()
    tags = list(_TAG.finditer(text)) if any(name in lower for name in (_MEMORY, *_OF_HOSTS)) else []
    ranges = [found for name in (_MEMORY, *_OF_HOSTS) for found in _find_blocks(text, tags, name)] if tags else []
    if introduction := _INTRODUCED in text and _INTRODUCTION.search(text):
        ranges.append((introduction.start(), len(text)))
    return _remove(text, sorted(ranges)).strip() if ranges else text


def _find_blocks(text: str, tags: list[re.Match[str]], name: str) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    begun: list[int] = []
    for tag in tags:
        if tag["name"].lower() != name:
            continue
        if not tag["end"]:
            begun.append(tag.start())
        elif begun:
            found.append((begun.pop(), tag.end()))
        elif name == _MEMORY:
            found.append((0, tag.end()))
    if begun and name == _MEMORY:
        found.append((begun[0], len(text)))
    return found


def _remove(text: str, ranges: list[tuple[int, int]]) -> str:
    """Return a text without some ranges, which are in order and may overlap."""
    kept: list[str] = []
    end = 0
    for start, following in ranges:
        kept.append(text[end : max(start, end)])
        end = max(end, following)
    return "".join((*kept, text[end:]))
