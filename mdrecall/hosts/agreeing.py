"""Prompts that only agree. They are recognised before anything else is imported, because they are frequent."""

_WORDS = """
    ok okay yes yep yup y yeah sure go ahead on do it that this please proceed continue next great good perfect thanks
    thank you cool nice right no nope done looks lets let
    ja gut weiter mach bitte danke passt genau nein oui vas merci parfait accord non sí si vale adelante sigue gracias
    sì va bene grazie avanti sim certo continua obrigado ga door prima dank
    好 好的 是 是的 可以 继续 行 谢谢 はい お願いします 続けて ありがとう 네 예 좋아 계속 감사합니다
"""
#: Words of prompts that agree, thank or ask to go on, in the languages of the offline table.
AGREEING = frozenset(_WORDS.split())


def only_agrees(payload: str) -> bool:
    """True if the prompt in the JSON of an event has no other word; False if JSON escapes one."""
    value = payload.partition('"prompt"')[2].lstrip().removeprefix(":").lstrip()
    words = value[1:].partition('"')[0].lower().split() if value.startswith('"') else []
    return bool(words) and all(word.strip(".,!;:…。！，、") in AGREEING for word in words)
