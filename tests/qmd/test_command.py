"""The command that a setting names."""

from pathlib import Path

from mdrecall.qmd.process import command_of, named


def test_a_plain_name_is_the_command() -> None:
    assert command_of(" qmd ") == ("qmd",)


def test_further_words_are_arguments() -> None:
    assert command_of("node /x/qmd.js --flag") == ("node", "/x/qmd.js", "--flag")


def test_quotes_and_backslashes_work_as_in_a_shell() -> None:
    assert command_of('"/opt/QMD Tools/qmd" a') == ("/opt/QMD Tools/qmd", "a")
    assert command_of("'/opt/QMD Tools/qmd'") == ("/opt/QMD Tools/qmd",)
    assert command_of(r"/opt/QMD\ Tools/qmd") == ("/opt/QMD Tools/qmd",)


def test_nothing_of_a_shell_happens_but_quoting() -> None:
    assert command_of("qmd $HOME `id`; rm *") == ("qmd", "$HOME", "`id`;", "rm", "*")


def test_of_unbalanced_quotes_the_first_word_counts() -> None:
    assert command_of("/usr/bin/qmd it's") == ("/usr/bin/qmd",)


def test_a_file_with_a_space_in_its_path_needs_no_quotes(tmp_path: Path) -> None:
    (tmp_path / "QMD Tools").mkdir()
    program = tmp_path / "QMD Tools" / "qmd"
    program.write_text("")
    assert command_of(str(program)) == (str(program),)
    assert command_of("~/QMD Tools/qmd", home=str(tmp_path)) == (str(program),)


def test_the_home_is_the_one_that_is_given() -> None:
    assert command_of("~/bin/qmd --x ~/y", home="/home/ana") == ("/home/ana/bin/qmd", "--x", "~/y")
    assert command_of('"~/my bin/qmd"', home="/home/ana") == ("/home/ana/my bin/qmd",)


def test_no_text_is_no_command() -> None:
    assert command_of("  ") == ()


def test_messages_do_not_tell_what_was_asked() -> None:
    assert named(("node", "/x/qmd.js"), ("search", "--json", "a secret")) == "qmd search"
    assert named(("/x/qmd",), ("--version",)) == "qmd"
