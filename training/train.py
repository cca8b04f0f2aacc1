"""Make the offline embedding table: ``python -m training.train --teacher DIR --corpus DIR --out DIR``.

A table of word-piece vectors learns to embed texts like the teacher. Three lessons, in every step:

* a passage must get the teacher's vector;
* a few words taken from a passage (mostly taken *out* of it) must find that passage, or a pile of notes that holds
  it, among thousands, half of the time among passages that the teacher finds similar;
* a question must find its answer, likewise.

For the last two the target is mostly the teacher's own ranking, and partly the right answer alone.
"""

import argparse
import sys
import time
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from training import pack, teacher
from training.student import Student, begin, learning_rate
from training.text import Bags, Corpus, read_corpus, tokenise

_ASKING = (
    "what is", "what was", "what are", "what did", "what does", "when did", "when was", "when is", "where is",
    "where did", "who is", "who was", "who did", "which", "how many", "how much", "how long", "how do i", "how does",
    "how did", "why did", "why is", "has", "does", "did", "is there", "can i", "tell me about", "what kind of", "whose",
)  # fmt: skip
_TEACHER_HEAT = 0.05
_STUDENT_HEAT = 0.05


class Plan(NamedTuple):
    """The parameters of one training run."""

    steps: int
    batch: int
    dimensions: int
    rate: float
    match: float
    cloze: float
    pairs: float
    soft: float
    piles: float
    drop: float


class Ground(NamedTuple):
    """What is computed once before training: the teacher's vectors, and clusters of similar texts."""

    passages: Tensor
    questions: Tensor
    answers: Tensor
    members: Tensor
    cluster_starts: Tensor
    cluster_sizes: Tensor


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m training.train", description=__doc__)
    parser.add_argument("--teacher", type=Path, required=True, metavar="DIR", help="all-MiniLM-L6-v2")
    parser.add_argument("--corpus", type=Path, required=True, metavar="DIR", help="passages.jsonl and pairs.jsonl")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--batch", type=int, default=4096)
    parser.add_argument("--dimensions", type=int, default=256)
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--match", type=float, default=2.0, help="weight of lying where the teacher lies")
    parser.add_argument("--cloze", type=float, default=0.5, help="weight of words that find their passage")
    parser.add_argument("--pairs", type=float, default=0.5, help="weight of questions that find their answer")
    parser.add_argument("--soft", type=float, default=0.9, help="share of the teacher's order in what is aimed at")
    parser.add_argument("--piles", type=float, default=0.3, help="share of batches in which passages are piled up")
    parser.add_argument("--drop", type=float, default=0.1, help="share of pieces left out of every text")
    parser.add_argument("--most", type=int, default=2_000_000, help="passages and pairs to read at most")
    parser.add_argument("--held-out", type=int, default=4000, help="pairs kept aside to judge by")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args(arguments)
    plan = Plan(**{name: getattr(options, name) for name in Plan._fields})
    torch.manual_seed(options.seed)
    device = torch.device(options.device)
    guide, tokenizer, vocabulary = teacher.load(options.teacher, device)
    corpus = read_corpus(options.corpus, tokenizer, options.most, teacher.MOST_TOKENS - 2)
    corpus = Corpus(*(part.to(device) for part in corpus))
    say(f"{len(corpus.passages):,} passages, {len(corpus.questions):,} pairs, {len(corpus.passages.flat):,} pieces")
    ground = prepare_ground(guide, corpus)
    asking = tokenise(_ASKING, tokenizer, 8).to(device)
    student = begin(guide, vocabulary, plan.dimensions, corpus.passages, device)
    train(student, guide, corpus, ground, asking, plan, options.held_out)
    digest = pack.write(options.out, vocabulary, student.with_weights().cpu())
    say(f"written to {options.out}, {digest}")
    return 0


def prepare_ground(guide: teacher.Teacher, corpus: Corpus) -> Ground:
    passages, questions, answers = (teach(guide, bags) for bags in corpus)
    say("the teacher has read everything")
    groups = cluster(passages, max(1, len(passages) // 512))
    sizes = torch.bincount(groups)
    sizes = sizes[sizes > 0]
    return Ground(passages, questions, answers, torch.argsort(groups), torch.cumsum(sizes, 0) - sizes, sizes)


def teach(guide: teacher.Teacher, bags: Bags) -> Tensor:
    """Return the teacher's vector of each text."""
    tokens = 524_288 if bags.flat.is_cuda else 8192
    out = torch.empty(len(bags), teacher.WIDTH, dtype=torch.float16, device=bags.flat.device)
    for rows in teacher.batches(bags.lengths.clamp(max=teacher.MOST_TOKENS), tokens):
        out[rows] = guide.embed(*teacher.pad(bags.starts[rows], bags.lengths[rows], bags.flat)).half()
    return out


def cluster(vectors: Tensor, count: int, rounds: int = 8) -> Tensor:
    """Return the cluster of each text, out of ``count``."""
    centres = vectors[torch.randperm(len(vectors), device=vectors.device)[:count]]
    for _ in range(rounds):
        nearest = torch.cat([(some @ centres.T).argmax(1) for some in vectors.split(65_536)])
        sums = torch.zeros(count, vectors.shape[1], device=vectors.device)
        sums.index_add_(0, nearest, vectors.float())
        centres = functional.normalize(sums, dim=-1).to(vectors.dtype)
    return nearest


def train(
    student: Student, guide: teacher.Teacher, corpus: Corpus, ground: Ground, asking: Bags, plan: Plan, held_out: int
) -> None:
    optimiser = torch.optim.AdamW(student.parameters(), lr=plan.rate, weight_decay=0.0, betas=(0.9, 0.98))
    began = time.monotonic()
    judge(student, corpus, ground, held_out, "at the start")
    for step in range(plan.steps):
        for group in optimiser.param_groups:
            group["lr"] = plan.rate * learning_rate(step, plan.steps)
        loss = cloze_lesson(student, guide, corpus.passages, ground, asking, plan)
        if plan.pairs and len(corpus.questions) > held_out:
            loss = loss + plan.pairs * pair_lesson(student, corpus, ground, plan, held_out)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()
        if step % 500 == 499:
            say(f"step {step + 1}: loss {loss.item():.4f}, {time.monotonic() - began:.0f} s")
        if step % 4000 == 3999:
            judge(student, corpus, ground, held_out, f"after {step + 1}")
    judge(student, corpus, ground, held_out, "at the end")


def cloze_lesson(
    student: Student, guide: teacher.Teacher, passages: Bags, ground: Ground, asking: Bags, plan: Plan
) -> Tensor:
    """A few words of a passage must find it; every text must get the teacher's vector."""
    rows = draw(ground, plan.batch, passages.starts.device)
    ids, owners = passages.take(rows)
    span_ids, span_owners, inside = spans(passages, rows, ids, owners, asking)
    taken_out = inside & (torch.rand(len(rows), device=ids.device) < 0.7)[owners]
    sums = student.sums(ids, owners, len(rows), keep_pieces(ids, plan.drop) * ~taken_out)
    queries = student.sums(span_ids, span_owners, len(rows), keep_pieces(span_ids, plan.drop))
    lengths = torch.bincount(span_owners, minlength=len(rows))
    starts = torch.cumsum(lengths, 0) - lengths
    wanted = guide.embed(*teacher.pad(starts, lengths, span_ids))
    targets = ground.passages[rows].float()
    match = cosine_distance(student.lift(sums), targets) + cosine_distance(student.lift(queries), wanted)
    if torch.rand(()) < plan.piles:
        return plan.match * match + plan.cloze * find_pile(queries, sums)
    return plan.match * match + plan.cloze * find(queries, sums, wanted, targets, plan.soft)


def pair_lesson(student: Student, corpus: Corpus, ground: Ground, plan: Plan, held_out: int) -> Tensor:
    rows = torch.randint(held_out, len(corpus.questions), (plan.batch,), device=corpus.questions.starts.device)
    questions = sum_pieces(student, corpus.questions, rows, plan.drop)
    answers = sum_pieces(student, corpus.answers, rows, plan.drop)
    return find(questions, answers, ground.questions[rows].float(), ground.answers[rows].float(), plan.soft)


def draw(ground: Ground, count: int, device: torch.device) -> Tensor:
    """Return passages for one step: random ones, or all from a few clusters."""
    if torch.rand(()) < 0.5:
        return torch.randint(0, len(ground.members), (count,), device=device)
    groups = torch.randint(0, len(ground.cluster_sizes), (max(1, count // 128),), device=device).repeat_interleave(128)
    within = (torch.rand(len(groups), device=device) * ground.cluster_sizes[groups]).long()
    return ground.members[ground.cluster_starts[groups] + within].unique()


def spans(passages: Bags, rows: Tensor, ids: Tensor, owners: Tensor, asking: Bags) -> tuple[Tensor, Tensor, Tensor]:
    """Return a run of 3 to 14 pieces from every passage, half of them after a question word, and their positions."""
    device = ids.device
    lengths = passages.lengths[rows]
    size = torch.minimum(torch.randint(3, 15, (len(rows),), device=device), (lengths + 1) // 2)
    start = (torch.rand(len(rows), device=device) * (lengths - size + 1)).long()
    first = torch.cumsum(lengths, 0) - lengths
    place = torch.arange(len(ids), device=device) - first[owners]
    inside = (place >= start[owners]) & (place < (start + size)[owners])
    asked = torch.nonzero(torch.rand(len(rows), device=device) < 0.5).squeeze(1)
    words = torch.randint(0, len(asking), (len(asked),), device=device)
    asking_ids, asking_owners = asking.take(words)
    all_owners = torch.cat([asked[asking_owners], owners[inside]])
    order = torch.argsort(all_owners, stable=True)
    return torch.cat([asking_ids, ids[inside]])[order], all_owners[order], inside


def keep_pieces(ids: Tensor, drop: float) -> Tensor:
    return (torch.rand(len(ids), device=ids.device) >= drop).float()


def sum_pieces(student: Student, bags: Bags, rows: Tensor, drop: float = 0.0) -> Tensor:
    ids, owners = bags.take(rows)
    return student.sums(ids, owners, len(rows), keep_pieces(ids, drop) if drop else None)


def cosine_distance(lifted: Tensor, wanted: Tensor) -> Tensor:
    return 1 - functional.cosine_similarity(lifted, wanted).mean()


def find(queries: Tensor, passages: Tensor, wanted: Tensor, targets: Tensor, soft: float) -> Tensor:
    """Return the loss of each query: its distance from its own passage, and from the teacher's ranking."""
    likeness = functional.normalize(queries, dim=-1) @ functional.normalize(passages, dim=-1).T / _STUDENT_HEAT
    right = torch.arange(len(queries), device=queries.device)
    hard = functional.cross_entropy(likeness, right)
    order = torch.softmax(wanted @ targets.T / _TEACHER_HEAT, dim=-1)
    return (1 - soft) * hard + soft * functional.cross_entropy(likeness, order)


def find_pile(queries: Tensor, passages: Tensor) -> Tensor:
    """Return the loss with passages in piles of two to five, like notes in one file: a query must find its pile."""
    size = int(torch.randint(2, 6, ()))
    pile = torch.randperm(len(passages), device=passages.device) // size
    piles = torch.zeros(int(pile.max()) + 1, passages.shape[1], device=passages.device).index_add(0, pile, passages)
    likeness = functional.normalize(queries, dim=-1) @ functional.normalize(piles, dim=-1).T / _STUDENT_HEAT
    return functional.cross_entropy(likeness, pile)


@torch.no_grad()
def judge(student: Student, corpus: Corpus, ground: Ground, held_out: int, when: str) -> None:
    """Return how well held-out questions find their answers among many passages: MRR@10 of student and teacher."""
    if len(corpus.questions) <= held_out:
        return
    device = corpus.questions.starts.device
    rows = torch.arange(held_out, device=device)
    others = torch.arange(min(60_000, len(corpus.passages)), device=device)
    mine = (
        sum_pieces(student, corpus.questions, rows),
        torch.cat([sum_pieces(student, corpus.answers, rows), sum_pieces(student, corpus.passages, others)]),
    )
    theirs = ground.questions[rows].float(), torch.cat([ground.answers[rows], ground.passages[others]]).float()
    say(f"{when}: MRR@10 {reciprocal(*mine):.4f}, the teacher's {reciprocal(*theirs):.4f}")


def reciprocal(queries: Tensor, passages: Tensor) -> float:
    passages = functional.normalize(passages, dim=-1)
    total = 0.0
    for some in torch.arange(len(queries), device=queries.device).split(1024):
        likeness = functional.normalize(queries[some], dim=-1) @ passages.T
        place = (likeness > likeness.gather(1, some[:, None])).sum(1) + 1
        total += float((1 / place)[place <= 10].sum())
    return total / len(queries)


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
