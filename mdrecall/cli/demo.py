"""``mdrecall demo``: index and search the sample notes that ship with the package."""

import argparse
import os
import shutil
import sys
import tempfile
from importlib.resources import as_file, files

from mdrecall.cli.output import plural, print_issues, print_json, style
from mdrecall.cli.search import print_answer
from mdrecall.errors import WorkspaceError
from mdrecall.memory import Memory

QUESTIONS = ("What did we decide about the database connection pool?", "INC-0042", "dietary restrictions")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--into", metavar="DIR", help="copy the sample notes to this new folder and keep them")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> int:
    with tempfile.TemporaryDirectory(prefix="mdrecall-demo-") as scratch:
        return _show_samples(_copy_sample(options.into or os.path.join(scratch, "workspace")), options, home=scratch)


def _copy_sample(target: str) -> str:
    target = os.path.abspath(os.path.expanduser(target))
    if os.path.exists(target):
        raise WorkspaceError(f"{target} already exists.", hint="Choose a folder that does not exist yet.")
    try:
        with as_file(files("mdrecall") / "sample") as sample:
            shutil.copytree(sample, target)
    except OSError as error:
        shutil.rmtree(target, ignore_errors=True)
        # The error of a whole folder lists those of its files.
        reason = error.strerror or (error.args[0][0][2] if isinstance(error, shutil.Error) else "the copy failed")
        raise WorkspaceError(
            f"Cannot copy the sample notes to {target}: {reason}.", hint="Choose another folder."
        ) from error
    return target


def _show_samples(workspace: str, options: argparse.Namespace, home: str) -> int:
    # With a home of its own the demo neither reads nor writes the user's configuration and index.
    with Memory.open(workspace, env={"HOME": home, "MDRECALL_STATE_DIR": os.path.join(home, "state")}) as memory:
        report = memory.sync()
        status = memory.status()
        if options.json:
            from mdrecall.wire import answer_to_json

            answers = [{"query": query, **answer_to_json(memory.search(query, max_results=2))} for query in QUESTIONS]
            print_json({"workspace": workspace, "files": status.files, "chunks": status.chunks, "answers": answers})
            return 0
        title = style("Sample workspace", "bold")
        print(f"{title}: {plural(status.files, 'note')} indexed as {plural(status.chunks, 'chunk')}.")
        print_issues(report.failed)
        sys.stdout.flush()
        for query in QUESTIONS:
            print("\n" + style(f'$ mdrecall search "{query}" -n 2', "bold"))
            print_answer(memory.search(query, max_results=2), query)
    where = workspace if options.into else "DIR"
    print("\nNow try your own notes: " + style(f'mdrecall search "…" --workspace {where}', "bold"))
    return 0
