"""Each attempt's commit is told, also of earlier ones, and is the one it began at."""

from __future__ import annotations

from gputui.session.job_directories import Commit, commits_in, with_earlier

FIRST = "job name: a\nattempt: 1\ngit commit: abc\ngit dirty:  M x.py\ngit dirty: and 7 more\n"


def test_a_commit_and_its_changed_files_are_read_back() -> None:
    assert commits_in(FIRST) == {1: Commit("abc", 8)}
    assert commits_in("attempt: 1\n") == {}


def test_the_commit_that_an_attempt_began_at_stays_when_it_ends_at_another() -> None:
    assert with_earlier("git commit: def\n", 1, FIRST) == "git commit: abc\ngit dirty:  M x.py\ngit dirty: and 7 more\n"


def test_a_later_attempt_keeps_what_the_earlier_ones_ran_at() -> None:
    second = "attempt: 2\n" + with_earlier("git commit: def\n", 2, FIRST)
    third = "attempt: 3\n" + with_earlier("git commit: fed\n", 3, second)
    assert commits_in(third) == {1: Commit("abc", 8), 2: Commit("def", 0), 3: Commit("fed", 0)}
