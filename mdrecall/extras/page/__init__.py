"""The web page, which needs the packages of the extra ``ui``."""

from importlib.util import find_spec

from mdrecall.errors import RecallError, install_command


def require_packages() -> None:
    """Raise if what the web page needs is not installed."""
    missing = [name for name in ("starlette", "uvicorn", "markdown_it") if find_spec(name) is None]
    if missing:
        message = f"The web page needs packages that are not installed: {', '.join(missing)}."
        raise RecallError(message, hint=f"Install them with `{install_command('ui')}`.")
