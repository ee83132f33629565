"""Checks of texts (`torch.testing.FileCheck`)."""

import pytest

from rushlight.testing import FileCheck

TEXT = "alpha beta\ngamma delta\nepsilon beta\n"


@pytest.mark.parametrize(
    "check",
    [
        FileCheck().check("beta").check("gamma"),
        FileCheck().check("alpha").check_same("beta"),
        FileCheck().check("alpha").check_next("gamma"),
        FileCheck().check_not("zeta"),
        FileCheck().check("gamma").check_not("alpha"),
        FileCheck().check_count("beta", 2),
        FileCheck().check_count("beta", 2, exactly=True),
        FileCheck().check_dag("gamma").check_dag("alpha").check("epsilon"),
        FileCheck().check_regex("g.*a"),
    ],
    ids=str,
)
def test_checks_that_hold(check):
    assert check.run(TEXT) is None


@pytest.mark.parametrize(
    "check, sentence",
    [
        (FileCheck().check("gamma").check("alpha"), 'Expected to find "alpha" but did not find it'),
        (FileCheck().check("alpha").check_same("gamma"), 'Expected to not find "\\n" but found it'),
        (FileCheck().check("alpha").check_next("epsilon"), 'Expected to not find "\\n" but found it'),
        (FileCheck().check("alpha").check_next("beta"), 'Expected to not find "\\n" but found it'),
        (FileCheck().check("epsilon beta\n").check_next("x"), 'Expected to find "\\n" but did not find it'),
        (FileCheck().check('a"b\\\t'), 'Expected to find "a\\"b\\\\\\t" but did not find it'),
        (FileCheck().check_not("beta"), 'Expected to not find "beta" but found it'),
        (
            FileCheck().check("alpha").check_not("delta").check("epsilon"),
            'Expected to not find "delta" but found it',
        ),
        (FileCheck().check_count("beta", 1, exactly=True), 'Expected to not find "beta" but found it'),
        (FileCheck().check_count("beta", 3), 'Expected to find "beta" but did not find it'),
        (FileCheck().check_dag("gamma").check_dag("zz"), 'Expected to find "zz" but did not find it'),
        (FileCheck().check_regex("zz+"), 'Expected to find regex "zz+" but did not find it'),
        (FileCheck(), "No checks have been added"),
    ],
    ids=str,
)
def test_checks_that_fail(check, sentence):
    with pytest.raises(RuntimeError) as caught:
        check.run(TEXT)
    assert str(caught.value).startswith(sentence)


LINES = "alpha\nbeta gamma\ndelta\nepsilon zeta\neta\ntheta\niota"
EXCERPTS = {
    FileCheck().check("nope"): "alpha\n~~~~ <--- HERE\nbeta gamma\ndelta\nFrom",
    FileCheck().check("delta").check("alpha"): "alpha\nbeta gamma\ndeltaFrom",
    FileCheck().check_not("zeta"): "beta gamma\ndelta\nepsilon zeta\n        ~~~~ <--- HERE\neta\ntheta\nFrom",
    FileCheck().check_count("a", 99): "eta\ntheta\niotaFrom",
    FileCheck().check_same("zeta"): "alpha\nbeta gamma\ndelta\nepsilon zeta\nFrom",
    FileCheck().check("alpha").check_next("delta"): "alpha\nbeta gamma\ndelta\nepsilon zeta\neta\nFrom",
    FileCheck().check_not("gamma\nde"): "alpha\nbeta gamma\n     ~~~~~\ndelta\n~~ <--- HERE\nepsilon zeta\neta\nFrom",
    FileCheck().check_regex("z.*q"): "Searched string:\nFrom",
    FileCheck().check_source_highlighted("beta"): "not.\nalpha\n~~~~ <--- HERE\nbeta gamma\ndelta\n",
    FileCheck().check_source_highlighted("gamma"): "not.\nalpha\n~~~~~ <--- HERE\nbeta gamma\ndelta\n",
    FileCheck().check_source_highlighted("iota"): "not.\neta\ntheta\n",
}


@pytest.mark.parametrize("check", EXCERPTS, ids=str)
def test_errors_show_the_lines_around(check):
    """torch's excerpts."""
    with pytest.raises(RuntimeError) as caught:
        check.run(LINES)
    assert EXCERPTS[check] in str(caught.value)


def test_checks_in_comments():
    FileCheck().run("# CHECK: alpha\n# CHECK-NOT: foo\n# CHECK-NEXT: gamma", TEXT)
    FileCheck().run("# CHECK-COUNT-2: beta\n", TEXT)
    with pytest.raises(RuntimeError, match="From CHECK-NOT: beta"):
        FileCheck().run("# CHECK-COUNT-EXACTLY-1: beta\n", TEXT)
    with pytest.raises(RuntimeError, match="CHECK-MAYBE"):
        FileCheck().run("# CHECK-MAYBE: beta\n", TEXT)


def test_highlighted_text():
    FileCheck().check_source_highlighted("beta").run("x beta\n  ~~~~\n")
    with pytest.raises(RuntimeError, match='Expected to find "beta"highlighted but it is not'):
        FileCheck().check_source_highlighted("beta").run("x beta\n  ~~~ \n")


def test_checks_that_never_run_say_so(capsys):
    FileCheck().check("a")
    assert capsys.readouterr().out == "You have not run this instance of FileCheck!\nFileCheck checks:\n\tCHECK: a\n"


def test_unusable_checks_are_refused():
    for checks, error, message in (
        (lambda: FileCheck().check_count("a", -1), TypeError, r"check_count\(\)"),
        (lambda: FileCheck().check_regex("(").run("a"), RuntimeError, "is no regular expression"),
        (lambda: FileCheck().run("# CHECK-FOO: a", "a"), RuntimeError, "^Could not parse check at:"),
    ):
        with pytest.raises(error, match=message):
            checks()
