"""Sentences that bind the future, in ten languages, beside sentences with the same words that do not."""

import pytest

from mdrecall.sessions.wishes import FoundWish, find_wishes

WISHES = """
Always run the linter before you commit.
Please always answer in German.
And never use mocks in the integration tests.
From now on, write commit messages in the imperative.
Use pnpm instead of npm from now on.
Going forward, keep functions under forty lines.
Give me three options whenever I ask for a name.
When I ask for code, show the complete file.
You must never delete a migration.
Could you always include a short summary at the end?
Make sure you always check the types.
Don't ever touch the vendored folder.
Don't commit anything unless I ask you to.
I want you to always mention version numbers when I ask about dependencies.
For all future questions about probability, show the formula first.
I'm a beginner, so always explain terms in plain language.
I tend to prefer visual aids over text.
I would rather walk than drive to work.
I'm more of a morning person and prefer to write before 9 AM.
I value concise communication over long meetings.
I prefer short answers, so can you cut this down?
I'd rather have many small commits than one large one.
I like to see the diff before anything is committed.
I don't like emojis in commit messages.
I always use the metric system.
My preferred language for scripts is Python.
My editor is vim.
I am allergic to peanuts, what can I cook tonight?
Call me Al.
Antworte immer auf Deutsch.
Bitte immer zuerst den Plan zeigen.
Verwende niemals any in TypeScript.
Ab jetzt schreibst du die Commits auf Englisch.
Immer die Tests laufen lassen.
Du sollst nie direkt auf main pushen.
Ich bevorzuge kurze Antworten.
Ich arbeite am liebsten mit der Kommandozeile.
Mein Editor ist Emacs.
Réponds toujours en français.
N'utilise jamais de var en JavaScript.
Désormais, écris les messages de commit en anglais.
Tu dois toujours lancer les tests avant de pousser.
Je préfère les réponses courtes.
Je n'aime pas les longues introductions.
Usa siempre comillas simples.
Siempre responde en español.
Nunca borres una migración.
A partir de ahora, escribe los comentarios en inglés.
Prefiero respuestas cortas.
No me gustan los emojis en el código.
Usa sempre TypeScript.
Non usare mai i tab.
D'ora in poi rispondi in italiano.
Preferisco le funzioni piccole.
Sono allergico alle noci.
Sempre responda em português.
Nunca use ponto e vírgula.
A partir de agora, escreva testes para tudo.
Prefiro respostas curtas.
Não gosto de explicações longas.
Gebruik altijd tabs.
Push nooit rechtstreeks naar main.
Voortaan schrijf je de commits in het Engels.
Ik geef de voorkeur aan korte antwoorden.
Ik gebruik Linux.
以后都用中文回答。
请始终使用单引号。
每次提交前都要运行测试。
永远不要直接推送到主分支。
我更喜欢简短的回答。
今後は日本語で答えてください。
コミットの前にいつもテストを実行してください。
決してmainに直接プッシュしないでください。
私は短い回答のほうが好きです。
앞으로는 한국어로 대답해 주세요.
커밋하기 전에 항상 테스트를 실행해 줘.
절대 main에 바로 푸시하지 마세요.
저는 짧은 답변을 선호합니다.
"""

OTHERS = """
It always fails on Windows.
The test never passes in CI.
I was always getting this error.
You always forget the semicolon.
What's this count, it starts high and never gets to 0
FTS search results should always be in reverse chronological order.
Never mind.
Always failing with the same error.
Never worked for me either.
Do not edit files yet, this is read-only.
Don't touch the other commands for now.
First run the tests, then commit.
No, use a map instead.
We don't want a debug.go file.
Stop writing to that file.
I prefer this one.
I'd prefer option B.
I like those key bindings.
I like it.
I would prefer to do that here first.
From now on we have two tables.
From now on the server rejects it.
In the future we could add a cache.
Why does it always do that?
Does the parser ever see that?
I always get a timeout.
The docs say "always use the lock", is that right?
Change the label to `never ask again`.
When I ask for a page it crashes.
From now on I want to sleep more.
We tend to prefer the second table.
What happens when I ask for the last page?
I use this in two places.
I'm on it.
My name for the branch is wrong.
If the queue is empty, it never returns.
The flag is defined but never read.
Make sure the file is closed.
Should it always be on?
Es schlägt immer fehl.
Das ist immer noch kaputt.
Wir verwenden immer Postgres.
Die Tests laufen nie durch.
Warum ist das immer leer?
Ich bevorzuge die zweite Variante.
Ich nutze das hier nur zum Testen.
Ab jetzt haben wir zwei Tabellen.
Ça plante toujours.
Toujours pas.
Le test échoue toujours.
Je préfère la deuxième.
Pourquoi est-ce que ça n'arrive jamais ?
Siempre falla en el mismo sitio.
El test nunca pasa.
¿Por qué siempre sale vacío?
Funziona sempre.
Il test non passa mai.
O teste sempre falha.
Nunca funciona.
Het werkt altijd.
De test slaagt nooit.
Ik heb liever deze.
它总是失败。
为什么总是报错？
我喜欢这个。
先不要提交。
以后再说。
我们总是用这个表。
いつも失敗します。
まだコミットしないでください。
これが好きです。
なぜ毎回エラーになりますか？
항상 실패해요.
아직 커밋하지 마세요.
이게 더 좋아요.
왜 항상 비어 있어?
"""

WITHDRAWALS = """
You don't need to run the linter any more.
You no longer have to cite your sources.
Forget that I prefer tabs.
Stop always answering in German.
Du musst nicht mehr auf Deutsch antworten.
Vergiss, dass ich Tabs bevorzuge.
Tu n'as plus besoin de lancer les tests.
Oublie que je préfère les tabulations.
Ya no hace falta que respondas en español.
Olvida que prefiero los tabuladores.
Non devi più rispondere in italiano.
Dimentica che preferisco i tab.
Não precisa mais responder em português.
Esqueça que prefiro tabs.
Je hoeft niet meer in het Engels te antwoorden.
Vergeet dat ik tabs gebruik.
不用再用中文回答了。
もう日本語で答えなくていいです。
더 이상 한국어로 대답하지 않아도 돼요.
"""


def lines(text: str) -> list[str]:
    return text.strip().split("\n")


@pytest.mark.parametrize("sentence", lines(WISHES))
def test_a_wish_is_found(sentence: str) -> None:
    (found,) = find_wishes(sentence)
    assert not found.is_withdrawal


@pytest.mark.parametrize("sentence", lines(OTHERS))
def test_other_sentences_are_no_wishes(sentence: str) -> None:
    assert list(find_wishes(sentence)) == []


@pytest.mark.parametrize("sentence", lines(WITHDRAWALS))
def test_a_wish_can_be_taken_back(sentence: str) -> None:
    assert list(find_wishes(sentence)) == [FoundWish(sentence, is_withdrawal=True)]
