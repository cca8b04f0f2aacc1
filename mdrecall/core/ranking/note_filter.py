"""What a request is limited to besides days: tags, folders and collections; and what collections weigh."""

from collections.abc import Iterable, Sequence

from mdrecall.core.ranking.recency import DayLimits
from mdrecall.core.ranking.score import gain_by_weight
from mdrecall.core.ranking.stages import Candidate, RankingContext
from mdrecall.errors import QueryError, suggest_name
from mdrecall.named_tuple import NamedTuple
from mdrecall.patterns import matches_glob
from mdrecall.types import Collection, SearchAnswer, SearchRequest

_GLOB_SIGNS = "*?["


class NoteFilter(NamedTuple):
    """Which notes are searched: those with every tag, in any of the folders, and in any of the collections."""

    tags: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    collections: tuple[Collection, ...] = ()

    def has(self, path: str, tags: Iterable[str]) -> bool:
        """True if a note of this path, with these tags, is not filtered out."""
        if self.paths and not any(is_in_path(path, wanted) for wanted in self.paths):
            return False
        if self.collections and not any(is_in_collection(path, one) for one in self.collections):
            return False
        return not self.tags or has_tags(tags, self.tags)

    @property
    def description(self) -> str:
        """The filter in words, to follow "notes"."""
        tags = " and ".join(f"#{tag}" for tag in self.tags)
        parts = [f"with the tag{'s' * (len(self.tags) > 1)} {tags}"] if tags else []
        parts += [f"in {' or '.join(self.paths)}"] if self.paths else []
        names = " or ".join(one.name for one in self.collections)
        return " ".join([*parts, f"in the collection {names}"] if names else parts)


def read_filter(request: SearchRequest, known: Sequence[Collection]) -> NoteFilter | None:
    """Return what a request is limited to; None if it is not.

    Raise ``QueryError`` for a collection that is not known.
    """
    tags = tuple(dict.fromkeys(bare for tag in request.tags if (bare := tag.strip().lstrip("#").strip("/"))))
    paths = tuple(
        dict.fromkeys(bare for path in request.paths if (bare := path.strip().removeprefix("./").rstrip("/")))
    )
    by_name = {one.name: one for one in known}
    for name in request.collections:
        if name not in by_name:
            listed = f" There are: {', '.join(by_name)}." if by_name else " None is configured."
            hint = f"Collections are named in the settings, in mdrecall.collections.{listed}"
            message = f"There is no collection {name[:80]!r}{suggest_name(name, by_name)}."
            raise QueryError(message, hint=hint, name="collection")
    found = NoteFilter(tags, paths, tuple(by_name[name] for name in dict.fromkeys(request.collections)))
    return None if found == NoteFilter() else found


def is_in_path(path: str, wanted: str) -> bool:
    """True if a path is a file, is below a folder, or matches a glob."""
    if any(sign in wanted for sign in _GLOB_SIGNS):
        return matches_glob(path, wanted) or matches_glob(path, f"{wanted}/**")
    return wanted == "." or path == wanted or path.startswith(f"{wanted}/")


def is_in_collection(path: str, collection: Collection) -> bool:
    """True if a path is in the folder of a collection, or is its file, and matches its pattern."""
    if collection.place and path != collection.place and not path.startswith(f"{collection.place}/"):
        return False
    below = path.removeprefix(f"{collection.place}/") if collection.place else path
    return collection.pattern is None or path == collection.place or matches_glob(below, collection.pattern)


def has_tags(tags: Iterable[str], wanted: Iterable[str]) -> bool:
    """True if every wanted tag is among some tags; a tag holds those below it, as ``work`` holds ``work/travel``."""
    own = [f"{_fold(tag)}/" for tag in tags]
    return all(any(tag.startswith(f"{_fold(one)}/") for tag in own) for one in wanted)


def explain_filter(only: NoteFilter | None, limits: DayLimits | None) -> SearchAnswer:
    """Return an empty answer that says that no note is within the limits of a request."""
    days = limits.explain_empty() if limits else SearchAnswer((), reason="no_match")
    if only is None:
        return days
    since = days.action.removeprefix("There is no note").partition(".")[0]
    action = f"There is no note {only.description}{since}. Change the filter or leave it out."
    return SearchAnswer((), reason="no_match", action=action)


def name_filter(answer: SearchAnswer, only: NoteFilter | None) -> SearchAnswer:
    """Return an answer that, if it is empty, also says which notes were searched."""
    if only is None or answer.results:
        return answer
    return answer.replace(action=f"{answer.action} Only notes {only.description} were searched.".strip())


def weigh_collections(candidates: Sequence[Candidate], context: RankingContext) -> list[Candidate]:
    """Multiply the odds of the notes of a collection by its weight; of several, the one named first decides."""
    heavy = [one for one in context.options.collections if one.weight != 1]
    if not heavy:
        return list(candidates)
    weighed = []
    for entry in candidates:
        weight = next((one.weight for one in heavy if is_in_collection(entry.chunk.path, one)), 1.0)
        gain = gain_by_weight(weight, by_vectors_only=context.query.by_vectors_only)
        weighed.append(entry._replace(worth=entry.worth + gain, weight=gain) if gain else entry)
    return weighed


def _fold(tag: str) -> str:
    import unicodedata

    return unicodedata.normalize("NFC", tag).casefold()
