"""Questions in one language, notes in another: ``python -m benchmarks.languages [--mode hybrid] [--min-score 0]``.

The notes were written in their language and not translated from the questions. Each language's notes are a workspace;
``mixed`` asks everything in one workspace with all notes, where notes in other languages may answer too and come first.
Printed are the share of questions whose note comes first, with its 95 % interval (Wilson), and of those whose note is
among the first five.

With ``--cost`` nothing of that: printed is what each language costs, as processor time of embedding its notes and of
one search from the command line, and as memory of a process that has searched in it.
"""

import argparse
import math
import os
import statistics
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from benchmarks.measure import format_table, run, take_cpu_ms
from mdrecall import Memory
from mdrecall.embed.offline import OfflineEmbedder
from mdrecall.types.documents import EmbedInput
from mdrecall.types.search import MODES

REPEATS = 15


class Question(NamedTuple):
    """A question, the language it is asked in, and the note that answers it."""

    language: str
    text: str
    note: str


NOTES = {
    "zh": {
        "zh-teeth": "周五下午三点去看牙医，上次补的那颗牙又疼了。诊所在二楼，记得带医保卡。",
        "zh-backup": "数据库每天凌晨两点自动备份，备份文件保留三十天，存放在机房的硬盘柜里。",
        "zh-cat": "小猫对鸡肉过敏，只能吃鱼味的猫粮，剩菜不要喂它。",
        "zh-rent": "房租每个月一号交，房东换了新的银行账号，转账之前先打电话确认。",
        "zh-budget": "会上把明年的市场预算砍了两成，展会先不参加，省下来的钱用来招两个工程师。",
        "zh-flight": "妈妈的航班改到周日早上六点，要提前一天去机场附近的酒店住。",
        "zh-wifi": "家里路由器的密码贴在电视柜后面，客人来了用访客网络。",
        "zh-run": "医生说膝盖有炎症，这个月不要跑步，可以游泳和骑车。",
        "zh-car": "汽车保险下个月到期，上次理赔很慢，这回想换一家保险公司。",
        "zh-school": "女儿的学校九月开学，校服要提前订，家长会在第二周的星期三晚上。",
        "zh-tea": "给爷爷买的生日礼物是一套紫砂茶壶，他最近只喝普洱茶。",
        "zh-deploy": "上线之前必须先在测试环境跑一遍，回滚脚本由小王负责，周五不发版。",
    },
    "ja": {
        "ja-dentist": "金曜日の午後に歯医者の予約がある。親知らずを抜くかもしれないので、夕食は軽くする。",
        "ja-meeting": "定例会議は来週から火曜日の朝に変更になった。議事録は田中さんが書く。",
        "ja-cat": "うちの猫は牛乳を飲むとお腹をこわす。水だけにしておくこと。",
        "ja-server": "サーバーの証明書は十一月に期限が切れる。更新を忘れると全部のサイトが止まる。",
        "ja-trip": "京都旅行の宿は駅から歩いて五分の旅館を予約した。朝食付きで二泊。",
        "ja-mother": "母の誕生日には青いマフラーを贈った。来年は花にしようと思う。",
        "ja-bike": "自転車の鍵をなくした。合鍵は玄関の引き出しに入っている。",
        "ja-invoice": "請求書は月末までに経理に送らないと、支払いが翌月になってしまう。",
        "ja-allergy": "息子は卵とそばのアレルギーがあるので、給食は弁当を持たせている。",
        "ja-garden": "庭のトマトは水をやりすぎると割れる。朝だけ水をやる。",
        "ja-password": "銀行のパスワードは三か月ごとに変える決まりになっている。",
        "ja-moving": "引っ越しは三月の最後の週末。冷蔵庫と洗濯機は新しく買う。",
    },
    "de": {
        "de-dentist": "Am Freitag um drei zum Zahnarzt, die Füllung von letztem Mal tut wieder weh.",
        "de-backup": "Die Datenbank wird jede Nacht um zwei gesichert, die Sicherungen bleiben dreißig Tage liegen.",
        "de-rent": "Die Miete steigt ab Januar um vierzig Euro, der Vermieter hat einen Brief geschickt.",
        "de-dog": "Der Hund verträgt kein Getreide mehr, der Tierarzt hat ihm anderes Futter gegeben.",
        "de-insurance": "Die Kündigung der Autoversicherung muss bis Ende November abgeschickt werden.",
        "de-key": "Der Ersatzschlüssel für den Keller liegt bei der Nachbarin im dritten Stock.",
        "de-school": "Der Elternabend in der Schule ist auf Mittwoch verschoben, wir sollen Kuchen mitbringen.",
        "de-printer": "Der Drucker im Büro streikt, wenn das Papier zu feucht ist. Neues Papier steht im Schrank.",
        "de-grandma": "Oma bekommt zum Geburtstag eine Lampe zum Lesen, ihre Augen werden schlechter.",
        "de-train": "Mit dem Zug nach Wien: Abfahrt sieben Uhr zwölf, Fahrkarten sind im Rucksack.",
        "de-invoice": "Die Rechnung vom Klempner ist bezahlt, er kommt im Frühling noch einmal wegen der Heizung.",
        "de-team": "Das Team liefert freitags nichts mehr aus, weil sonst am Wochenende jemand arbeiten muss.",
    },
    "en": {
        "en-dentist": "Dentist moved me to Thursday at nine, the crown is ready. Bring the insurance card.",
        "en-server": "The mail server's certificate runs out in March, and nobody but Dana knows how to renew it.",
        "en-cat": "The cat must not have milk any more, the vet says it upsets her stomach.",
        "en-rent": "Landlord raises the rent by fifty from January. We pay on the first of the month.",
        "en-keys": "Spare keys for the office are in the blue box on the second floor.",
        "en-meeting": "Weekly meeting is on Tuesdays now, and Sam takes the minutes.",
        "en-knee": "Doctor said no running until the knee has healed; swimming is fine.",
        "en-gift": "Got grandpa a reading lamp for his birthday, because his eyes are getting weak.",
        "en-tomato": "Tomatoes in the garden split if they get too much water. Water them in the morning only.",
        "en-train": "Train tickets to Vienna are in the backpack, it leaves shortly after seven.",
        "en-budget": "We cut next year's marketing budget by a fifth and hire two engineers instead.",
        "en-allergy": "My son is allergic to eggs and buckwheat, so he takes his own lunch to school.",
    },
}

QUESTIONS = (
    Question("en", "when is my dentist appointment", "zh-teeth"),
    Question("en", "how long do we keep database backups", "zh-backup"),
    Question("en", "what food is the kitten allergic to", "zh-cat"),
    Question("en", "when do I have to pay the landlord", "zh-rent"),
    Question("en", "what happened to the marketing budget for next year", "zh-budget"),
    Question("en", "what time does mom's plane leave", "zh-flight"),
    Question("en", "where is the router password", "zh-wifi"),
    Question("en", "which sport may I do with my bad knee", "zh-run"),
    Question("en", "car insurance renewal", "zh-car"),
    Question("en", "when does my daughter's school begin", "zh-school"),
    Question("en", "what did we give grandfather for his birthday", "zh-tea"),
    Question("en", "who owns the rollback script for releases", "zh-deploy"),
    Question("en", "having a tooth pulled on Friday", "ja-dentist"),
    Question("en", "which day is the regular meeting now", "ja-meeting"),
    Question("en", "can the cat drink milk", "ja-cat"),
    Question("en", "when does the server certificate expire", "ja-server"),
    Question("en", "hotel booking for the Kyoto trip", "ja-trip"),
    Question("en", "what present did mother get for her birthday", "ja-mother"),
    Question("en", "where is the spare bicycle key", "ja-bike"),
    Question("en", "deadline for sending invoices to accounting", "ja-invoice"),
    Question("en", "what is our son allergic to", "ja-allergy"),
    Question("en", "how often should the tomatoes be watered", "ja-garden"),
    Question("en", "how often must the bank password be changed", "ja-password"),
    Question("en", "when are we moving house", "ja-moving"),
    Question("en", "when do I see the dentist", "de-dentist"),
    Question("en", "how often is the database backed up", "de-backup"),
    Question("en", "how much does the rent go up", "de-rent"),
    Question("en", "what can the dog no longer eat", "de-dog"),
    Question("en", "until when can the car insurance be cancelled", "de-insurance"),
    Question("en", "who has the spare key to the basement", "de-key"),
    Question("en", "what to bring to the parents' evening at school", "de-school"),
    Question("en", "why does the office printer not work", "de-printer"),
    Question("en", "birthday gift for grandma", "de-grandma"),
    Question("en", "when does the train to Vienna leave", "de-train"),
    Question("en", "did we pay the plumber", "de-invoice"),
    Question("en", "why are there no deliveries on Friday", "de-team"),
    Question("zh", "牙医预约在哪一天", "en-dentist"),
    Question("zh", "谁会更新邮件服务器的证书", "en-server"),
    Question("zh", "猫不能喝什么", "en-cat"),
    Question("zh", "房租涨了多少", "en-rent"),
    Question("zh", "办公室的备用钥匙放在哪里", "en-keys"),
    Question("zh", "膝盖受伤还能跑步吗", "en-knee"),
    Question("zh", "明年的市场预算", "en-budget"),
    Question("zh", "去维也纳的火车票在哪", "en-train"),
    Question("ja", "歯医者はいつですか", "en-dentist"),
    Question("ja", "猫に牛乳をあげてもいいですか", "en-cat"),
    Question("ja", "家賃はいくら上がりますか", "en-rent"),
    Question("ja", "会議の議事録は誰が書きますか", "en-meeting"),
    Question("ja", "トマトの水やり", "en-tomato"),
    Question("ja", "息子のアレルギー", "en-allergy"),
    Question("ja", "祖父の誕生日の贈り物", "en-gift"),
    Question("ja", "来年の予算はどうなりましたか", "en-budget"),
    Question("de", "Wann ist der Termin beim Zahnarzt?", "en-dentist"),
    Question("de", "Wer kann das Zertifikat vom Mailserver erneuern?", "en-server"),
    Question("de", "Was darf die Katze nicht mehr trinken?", "en-cat"),
    Question("de", "Um wie viel steigt die Miete?", "en-rent"),
    Question("de", "Wo liegen die Ersatzschlüssel fürs Büro?", "en-keys"),
    Question("de", "Darf ich mit dem Knie laufen?", "en-knee"),
    Question("de", "Geschenk für Opa", "en-gift"),
    Question("de", "Wie oft soll man die Tomaten gießen?", "en-tomato"),
)


class Score(NamedTuple):
    """How many of the questions were answered."""

    questions: int
    first: int
    in_five: int


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.languages", description=__doc__)
    parser.add_argument("--mode", choices=MODES, default="hybrid")
    parser.add_argument("--min-score", type=float, default=None, help="instead of the default of the settings")
    parser.add_argument("--cost", action="store_true", help="print what each language costs instead")
    parser.add_argument("--missed", action="store_true", help="also print the questions whose note is not first")
    options = parser.parse_args(arguments)
    if options.cost:
        return print_costs()
    rows = []
    for label, notes, questions in workspaces():
        score = ask_all(notes, questions, options)
        low, high = interval(score.first, score.questions)
        shares = (
            f"{score.first / score.questions:.3f}",
            f"{low:.3f}–{high:.3f}",
            f"{score.in_five / score.questions:.3f}",
        )
        rows.append((label, str(score.questions), *shares))
    print(format_table(("questions → notes", "questions", "first", "interval", "in five"), rows))
    return 0


def interval(hits: int, count: int) -> tuple[float, float]:
    """Return the bounds of the Wilson interval for 95 %."""
    z, share = 1.96, hits / count
    middle = share + z * z / (2 * count)
    half = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    return (middle - half) / (1 + z * z / count), (middle + half) / (1 + z * z / count)


def workspaces() -> Iterator[tuple[str, dict[str, str], list[Question]]]:
    """Yield a label, the notes and the questions of each workspace."""
    for to, notes in NOTES.items():
        about = [question for question in QUESTIONS if question.note in notes]
        for asked in dict.fromkeys(question.language for question in about):
            yield f"{asked} → {to}", notes, [question for question in about if question.language == asked]
    yield "mixed", {name: text for notes in NOTES.values() for name, text in notes.items()}, list(QUESTIONS)


def ask_all(notes: dict[str, str], questions: list[Question], options: argparse.Namespace) -> Score:
    first = in_five = 0
    with lay_out(notes) as (workspace, env), Memory.open(workspace, env=env) as memory:
        memory.sync()
        for question in questions:
            answer = memory.search(question.text, max_results=10, mode=options.mode, min_score=options.min_score)
            found = list(dict.fromkeys(Path(result.path).stem for result in answer))
            first += found[:1] == [question.note]
            in_five += question.note in found[:5]
            if options.missed and found[:1] != [question.note]:
                print(f"  {question.text} → {question.note}; found {', '.join(found[:5]) or 'nothing'}")
    return Score(len(questions), first, in_five)


@contextmanager
def lay_out(notes: dict[str, str]) -> Iterator[tuple[Path, dict[str, str]]]:
    """Yield a workspace with these notes, and an environment with a state folder of its own."""
    with tempfile.TemporaryDirectory(prefix="mdrecall-languages-") as folder:
        memory_dir = Path(folder, "workspace", "memory")
        memory_dir.mkdir(parents=True)
        for name, text in notes.items():
            (memory_dir / f"{name}.md").write_text(text + "\n", encoding="utf-8")
        env = {**os.environ, "MDRECALL_STATE_DIR": str(Path(folder, "state")), "HOME": str(Path(folder, "home"))}
        yield memory_dir.parent, env


def print_costs() -> int:
    """Print the CPU time and the memory that each language takes."""
    rows = []
    for language, notes in NOTES.items():
        own = {"zh": "备份", "ja": "予約", "de": "Zahnarzt", "en": "dentist"}[language]
        with lay_out(notes) as (folder, env):
            questions = (own, "when is the dentist")
            cold = [time_cold_search(folder, env, question) for question in questions]
            code = f"from mdrecall import Memory\nwith Memory.open({str(folder)!r}) as memory:\n"
            code += f"    [memory.search(text) for text in {questions!r} * 10]"
            memory_mb = run([sys.executable, "-c", code], env, folder).peak_mb
        rows.append(
            [language, f"{time_embedding(notes):.2f} µs", *(f"{ms:.0f} ms" for ms in cold), f"{memory_mb:.1f} MB"]
        )
    print(format_table(("notes", "embedding a character", "cold search", "English question", "peak memory"), rows))
    return 0


def time_embedding(notes: dict[str, str]) -> float:
    """Return the microseconds of CPU time that embedding takes for each character."""
    embedder = OfflineEmbedder()
    inputs = [EmbedInput("", text) for text in notes.values()] * 20
    taken = take_cpu_ms(lambda _: embedder.embed_chunks(inputs), [""] * REPEATS)
    return 1000 * statistics.median(taken) / sum(len(text) for _, text in inputs)


def time_cold_search(folder: Path, env: dict[str, str], question: str) -> float:
    """Return the milliseconds of CPU time of a search from the command line."""
    command = [sys.executable, "-m", "mdrecall", "search", question, "--no-warm", "--workspace", str(folder)]
    return statistics.median(run(command, env, folder).cpu_ms for _ in range(REPEATS))


if __name__ == "__main__":
    sys.exit(main())
