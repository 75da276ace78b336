"""A process that dies takes nothing with it but what killed it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from watchword.datasets.workers import CRASHED, Workers

FATAL = (3, 17)


def work(number: int) -> int:
    """Kills its process for two numbers, the others of that moment being under way."""
    if number in FATAL:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.01)
    return number * number


def fail(number: int) -> int:
    raise ZeroDivisionError(number)


@pytest.mark.parametrize("num_processes", [1, 2])
def test_only_what_kills_its_process_is_lost(num_processes: int) -> None:
    with Workers(num_processes) as workers:
        for _ in range(2):  # and it can be used again
            found = list(workers.each(work, range(20)))
            assert found == [CRASHED if number in FATAL else number * number for number in range(20)]


def test_without_processes_the_work_is_done_here() -> None:
    with Workers(0) as workers:
        assert list(workers.each(os.path.join, [])) == []
        assert list(workers.each(lambda number: (number, os.getpid()), range(2))) == [(0, os.getpid()), (1, os.getpid())]


def test_an_error_is_no_crash() -> None:
    with Workers(1) as workers, pytest.raises(ZeroDivisionError):
        list(workers.each(fail, [1]))


def test_a_script_that_does_not_guard_its_start_is_told_so(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("from watchword.datasets.workers import Workers\nlist(Workers(1).each(abs, [1, 2]))\n")
    done = subprocess.run([sys.executable, str(tmp_path / "script.py")], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert any("InputError" in line and "__main__" in line for line in done.stderr.splitlines()), done.stderr
