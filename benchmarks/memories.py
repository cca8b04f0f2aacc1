"""The cosines between short memories: questions and their answers, restatements, and facts that differ.

``python -m benchmarks.memories`` prints the range of each kind. The thresholds in
``mdrecall/extras/lancedb/memories.py`` were chosen with it.
"""

import argparse
import math
import struct

from benchmarks.measure import format_table, spread
from mdrecall.embed.offline import OfflineEmbedder
from mdrecall.extras.lancedb.memories import DUPLICATE, PROMPT, RECALL, cosine_at, same_fact
from mdrecall.interfaces import Embedder
from mdrecall.types.documents import EmbedInput, Traits

#: A memory, a short question about it, and a prompt in which it would help.
ASKED = (
    ("I prefer dark mode in my editor", "which theme does the user like?",
     "Please set up the new editor for me, with the colours I usually have."),
    ("My email is jana@example.com", "what is the user's mail address?",
     "Can you fill in this form for me? It wants my name and my email."),
    ("We decided to use PostgreSQL for the orders database", "which database did we choose for orders?",
     "Write a migration that adds a column for discounts to the orders table of our database."),
    ("The deploy key lives in the team's vault", "where is the deploy key?",
     "The deploy failed because of a missing key, please look into it."),
    ("My sister is called Martina and lives in Prague", "who is Martina?",
     "Next weekend I visit Martina. What should I bring her from here?"),
    ("Never push to main on Fridays", "may I push to main on a Friday?",
     "The fix is ready, it is Friday afternoon. Push it to main now and tell me when it is done."),
    ("I like my coffee black without sugar", "how does the user drink coffee?",
     "Order breakfast for two, with coffee for me and tea for Tom."),
    ("The staging server is at 10.0.0.4", "what is the address of staging?",
     "Copy the build to the staging server and restart it there."),
    ("Always answer me in German", "in which language should answers be?",
     "Summarise this article for me in three sentences, in the language I like."),
    ("My daughter is allergic to peanuts", "which foods can the child not eat?",
     "Plan a birthday party with snacks for my daughter and her friends."),
    ("The weekly meeting is on Tuesday at ten in the garden room", "when is the weekly meeting?",
     "Move my dentist appointment so that it does not clash with the weekly meeting."),
    ("I need invoices as PDF, never as Word files", "in which format are invoices wanted?",
     "Make the invoice for the last project and send it to the customer."),
)  # fmt: skip
#: The same fact in other words: one memory is enough.
RESTATED = (
    ("I prefer dark mode", "I prefer dark mode."),
    ("I prefer dark mode", "i prefer the dark mode"),
    ("I prefer dark mode", "I really prefer dark mode"),
    ("My email is jana@example.com", "my email address is jana@example.com"),
    ("We decided to use PostgreSQL", "We have decided to use PostgreSQL"),
    ("I like my coffee black", "I like black coffee"),
    ("Always answer in German", "Please always answer in German"),
    ("The deploy key lives in the vault", "the deploy key lives in our vault"),
)
#: A similar text with another fact: both must be stored.
CHANGED = (
    ("I prefer dark mode", "I prefer light mode"),
    ("My email is jana@example.com", "My email is jana@example.org"),
    ("My phone is +41791234567", "My phone is +41791234568"),
    ("Always answer in German", "Always answer in French"),
    ("We decided to use PostgreSQL", "We decided to use MySQL"),
    ("I like coffee", "I do not like coffee"),
    ("Never push to main", "Always push to main"),
    ("The meeting is at 10", "The meeting is at 11"),
    ("The code of the door is 4711", "The code of the door is 4712"),
    ("I like cats", "I don't like cats"),
)


def numbers(vector: bytes) -> tuple[float, ...]:
    return struct.unpack(f"<{len(vector) // 4}f", vector)


def cosine(one: bytes, other: bytes) -> float:
    return (
        math.sumprod(numbers(one), numbers(other))
        if hasattr(math, "sumprod")
        else sum(x * y for x, y in zip(numbers(one), numbers(other), strict=True))
    )


def embed_text(embedder: Embedder, text: str) -> bytes:
    return embedder.embed_chunks([EmbedInput("", text)])[0].vector


def measure(embedder: Embedder) -> None:
    memories = [embed_text(embedder, memory) for memory, _, _ in ASKED]
    ranges: dict[str, list[float]] = {}
    for number, (_, question, prompt) in enumerate(ASKED):
        for kind, text in (("question", question), ("prompt", prompt)):
            vector = embedder.embed_query(text, {})
            for other, memory in enumerate(memories):
                ranges.setdefault(f"{kind}, {'its own' if other == number else 'another'}", []).append(
                    cosine(vector, memory)
                )
    ranges["restated"] = [cosine(embed_text(embedder, one), embed_text(embedder, other)) for one, other in RESTATED]
    ranges["changed"] = [cosine(embed_text(embedder, one), embed_text(embedder, other)) for one, other in CHANGED]
    rows = []
    for kind, values in sorted(ranges.items()):
        ends = (min(values), *spread(values), max(values))
        rows.append((kind, str(len(values)), *(f"{value:.3f}" for value in ends)))
    print(f"\n{embedder.provider} {embedder.model}\n")
    print(format_table(("", "count", "min", "median", "95 %", "max"), rows))
    print(summarize(embedder.traits, ranges))


def summarize(traits: Traits, ranges: dict[str, list[float]]) -> str:
    """Return how many pairs of each kind reach the thresholds."""
    cuts = {"question": cosine_at(RECALL, traits), "prompt": cosine_at(PROMPT, traits)}
    rows = [str(cuts)]
    for kind, cut in cuts.items():
        for whose in ("its own", "another"):
            values = ranges[f"{kind}, {whose}"]
            rows.append(f"{kind}, {whose}: {sum(value >= cut for value in values)} of {len(values)} reach {cut:.2f}")
    for kind, pairs in (("restated", RESTATED), ("changed", CHANGED)):
        found = [value >= DUPLICATE and same_fact(*pair) for value, pair in zip(ranges[kind], pairs, strict=True)]
        rows.append(f"{kind}: {sum(found)} of {len(found)} taken for the same")
    return "\n".join(rows)


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    measure(OfflineEmbedder())


if __name__ == "__main__":
    main()
