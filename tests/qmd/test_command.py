"""The command that a setting names."""

from pathlib import Path

from mdrecall.extras.qmd.process import parse_command, short_name


def test_a_plain_name_is_the_command() -> None:
    assert parse_command(" qmd ") == ("qmd",)


def test_further_words_are_arguments() -> None:
    assert parse_command("node /x/qmd.js --flag") == ("node", "/x/qmd.js", "--flag")


def test_quotes_and_backslashes_work_as_in_a_shell() -> None:
    assert parse_command('"/opt/QMD Tools/qmd" a') == ("/opt/QMD Tools/qmd", "a")
    assert parse_command("'/opt/QMD Tools/qmd'") == ("/opt/QMD Tools/qmd",)
    assert parse_command(r"/opt/QMD\ Tools/qmd") == ("/opt/QMD Tools/qmd",)


def test_nothing_of_a_shell_happens_but_quoting() -> None:
    assert parse_command("qmd $HOME `id`; rm *") == ("qmd", "$HOME", "`id`;", "rm", "*")


def test_of_unbalanced_quotes_the_first_word_counts() -> None:
    assert parse_command("/usr/bin/qmd it's") == ("/usr/bin/qmd",)


def test_a_file_with_a_space_in_its_path_needs_no_quotes(tmp_path: Path) -> None:
    (tmp_path / "QMD Tools").mkdir()
    program = tmp_path / "QMD Tools" / "qmd"
    program.write_text("")
    assert parse_command(str(program)) == (str(program),)
    assert parse_command("~/QMD Tools/qmd", home=str(tmp_path)) == (str(program),)


def test_the_home_is_the_one_that_is_given() -> None:
    assert parse_command("~/bin/qmd --x ~/y", home="/home/ana") == ("/home/ana/bin/qmd", "--x", "~/y")
    assert parse_command('"~/my bin/qmd"', home="/home/ana") == ("/home/ana/my bin/qmd",)


def test_no_text_is_no_command() -> None:
    assert parse_command("  ") == ()


def test_messages_do_not_tell_what_was_asked() -> None:
    assert short_name(("node", "/x/qmd.js"), ("search", "--json", "a secret")) == "qmd search"
    assert short_name(("/x/qmd",), ("--version",)) == "qmd"
