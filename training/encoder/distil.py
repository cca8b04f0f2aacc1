"""Teach the student: ``python -m training.encoder.distil --teacher DIR --text DIR --state DIR --seconds N --total N``.

``--total`` is the time of the whole training and sets the rate; ``--seconds`` is how much of it this run does. A run
goes on where the state ends, so short runs one after the other make one training. Every run writes ``state.pt``, the
packed ``encoder.bin``, and ``student-*.npy``, the numbers behind the codes in float16, from which a run can also go on.

The student's vectors must lie where the teacher's lie, the texts of a batch must have the same likeness to each other,
and each token of the last layer must be the same. Text: single units, passages of neighbouring units, and a few words
out of these passages, as a question would have them.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy
import torch
from torch import Tensor

from training.encoder import model, pack
from training.encoder.model import Student
from training.teacher import CLS, SEP, Teacher, pool

_HEAT = 0.05
_RATE = 4e-4
_WARM_STEPS = 150
#: From this share of the time on, the numbers start from the middle of their steps, and the rate falls to nothing.
_SETTLE = 0.7
_SETTLED_RATE = 0.5
_HELD_OUT = 100
_SAVED_EVERY_S = 150
_PIECE_BYTES = 15 << 20
_AXES = 256


class Text(NamedTuple):
    """All documents as one row of tokens; units begin and end in it."""

    tokens: Tensor
    starts: Tensor
    ends: Tensor
    document_ends: Tensor
    unit_end_before: Tensor
    word_start_before: Tensor


class Plan(NamedTuple):
    """How many texts a batch has: short ones (at most 32 tokens), passages of up to 64, and of up to 128 tokens."""

    short: int
    passages: int
    long: int


Batch = list[tuple[Tensor, Tensor]]


# --- text


def read_text(folder: Path, pieces: Path, device: torch.device) -> Text:
    """Read every ``tokens.npz`` below the folder."""
    shards = [dict(numpy.load(path)) for path in sorted(folder.rglob("tokens.npz"))]
    if not shards:
        raise SystemExit(f"{folder} has no tokens.npz: run training.encoder.text first.")
    tokens = numpy.concatenate([shard["tokens"] for shard in shards]).astype(numpy.int64)
    lengths = numpy.concatenate([shard["units"] for shard in shards]).astype(numpy.int64)
    ends = numpy.cumsum(lengths)
    last_units = numpy.cumsum(numpy.concatenate([shard["documents"] for shard in shards])) - 1
    document_ends = ends[last_units[numpy.searchsorted(last_units, numpy.arange(len(ends)))]]
    marks = numpy.zeros(len(tokens) + 1, numpy.int64)
    marks[ends] = ends
    inside = numpy.array([line.startswith("##") for line in pieces.read_text(encoding="utf-8").split("\n")])
    words = numpy.where(inside[tokens], 0, numpy.arange(len(tokens)))
    rows = (
        tokens,
        ends - lengths,
        ends,
        document_ends,
        numpy.maximum.accumulate(marks),
        numpy.maximum.accumulate(words),
    )
    return Text(*(torch.from_numpy(row).to(device) for row in rows))


def draw(text: Text, plan: Plan, first: int, last: int) -> Batch:
    """Return the short texts and the passages of a batch, out of the units from ``first`` to ``last``."""
    device = text.tokens.device

    def random(count: int) -> Tensor:
        return torch.rand(count, device=device)

    def units(count: int) -> Tensor:
        return first + (random(count) * (last - first)).long()

    def passages(count: int, fewest: int, most: int) -> tuple[Tensor, Tensor]:
        chosen = units(count)
        start = text.starts[chosen]
        wanted = fewest + (random(count) * (most - fewest + 1)).long()
        end = torch.minimum(start + wanted, text.document_ends[chosen])
        whole = text.unit_end_before[end]
        return start, torch.where((whole > start) & (random(count) < 0.7), whole, end)

    middle, long = passages(plan.passages, 16, 62), passages(plan.long, 62, 126)
    starts, ends = torch.cat([middle[0], long[0]]), torch.cat([middle[1], long[1]])
    asked = (random(plan.short // 3) * len(starts)).long()
    size = 3 + (random(len(asked)) * 12).long()
    room = (ends[asked] - starts[asked] - size).clamp(min=0)
    begin = torch.maximum(text.word_start_before[starts[asked] + (random(len(asked)) * room).long()], starts[asked])
    single = units(plan.short - len(asked))
    begins = torch.cat([begin, text.starts[single]])
    stops = torch.cat([torch.minimum(begin + size, ends[asked]), text.ends[single]])
    return [rows(text, begins, stops, 32), rows(text, *middle, 64), rows(text, *long, 128)]


def rows(text: Text, starts: Tensor, ends: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """Return the tokens between the special ones, cut at the width, and their mask."""
    column = torch.arange(width, device=starts.device)[None]
    length = (ends - starts).clamp(1, width - 2)[:, None]
    ids = text.tokens[(starts[:, None] + column - 1).clamp(0, len(text.tokens) - 1)]
    ids = torch.where(column == 0, CLS, torch.where(column == length + 1, SEP, ids))
    mask = column <= length + 1
    return torch.where(mask, ids, 0), mask


# --- what is learned


def likeness(wanted: Tensor, vectors: Tensor) -> Tensor:
    """Return how far the texts' likeness to each other is from the teacher's: the mean divergence of a row."""
    itself = torch.eye(len(wanted), device=wanted.device, dtype=torch.bool)
    aim = (wanted @ wanted.T / _HEAT).masked_fill(itself, -1e4).log_softmax(1)
    found = (vectors @ vectors.T / _HEAT).masked_fill(itself, -1e4).log_softmax(1)
    return (aim.exp() * (aim - found)).sum(1).mean()


def lesson(student: Student, batch: Batch, states: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Return the loss of a batch, and the mean cosine of its texts with the teacher."""
    vectors, wanted = [], []
    tokens = torch.zeros((), device=states[0].device)
    for (ids, mask), state in zip(batch, states, strict=True):
        hidden, vector = student(ids, mask)
        state = state.float()
        apart = ((hidden - state) ** 2).sum(-1) / (state**2).sum(-1).clamp(min=1e-6)
        tokens = tokens + (apart * mask).sum() / mask.sum() / len(batch)
        vectors.append(vector)
        wanted.append(pool(state, mask))
    mine, theirs = torch.cat(vectors), torch.cat(wanted)
    cosine = (mine * theirs).sum(1).mean()
    return 5 * (1 - cosine) + likeness(theirs, mine) + tokens, cosine


def rate(step: int, share: float, since_settled: int) -> float:
    """Return the learning rate: it warms up, stays, warms up again once the codes settle, and falls to nothing."""
    if share < _SETTLE:
        return _RATE * min(1.0, (step + 1) / _WARM_STEPS)
    return _RATE * _SETTLED_RATE * min(1.0, (since_settled + 1) / _WARM_STEPS) * max(0.01, (1 - share) / (1 - _SETTLE))


def optimiser(student: Student) -> torch.optim.Optimizer:
    matrices = [value for name, value in student.named_parameters() if name.endswith(".values")]
    others = [value for name, value in student.named_parameters() if not name.endswith(".values")]
    groups = [{"params": matrices, "weight_decay": 0.01}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=_RATE, betas=(0.9, 0.98), fused=matrices[0].is_cuda)


@torch.no_grad()
def judge(student: Student, teacher: Teacher, text: Text, plan: Plan) -> str:
    """Return the mean cosine with the teacher on held-out text, and how many of the ten nearest texts are the same."""
    with torch.random.fork_rng(devices=[text.tokens.device] if text.tokens.is_cuda else []):
        torch.manual_seed(5)
        batches = [draw(text, plan, 0, len(text.starts) // _HELD_OUT) for _ in range(4)]
    cosines, same = [], []
    for batch in batches:
        pairs = [(student(*part)[1], pool(teacher.states(*part), part[1])) for part in batch]
        cosines.append([(mine * theirs).sum(1).mean().item() for mine, theirs in pairs])
        mine, theirs = (torch.cat(part) for part in zip(*pairs, strict=True))
        nearest = [(one @ one.T).fill_diagonal_(-1).topk(10, 1).indices for one in (mine, theirs)]
        same.append((nearest[0][:, :, None] == nearest[1][:, None, :]).any(2).float().mean().item())
    short, middle, long = (sum(row) / len(row) for row in zip(*cosines, strict=True))
    return f"cosine short {short:.4f}, passages {middle:.4f}, long {long:.4f}; same nearest {sum(same) / len(same):.4f}"


@torch.no_grad()
def principal_axes(teacher: Teacher, text: Text, plan: Plan) -> Tensor:
    """Return the axes on which the teacher's vectors of passages vary most."""
    batches = [draw(text, plan, 0, len(text.starts)) for _ in range(24)]
    vectors = torch.cat([pool(teacher.states(*part), part[1]) for batch in batches for part in batch]).double()
    _, axes = torch.linalg.eigh(vectors.T @ vectors)
    return axes.flip(1).T[:_AXES].float()


# --- the training


class Training:
    """A training that can be stopped and taken up again."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.plan = Plan(*options.batch)
        weights = model.read_weights(options.teacher)
        self.teacher = Teacher(weights, self.device, torch.float16 if self.device.type == "cuda" else torch.float32)
        self.text = read_text(options.text, options.pieces, self.device)
        self.progress: dict[str, Any] = {"step": 0, "seconds": 0.0, "settled": 0, "texts": 0}
        self.student, saved = self._student(weights)
        self.student.to(self.device)
        self.optimiser = optimiser(self.student)
        if saved:
            self.optimiser.load_state_dict(saved)

    def _student(self, weights: dict[str, Tensor]) -> tuple[Student, Any]:
        state = self.options.state / "state.pt"
        pieces = sorted(self.options.state.glob("student-*.npy"))
        if state.exists():
            saved = torch.load(state, map_location="cpu", weights_only=True)
            self.progress = saved["progress"]
            return model.resume(weights, saved["student"]), saved["optimiser"]
        torch.manual_seed(1)
        some = draw(self.text, Plan(3, 256, 3), 0, len(self.text.starts))[1]
        student = model.begin(weights, *some)
        if pieces:
            flat = torch.from_numpy(numpy.concatenate([numpy.load(piece) for piece in pieces]).astype(numpy.float32))
            torch.nn.utils.vector_to_parameters(flat, student.parameters())
            self.progress = json.loads((self.options.state / "progress.json").read_text())
        return student, None

    def run(self) -> None:
        options, progress = self.options, self.progress
        teach: Callable[..., Any] = self.teacher.states
        learn: Callable[..., Any] = lesson
        if self.device.type == "cuda" and not options.eager:
            teach, learn = torch.compile(teach, dynamic=False), torch.compile(learn, dynamic=False)
        torch.manual_seed(1000 + progress["step"])
        units = len(self.text.starts)
        say(f"{len(self.text.tokens):,} tokens, {units:,} units; {progress['step']} steps, {progress['seconds']:.0f} s")
        say(judge(self.student, self.teacher, self.text, self.plan))
        began = last = time.monotonic()
        saved_at, steps, spent = began, 0, 0.0
        while spent < options.seconds and progress["seconds"] < options.total and steps < options.steps:
            share = progress["seconds"] / options.total
            if share >= _SETTLE and not progress["settled"]:
                self.student.snap()
                self.optimiser = optimiser(self.student)
                progress["settled"] = progress["step"]
                say("the codes settle")
            for group in self.optimiser.param_groups:
                group["lr"] = rate(progress["step"], share, progress["step"] - progress["settled"])
            batch = draw(self.text, self.plan, units // _HELD_OUT, units)
            loss, cosine = learn(self.student, batch, [teach(*part) for part in batch])
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.student.parameters(), 1.0)
            self.optimiser.step()
            self.optimiser.zero_grad(set_to_none=True)
            steps += 1
            progress["step"] += 1
            progress["texts"] += sum(self.plan)
            if progress["step"] % 100 == 0:
                say(f"step {progress['step']}: loss {loss.item():.4f}, cosine {cosine.item():.4f}, share {share:.3f}")
            now = time.monotonic()
            spent = now - began
            # The first steps compile, which is no part of the training.
            progress["seconds"] += now - last if steps > 3 else 0.0
            last = now
            if now - saved_at > _SAVED_EVERY_S:
                say(judge(self.student, self.teacher, self.text, self.plan))
                self.save()
                saved_at = last = time.monotonic()
        self.progress["judged"] = judge(self.student, self.teacher, self.text, self.plan)
        say(self.progress["judged"])
        self.save()
        self.pack()

    def save(self) -> None:
        """Write the state; a killed run leaves the last one."""
        folder: Path = self.options.state
        folder.mkdir(parents=True, exist_ok=True)
        parts = {"student": self.student.state_dict(), "optimiser": self.optimiser.state_dict()}
        torch.save({**parts, "progress": self.progress}, folder / "state.part")
        (folder / "state.part").rename(folder / "state.pt")

    def pack(self) -> None:
        """Write the packed encoder, and the numbers behind its codes in pieces."""
        folder: Path = self.options.out
        folder.mkdir(parents=True, exist_ok=True)
        card = {"teacher": "all-MiniLM-L6-v2, Apache-2.0", "licence": "Apache-2.0", **self.progress}
        torch.manual_seed(1)
        axes = principal_axes(self.teacher, self.text, self.plan)
        digest = pack.write(folder / "encoder.bin", self.student.parts(axes), model.SHAPE, card)
        flat = torch.nn.utils.parameters_to_vector(self.student.parameters()).detach().half().cpu().numpy()
        for number, start in enumerate(range(0, len(flat), _PIECE_BYTES // 2)):
            numpy.save(folder / f"student-{number}.npy", flat[start : start + _PIECE_BYTES // 2])
        (folder / "progress.json").write_text(json.dumps(self.progress) + "\n")
        say(f"{folder / 'encoder.bin'}: {(folder / 'encoder.bin').stat().st_size:,} bytes, SHA-256 {digest}")


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m training.encoder.distil", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--teacher", type=Path, required=True, help="the folder of all-MiniLM-L6-v2")
    parser.add_argument("--text", type=Path, required=True, help="the folder that training.encoder.text wrote")
    parser.add_argument("--pieces", type=Path, default=Path("mdrecall/embed/offline/pieces.txt"), help="the vocabulary")
    parser.add_argument("--state", type=Path, required=True, help="where the training stands")
    parser.add_argument("--out", type=Path, required=True, help="where the packed encoder goes")
    parser.add_argument("--seconds", type=float, default=500, help="how long this run learns")
    parser.add_argument("--total", type=float, default=1000, help="how long the whole training learns")
    parser.add_argument("--steps", type=int, default=1_000_000, help="stop after this many steps")
    parser.add_argument("--batch", type=int, nargs=3, default=(768, 448, 192), help="short texts, passages, long ones")
    parser.add_argument("--eager", action="store_true", help="do not compile")
    torch.set_float32_matmul_precision("high")
    Training(parser.parse_args(arguments)).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
