"""The fixtures of this folder. Without the extra mcp they cannot be imported, and ``tests/conftest.py`` skips it."""

from importlib.util import find_spec

if find_spec("mcp"):
    from tests.mcp_server.servers import home, inspector, no_thread_left

    __all__ = ["home", "inspector", "no_thread_left"]
