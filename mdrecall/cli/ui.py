"""``mdrecall ui``: look at a memory in a browser."""

import argparse

from mdrecall.cli.mcp import add_memory_options, answer_commands, make_selection
from mdrecall.cli.options import parse_port


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--port", type=parse_port, default=0, metavar="N", help="the port (default: a free one)")
    parser.add_argument("--no-open", action="store_true", help="print the link without opening a browser")
    add_memory_options(
        parser,
        read_only="show everything and change nothing",
        session_key="show what the conversation with this session key may see, and change nothing",
    )


def run(options: argparse.Namespace) -> int:
    from mdrecall.mcp_server.http import HttpEndpoint
    from mdrecall.mcp_server.memories import select_memories
    from mdrecall.mcp_server.start import exit_on_signals, log_to_stderr
    from mdrecall.ui.app import require_packages
    from mdrecall.ui.app import run as serve

    require_packages()
    exit_on_signals()
    log_to_stderr()
    served = select_memories(make_selection(options))
    endpoint = HttpEndpoint(port=options.port)
    listening = endpoint.listen()

    from mdrecall.mcp_server.memories import Memories
    from mdrecall.ui.app import App

    app = App(Memories(served, share=answer_commands), options.session_key, can_change=not options.read_only)

    def announce(link: str) -> None:
        print(f"Your memory: {link}", flush=True)
        print("The link works once. Press Ctrl-C to stop.", flush=True)
        if not options.no_open:
            _open_browser(link)

    return serve(app, listening, endpoint, announce)


def _open_browser(link: str) -> None:
    """Open the link; a machine without a browser has printed it."""
    import threading
    import webbrowser

    # A text browser would take this terminal, and some browsers keep the call waiting.
    threading.Thread(target=webbrowser.open, args=(link,), daemon=True).start()
