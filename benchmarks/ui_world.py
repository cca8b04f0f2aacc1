"""The memory of somebody who does not exist, for pictures: a year of notes, people, projects and conversations.

Stories go on from day to day in their order; the rest of a day is drawn from what returns. The same each time.
"""

import json
import os
import random
import shutil
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from importlib.resources import as_file, files
from pathlib import Path

#: The year ends with the sample notes of mdrecall, which tell of the same shop.
FIRST, LAST = date(2025, 1, 2), date(2026, 1, 30)

PAGES = {
    "people/jonas.md": """# Jonas

- My partner. Birthday on 3 May; wants no party, and then enjoys it.
- Plays the viola on Thursdays, so dinner is late.
- Allergic to penicillin.
- Likes [[walnut-bread]] dark.
""",
    "people/lena.md": """# Lena

- Our daughter, seven. Second grade with Ms. Hartwig, room 12.
- Swims on Tuesdays at 16:30, the bag is in the hall.
- Reads everything about owls. The nest box is on the [[allotment]].
""",
    "people/ines-okafor.md": """# Ines Okafor

- Runs *Crumb & Co*. Prefers short answers, numbers first.
- Coffee black. Hates surprises on Mondays.
- Decides about prices and [[gift-wrapping]] herself.
""",
    "people/misaki.md": """# Misaki (美咲)

- Translates the shop into Japanese; ask her before changing any 商品名.
- In Kyoto until May, so mails are answered overnight.
- Works on the [[checkout]] with us.
""",
    "people/priya.md": """# Priya

- Runs with me on Sundays. Faster up the hill, never says so.
- Physiotherapist: ask her about the knee before asking a doctor.
- The plan is in [[half-marathon]].
""",
    "people/dr-brandt.md": """# Dr. Brandt

- Dentist, Lindenstraße 8. Appointments by phone before 11.
- Next check-up in March; the left molar is to be watched.
""",
    "projects/checkout.md": """# Checkout

## Goal
Fewer abandoned baskets: below 25 % by February.

## Plan
- [x] One page instead of three
- [x] Guest checkout
- [x] Japanese texts with [[misaki]]
- [ ] Apple Pay
""",
    "projects/lisbon.md": """---
title: Lisbon in autumn
tags: [travel, family]
---

# Lisbon in autumn

A week in October with [[jonas|Jonas]] and [[lena|Lena]]. The flat is in Graça, key box 4471, below the arch.

## What it costs

| what | euros |
| --- | ---: |
| train to Porto, three seats | 84 |
| flat, seven nights | 770 |
| Oceanário, family ticket | 65 |

## Before we go

- [x] Book the flat
- [x] Passport for Lena, valid until 2030
- [x] Tell the neighbours about the cat
- [ ] Ask [[priya|Priya]] for the name of the bakery

## There

We meet Ana at the miradouro on Wednesday at six. Lena wants to see the sea otters **twice**.
""",
    "projects/half-marathon.md": """# Half marathon

On 21 September, start 9:30 at the town hall. With [[priya]].

- Three runs a week, one of them slow.
- Longest run two weeks before: 18 km.
- Goal: under two hours.
""",
    "projects/allotment.md": """# Allotment

Plot 37, key under the second pot. Water is off from November to March.

- Nest box for owls with [[lena]]
- Tomatoes: only the small ones get ripe here.
- Compost on the left.
""",
    "projects/kitchen.md": """# Kitchen

New worktop and lights.

- Oak, 38 mm, oiled twice a year.
- Offer by the joiner Viktor Lang: 3,480 euros.
- Sockets: two more beside the window.
""",
    "recipes/walnut-bread.md": """# Walnut bread

500 g spelt, 350 ml water, 10 g salt, 120 g walnuts. Overnight in the cellar, then 50 minutes at 230 °C in the pot.
[[jonas]] likes it dark.
""",
    "recipes/pumpkin-soup.md": "# Pumpkin soup\n\nOne hokkaido, two carrots, ginger, coconut milk. Freezes well.\n",
    "recipes/okonomiyaki.md": "# Okonomiyaki\n\nFrom [[misaki]]: cabbage, flour, egg, dashi. Flip it once.\n",
    "reading/the-peregrine.md": "# The Peregrine\n\nJ. A. Baker. A winter of following one bird. Read it again.\n",
    "reading/thinking-in-systems.md": """# Thinking in Systems

Donella Meadows. Stocks and flows; useful for the warehouse of [[ines-okafor]].
""",
}

#: Stories: when they begin, how many days lie between two of their lines, and the lines.
STORIES: tuple[tuple[date, int, str, tuple[str, ...]], ...] = (
    (
        date(2025, 1, 13),
        9,
        "Checkout",
        (
            "Ines wants fewer abandoned baskets: 41 % in December.",
            "Watched five people buy flour. All five looked for the total first.",
            "Decided: one page instead of three. See [[checkout]].",
            "Sketch of the new page is with Ines; she moved the total to the top.",
            "Guest checkout works on the test server.",
            "Tomasz found why the test server forgets baskets: the session cookie had no path.",
            "One page is live for a tenth of the visitors. No complaints so far.",
            "Abandoned baskets: 36 %. Ines sent cake.",
            "All visitors have the new page. `checkout.onePage.enabled` is gone from the settings.",
            "Misaki asks whether 送料 should be shown before the address. Yes.",
            "Japanese texts are in; 「注文する」 is too short for the wide button.",
            "Checkout stalls now and then at noon. Nothing in the logs.",
            "Tomasz suspects connections: Postgres allows 100.",
            "Apple Pay: contract is with Ines.",
            "Deploy moved to Tuesday, never again on a Friday.",
            "Refunds take three clicks now instead of nine.",
            "Decided against a wish list. Nobody has asked for one.",
            "Abandoned baskets: 31 %.",
            "The Christmas rush begins on 24 November; no changes after the 20th.",
            "Orders doubled since Monday, servers are calm.",
        ),
    ),
    (
        date(2025, 3, 4),
        6,
        "Running",
        (
            "Knee is quiet again after two weeks off. Priya says: short steps.",
            "5 km by the canal, slow, 31 minutes.",
            "6 km with Priya, talked all the way.",
            "Registered for the half marathon, start number 1184.",
            "7 km, first warm evening.",
            "8 km. New shoes, size 42.5, the green ones.",
            "Hill repeats. Never again until next week.",
            "10 km in 58 minutes!",
            "Rest week, Lena had a cold and so did I.",
            "11 km in the rain.",
            "12 km. Water after 8 km makes the difference.",
            "9 km with Jonas on the bike beside me.",
            "13 km, too hot. Start at seven from now on.",
            "14 km, knee is fine.",
            "Intervals, 6 × 800 m.",
            "15 km along the river and back by train.",
            "16 km. Two hours look possible.",
            "Slow 8 km.",
            "18 km, the longest. Priya brought dates.",
            "Short runs only from here.",
            "Half marathon: 1:57:42. Priya waited for me at the last corner.",
        ),
    ),
    (
        date(2025, 3, 22),
        11,
        "Allotment",
        (
            "Water is on again. Two pots did not survive the frost.",
            "Sowed radishes, peas and spinach.",
            "Lena painted the nest box. It is purple; the owls will have to live with it.",
            "Peas are up. Slugs have found the salad.",
            "Planted twelve tomatoes in the rain.",
            "First strawberries, all eaten on the spot.",
            "Neighbour of plot 38 gave us a rhubarb.",
            "Watered every second day; the barrel is empty.",
            "Tomatoes: 4 kg, mostly the small ones.",
            "Something lives in the nest box. Not an owl.",
            "Harvested pumpkins, seven of them.",
            "Planted garlic.",
            "Water is off. Key is back under the second pot.",
        ),
    ),
    (
        date(2025, 5, 12),
        8,
        "Lisbon",
        (
            "Jonas wants the sea in October. Lisbon?",
            "Flights are cheap from Wednesday; we go by train through Porto.",
            "Booked the flat in Graça, 770 euros. See [[lisbon]].",
            "Lena needs a passport: photo, both signatures.",
            "Passport office, 40 minutes. It comes in four weeks.",
            "Ana from university lives in Alfama now. She answers!",
            "Passport is here, valid until 2030.",
            "Lena has drawn a list of animals for the Oceanário.",
        ),
    ),
    (
        date(2025, 10, 4),
        1,
        "Lisbon",
        (
            "Arrived. The flat smells of oranges; key box 4471 sticks.",
            "Tram 28 stood still, so we walked. 214 steps.",
            "Oceanário. The sea otters twice, as promised.",
            "Rain. Pastéis, cards, rain.",
            "Met Ana at the miradouro at six. She has a dog called Bola.",
            "Sintra by train; Lena wants to be a king.",
            "Last evening, sardines. Jonas plays with a street fiddler.",
        ),
    ),
    (
        date(2025, 6, 3),
        13,
        "Kitchen",
        (
            "The worktop has swollen beside the sink. It has to go.",
            "Viktor Lang, joiner, comes on Friday; 0171 555 0134.",
            "Viktor Lang measured. Oak takes six weeks.",
            "Offer from Viktor Lang: 3,480 euros. Accepted.",
            "Electrician added two sockets by the window.",
            "Viktor Lang is late, the oak is not dry.",
            "Worktop is in. Oil it twice in the first month.",
            "Paid Viktor Lang, invoice 2025-118.",
        ),
    ),
    (
        date(2025, 2, 10),
        17,
        "Warehouse",
        (
            "Ines loses an hour a day counting flour.",
            "Scanner for the warehouse: a phone is enough.",
            "First shelf labelled, A1 to A12.",
            "Scanner app counts. Rye was wrong by 40 sacks.",
            "All shelves are labelled.",
            "Stock is right within 2 %. Ines counts on Fridays only.",
            "Labels fall off in the cold room. Other glue.",
            "Reorder point for yeast: 30 packs.",
            "Papierhaus Zürich delivers gift paper from 200 sheets.",
            "Inventory took 50 minutes instead of a day.",
        ),
    ),
)

#: What returns: on which weekdays, how often, under which heading, and the lines with their numbers.
ROUTINE: tuple[tuple[tuple[int, ...], float, str, tuple[str, ...]], ...] = (
    (
        (0, 1, 2, 3, 4),
        0.62,
        "Work",
        (
            "Orders yesterday: {n}. Returns: {k}.",
            "Stand-up with Ines and Tomasz, {k} minutes.",
            "Backup of last night restored in {k} minutes.",
            "Reviewed the newsletter; {n} people clicked on the rye.",
            "Fixed the sorting of the price list.",
            "Answered {k} questions about tax on gift cards.",
            "Page load {k}.{k} s on a phone.",
            "Wrote the runbook for the mail queue.",
            "Tomasz updated Postgres, eleven seconds offline.",
            "Updated the shipping table for Norway.",
        ),
    ),
    (
        (1,),
        0.7,
        "Home",
        ("Lena swam {n} lengths.", "Lena has the seahorse badge.", "Swimming bag stood in the hall. Of course."),
    ),
    ((3,), 0.5, "Home", ("Jonas at the viola, soup at nine.", "Read to Lena, two chapters of owls.")),
    (
        (5, 6),
        0.4,
        "Home",
        (
            "Walnut bread, darker than last time.",
            "Market: pears, leeks, a very large cauliflower.",
            "Oiled the bikes.",
            "Called Mum. Her hip is better.",
            "Board games until ten, Lena won.",
            "Read some of The Peregrine.",
            "Pumpkin soup for the freezer, {k} portions.",
            "Cleaned the cellar, found the tent.",
        ),
    ),
    (
        (0, 2, 4),
        0.12,
        "Health",
        ("Slept badly.", "Dr. Brandt: molar is fine, see you in {k} months.", "Physio with Priya, {n} minutes."),
    ),
)

#: Conversations with an agent: the day, and what was said in turn.
TALKS = (
    (
        "2025-02-11",
        "Which shelf holds the rye?",
        "According to your notes the labels go from A1 to A12, and rye is in A7.",
    ),
    (
        "2025-03-18",
        "How do I get back into running after the knee?",
        "Priya's advice in your notes: short steps, and one slow run a week.",
    ),
    (
        "2025-05-27",
        "What does Lena need for the passport?",
        "A photo and both signatures. You noted four weeks of waiting.",
    ),
    ("2025-06-20", "When did Viktor Lang want to come?", "Friday, to measure. His number is 0171 555 0134."),
    (
        "2025-08-14",
        "Remind me what the joiner costs.",
        "Viktor Lang offered 3,480 euros for the oak worktop, and you accepted.",
    ),
    ("2025-09-02", "What is my longest run so far?", "16 km on the last Sunday of August."),
    ("2025-10-01", "Where is the key of the flat in Lisbon?", "In key box 4471, below the arch in Graça."),
    (
        "2025-11-19",
        "When do we stop deploying before Christmas?",
        "After 20 November, and the rush begins on the 24th.",
    ),
    (
        "2026-01-12",
        "Why does checkout stall at noon?",
        "Each worker opens its own connections and Postgres allows 100.",
    ),
    (
        "2026-01-14",
        "What went wrong today?",
        "PgBouncer was started with max_client_conn = 50; checkout failed for 15 minutes.",
    ),
)


def write_world(home: Path) -> Path:
    """Write the notes, the conversations and OpenClaw's configuration below a home folder; return the notes' folder."""
    folder = home / "notes"
    with as_file(files("mdrecall") / "sample") as sample:
        shutil.copytree(sample, folder)
    for path in folder.rglob("*.md"):
        _write(path, path.read_text(encoding="utf-8"), LAST)
    for name, text in PAGES.items():
        _write(folder / "memory" / name, text, LAST - timedelta(len(text) % 200 // 9))
    for day, sections in _tell_days():
        path = folder / "memory" / f"{day}.md"
        text = "".join(
            f"\n## {title}\n" + "".join(f"- {line}\n" for line in lines) for title, lines in sections.items()
        )
        before = path.read_text(encoding="utf-8") if path.exists() else f"# {day:%A}, {day.day} {day:%B %Y}\n"
        _write(path, before + text, day)
    _write_talks(home)
    return folder


def _tell_days() -> Iterator[tuple[date, dict[str, list[str]]]]:
    draw = random.Random("a year")
    stories: dict[date, list[tuple[str, str]]] = {}
    for first, step, title, lines in STORIES:
        for number, line in enumerate(lines):
            # People do not write on even days; a week of travel has no gaps.
            shift = draw.randrange(step) if step > 1 else 0
            stories.setdefault(first + timedelta(number * step + shift), []).append((title, line))
    for number in range((LAST - FIRST).days + 1):
        day = FIRST + timedelta(number)
        sections: dict[str, list[str]] = {}
        for title, line in stories.get(day, ()):
            sections.setdefault(title, []).append(line)
        is_away = date(2025, 10, 4) <= day <= date(2025, 10, 11) or date(2025, 7, 19) <= day <= date(2025, 8, 3)
        for weekdays, share, title, lines in () if is_away else ROUTINE:
            if day.weekday() in weekdays and draw.random() < share:
                chosen = draw.sample(lines, min(len(lines), draw.randint(1, 3)))
                filled = [line.format(n=draw.randint(18, 64), k=draw.randint(2, 9)) for line in chosen]
                sections.setdefault(title, []).extend(filled)
        if sections:
            yield day, sections


def _write(path: Path, text: str, day: date) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    # The last day of the notes is today, so that Home has something to show.
    shift = date.today() - LAST if path.suffix == ".md" else timedelta()
    moment = datetime.combine(day + shift, time(8)).timestamp()
    os.utime(path, (moment, moment))


def _write_talks(home: Path) -> None:
    search = {"sources": ["memory", "sessions"], "experimental": {"sessionMemory": True}}
    config = {
        "agents": {"defaults": {"workspace": str(home / "notes"), "memorySearch": search}, "list": [{"id": "main"}]}
    }
    folder = home / ".openclaw" / "agents" / "main" / "sessions"
    folder.mkdir(parents=True)
    (home / ".openclaw" / "openclaw.json").write_text(json.dumps(config), encoding="utf-8")
    for number, (day, *texts) in enumerate(TALKS):
        lines = (
            {"type": "message", "timestamp": f"{day}T10:00:00Z",
             "message": {"role": "assistant" if turn % 2 else "user", "content": text}}
            for turn, text in enumerate(texts)
        )  # fmt: skip
        _write(
            folder / f"talk-{number}.jsonl", "".join(json.dumps(line) + "\n" for line in lines), date.fromisoformat(day)
        )
