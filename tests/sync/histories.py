"""Random histories of several machines that share one memory: agents, kills, races, machines that are offline.

Every entry has a token. At the end all machines sync until nothing moves. Then every token that nobody edited, deleted
or forgot must be there exactly once, and no other.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress

from mdrecall.sync.merge import find_renames, merge_trees, merge_unfinished

TOKEN = re.compile(rb"tok\d+x")
ENTRY = re.compile(rb"^[^\n]*(tok\d+x)[^\n]*\n(<!--[^\n]*\n)?", re.MULTILINE)
TURNS = 36
#: Actions of an agent, and how often in a hundred.
ACTIONS = {
    "append": 45, "digest": 10, "edit": 12, "create": 5, "promote": 5,
    "delete": 6, "rename": 5, "remove": 3, "forget": 9,
}  # fmt: skip


class Killed(BaseException):
    """The process of a sync was killed."""


class Remote:
    """A remote in memory: a line of trees."""

    def __init__(self) -> None:
        self.trees: list[dict[str, bytes]] = [{}]

    def push(self, parent: int, tree: dict[str, bytes]) -> bool:
        """Add a tree on top of the one that the pusher has seen; False if another one is there."""
        if parent != len(self.trees) - 1:
            return False
        self.trees.append(tree)
        return True


class Machine:
    """One machine: its notes, and what its syncs have stored."""

    def __init__(self, name: str, remote: Remote) -> None:
        self.name = name
        self.remote = remote
        self.work: dict[str, bytes] = {}
        self.synced = 0
        self.mine: dict[str, bytes] = {}
        self.next: tuple[int, dict[str, bytes]] | None = None
        self.target: dict[str, bytes] = {}
        self.unwritten: set[str] | None = None
        self.renamed: dict[str, str] = {}

    @property
    def own_file(self) -> str:
        return f".mdrecall/forgotten/{self.name}.jsonl"

    def sync(self, step: Callable[[str], None] = lambda place: None) -> bool:
        """Make one sync; False if others were faster again and again. ``step`` may raise, write, or sync others."""
        if self.next and self.remote.trees[min(self.next[0], len(self.remote.trees) - 1)] is self.next[1]:
            self.finish(step)
        for _ in range(4):
            head = len(self.remote.trees) - 1
            theirs, ours = self.remote.trees[head], dict(self.work)
            step("read")
            same, differing = set_aside(self.remote.trees[self.synced], ours, theirs)
            merged = same | merge_trees(*differing)
            changed = merged != theirs
            self.next = (head + 1, merged) if changed else (head, theirs)
            self.mine, self.target, self.unwritten = ours, self.next[1], None
            step("stored")
            if not changed or self.remote.push(head, merged):
                step("pushed")
                self.finish(step, ours)
                return True
        self.next = None
        return False

    def finish(self, step: Callable[[str], None], known: dict[str, bytes] | None = None) -> None:
        """Write what was pushed: new and changed files first. What was read before counts until it differs."""
        assert self.next
        while not self._write_all(step, dict(self.work) if known is None else dict(known)):
            known = None
        step("written")
        self.synced, self.next = self.next[0], None

    def _write_all(self, step: Callable[[str], None], now: dict[str, bytes]) -> bool:
        changed = diff(self.mine, self.target)
        written = [path for path in changed if path not in self.unwritten] if self.unwritten is not None else []
        same, differing = set_aside(self.mine, now, self.target)
        target = same | merge_unfinished(written, self.renamed, *differing)
        step("staged")
        self.mine, self.target, self.unwritten = dict(now), target, {*diff(now, target)}
        self.renamed = find_renames(now, target)
        for old, new in self.renamed.items():
            step("write")
            if self.work.get(old) != now[old] or new in self.work:
                return False
            now[new] = self.work[new] = now.pop(old)
            del self.work[old]
            self.unwritten.remove(old)
        for path in sorted(self.unwritten, key=lambda path: (path not in target, path)):
            step("write")
            if self.work.get(path) != now.get(path):
                return False
            if path in target:
                self.work[path] = target[path]
            else:
                self.work.pop(path, None)
            self.unwritten.remove(path)
        return True


def diff(one: dict[str, bytes], other: dict[str, bytes]) -> list[str]:
    """Return the paths of the files that differ."""
    return [path for path in {**one, **other} if one.get(path) != other.get(path)]


def set_aside(*trees: dict[str, bytes]) -> tuple[dict[str, bytes], list[dict[str, bytes]]]:
    """Return the files that are the same in all trees, which a sync does not even read, and the trees without them."""
    same = set.intersection(*({*tree.items()} for tree in trees))
    return dict(same), sweep(*(dict(tree.items() - same) for tree in trees))


def sweep(*trees: dict[str, bytes]) -> list[dict[str, bytes]]:
    """Return trees without the lines that were forgotten; a comment below one of them stays."""
    records = [data for tree in trees for path, data in tree.items() if path.startswith(".mdrecall/")]
    gone = {token for data in records for token in TOKEN.findall(data)}

    def clear(path: str, data: bytes) -> bytes:
        if path.startswith(".mdrecall/") or not gone & {*TOKEN.findall(data)}:
            return data
        return ENTRY.sub(lambda found: (found[2] or b"") if found[1] in gone else found[0], data)

    swept = [{path: clear(path, data) for path, data in tree.items()} for tree in trees]
    return [{path: data for path, data in tree.items() if data.strip()} for tree in swept]


class History:
    """One random history."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.remote = Remote()
        self.machines = [Machine(name, self.remote) for name in ("desk", "laptop", "phone")]
        self.gone: set[bytes] = set()
        self.made: list[bytes] = []
        self.kills = 0

    def run(self) -> None:
        offline = dict.fromkeys(self.machines, 0)
        for turn in range(TURNS):
            machine = self.random.choice(self.machines)
            for _ in range(self.random.randint(1, 3)):
                self.act(machine, turn)
            if offline[machine] > turn:
                continue
            if self.random.random() < 0.1:
                offline[machine] = turn + self.random.randint(2, 8)
                continue
            self.sync(machine, turn)
        for _ in range(3):
            for machine in self.machines:
                machine.sync()

    def sync(self, machine: Machine, turn: int) -> None:
        places = ("stored", "pushed", "staged", "write", "write", "written")
        kill_at = self.random.choice(places) if self.random.random() < 0.15 else ""
        skipped = self.random.randint(0, 2)
        race = self.random.random() < 0.12
        writes = self.random.random() < 0.12
        count: Counter[str] = Counter()

        def step(place: str) -> None:
            nonlocal race, writes
            count[place] += 1
            if race and place in ("read", "stored"):
                race = False
                other = self.random.choice([each for each in self.machines if each is not machine])
                other.sync()
            if writes and self.random.random() < 0.4:
                writes = False
                self.act(machine, turn)
            if place == kill_at and (place != "write" or count[place] > skipped):
                self.kills += 1
                raise Killed

        with suppress(Killed):
            machine.sync(step)

    def act(self, machine: Machine, turn: int) -> None:
        kind = self.random.choices(list(ACTIONS), list(ACTIONS.values()))[0]
        getattr(self, f"do_{kind}")(machine.work, machine, turn + self.random.choice([0, 0, 0, -1]))

    def make(self) -> bytes:
        token = b"tok%dx" % len(self.made)
        self.made.append(token)
        return token

    def _add(self, work: dict[str, bytes], path: str, text: bytes) -> None:
        work[path] = work.get(path, b"") + (b"\n" if not text.startswith(b"-") and path in work else b"") + text

    def _entries(self, work: dict[str, bytes]) -> list[tuple[str, re.Match[bytes]]]:
        notes = (path for path in sorted(work) if not path.startswith(".mdrecall/"))
        return [(path, found) for path in notes for found in ENTRY.finditer(work[path])]

    def do_append(self, work: dict[str, bytes], machine: Machine, turn: int) -> None:
        comment = self.random.choice([b"", b"", b"<!-- by claude -->\n"])
        self._add(work, f"memory/2026-11-{turn // 9 + 10}.md", b"- %s was said\n" % self.make() + comment)

    def do_digest(self, work: dict[str, bytes], machine: Machine, turn: int) -> None:
        text = b"## Digest %s\n\n### Decisions\n\n- %s\n- %s\n" % (self.make(), self.make(), self.make())
        self._add(work, f"memory/2026-11-{turn // 9 + 10}.md", text)

    def do_edit(self, work: dict[str, bytes], machine: Machine, turn: int) -> None:
        if entries := self._entries(work):
            path, found = self.random.choice(entries)
            self.gone.add(found[1])
            work[path] = work[path][: found.start(1)] + self.make() + work[path][found.end(1) :]

    def do_create(self, work: dict[str, bytes], machine: Machine, turn: int) -> None:
        path = f"memory/topic-{self.random.randint(0, 5)}.md"
        self._add(work, path, b"# Topic\n\n%s is a paragraph\n\n- %s\n" % (self.make(), self.make()))

    def do_promote(self, work: dict[str, bytes], machine: Machine, turn: int) -> None:
        self._add(work, "MEMORY.md", b"%s is a fact <!-- promoted -->\n" % self.make())

    def do_delete(self, work: dict[str, bytes], machine: Machine, turn: int) -> None:
        if entries := self._entries(work):
            path, found = self.random.choice(entries)
            self.gone.add(found[1])
            # Who deletes a line may leave the comment of its author.
            end = found.end() if self.random.random() < 0.5 else work[path].index(b"\n", found.start()) + 1
            work[path] = work[path][: found.start()] + work[path][end:]

    def do_rename(self, work: dict[str, bytes], machine: Machine, turn: int) -> None:
        if notes := [path for path in sorted(work) if path.startswith("memory/")]:
            path, new = self.random.choice(notes), f"memory/renamed-{self.random.randint(0, 3)}.md"
            if new not in work:
                work[new] = work.pop(path)

    def do_remove(self, work: dict[str, bytes], machine: Machine, turn: int) -> None:
        if notes := [path for path in sorted(work) if path.startswith("memory/")]:
            self.gone.update(TOKEN.findall(work.pop(self.random.choice(notes))))

    def do_forget(self, work: dict[str, bytes], machine: Machine, turn: int) -> None:
        if entries := self._entries(work):
            _, found = self.random.choice(entries)
            self.gone.add(found[1])
            known = work.get(machine.own_file, b'{"salt":"%s"}\n' % machine.name.encode())
            work[machine.own_file] = known + found[1] + b"\n"
            (swept,) = sweep(work)
            work.clear()
            work.update(swept)

    def find_faults(self) -> Iterator[str]:
        """Yield what is wrong when all has come to rest."""
        first = self.machines[0].work
        for machine in self.machines[1:]:
            if machine.work != first:
                yield f"{machine.name} differs"
        notes = (data for path, data in first.items() if not path.startswith(".mdrecall/"))
        found = Counter(TOKEN.findall(b"".join(notes)))
        for token in self.made:
            if token in self.gone:
                if found[token]:
                    yield f"{token!r} is back"
            elif found[token] != 1:
                yield f"{token!r} is there {found[token]} times"


def play(seed: int) -> History:
    """Return a history that was played to its end."""
    history = History(seed)
    history.run()
    return history
