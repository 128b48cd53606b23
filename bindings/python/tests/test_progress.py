"""Progress bars of long calls."""

import sys
import time

import pytest

from firndb import _progress


def test_a_function_is_called_as_it_is() -> None:
    reports = []
    with _progress.reporting(lambda *report: reports.append(report), "what", "rows") as report:
        report(1, None)
        report(2, 5)
    assert reports == [(1, None), (2, 5)]


@pytest.mark.parametrize("progress", [None, False])
def test_there_is_no_bar_without_a_terminal(progress) -> None:
    with _progress.reporting(progress, "what", "rows") as report:
        assert report is None


def test_a_bar_if_one_is_wanted(capsys) -> None:
    with _progress.reporting(True, "loading", "rows") as report:
        report(10, 100)
        report(100, 100)
    assert "loading" in capsys.readouterr().err


def test_a_short_call_in_a_terminal_has_no_bar(capsys, monkeypatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with _progress.reporting(None, "loading", "rows") as report:
        report(10, 100)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(_progress, "_DELAY", 0.01)
    with _progress.reporting(None, "loading", "rows") as report:
        time.sleep(0.02)
        report(10, 100)
    assert "loading" in capsys.readouterr().err
