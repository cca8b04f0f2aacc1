"""The command that a setting names."""

from pathlib import Path

import pytest

from mdrecall.extras.qmd.process import parse_command, short_name


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("  ", ()),
        (" qmd ", ("qmd",)),
        ("node /x/qmd.js --flag", ("node", "/x/qmd.js", "--flag")),
        ('"/opt/QMD Tools/qmd" a', ("/opt/QMD Tools/qmd", "a")),
        ("'/opt/QMD Tools/qmd'", ("/opt/QMD Tools/qmd",)),
        (r"/opt/QMD\ Tools/qmd", ("/opt/QMD Tools/qmd",)),
        ("qmd $HOME `id`; rm *", ("qmd", "$HOME", "`id`;", "rm", "*")),
        ("/usr/bin/unbalanced it's", ("/usr/bin/unbalanced",)),
        ("~/bin/qmd --x ~/y", ("/home/ana/bin/qmd", "--x", "~/y")),
        ('"~/my bin/qmd"', ("/home/ana/my bin/qmd",)),
    ],
)
def test_quotes_backslashes_and_the_home_work_as_in_a_shell_and_nothing_else_does(
    text: str, command: tuple[str, ...]
) -> None:
    assert parse_command(text, home="/home/ana") == command


def test_a_file_with_a_space_in_its_path_needs_no_quotes(tmp_path: Path) -> None:
    program = tmp_path / "QMD Tools" / "qmd"
    program.parent.mkdir()
    program.write_text("")
    assert parse_command(str(program)) == parse_command("~/QMD Tools/qmd", home=str(tmp_path)) == (str(program),)


def test_messages_do_not_tell_what_was_asked() -> None:
    assert short_name(("node", "/x/qmd.js"), ("search", "--json", "a secret")) == "qmd search"
    assert short_name(("/x/qmd",), ("--version",)) == "qmd"
