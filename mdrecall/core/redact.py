REDACTION_VERSION = 1


def redact(text: str) -> str:
    return text
