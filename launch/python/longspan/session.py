"""The ranks of the job that this process belongs to.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import atexit
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Optional

from . import _longspan
from .errors import Error, sentence_of

Hook = Callable[[type[BaseException], BaseException, Optional[TracebackType]], object]

_session: Optional[_longspan.Session] = None
_shown: Optional[Hook] = None  # what sys.excepthook was, while it is the one of here
_under_way = threading.Lock()


def session() -> _longspan.Session:
    """The session of this process, begun when it is first needed: all ranks come to that together."""
    global _session
    if _session is None:
        _session = _longspan.Session()
        atexit.register(_end)
        if _session.size > 1:
            _end_job_on_failure()
    return _session


@contextmanager
def calling(function: str) -> Iterator[_longspan.Session]:
    """The session, for one call of a function at a time: what ranks say to each other would be mixed up."""
    if not _under_way.acquire(blocking=False):
        raise Error(f"longspan.{function}: another call is running; call it after that has returned")
    try:
        ranks = session()
        if ranks.size > 1 and threading.current_thread() is not threading.main_thread():
            raise Error(f"longspan.{function} requires the main thread, which alone uses MPI")
        yield ranks
    finally:
        _under_way.release()


def rank() -> int:
    """This process's place among the ranks of the job; 0 where it is alone."""
    return session().rank


def size() -> int:
    """How many ranks the job has."""
    return session().size


def _end() -> None:
    """Waits for the other ranks, and ends MPI where it was begun here."""
    global _session, _shown
    if _shown is not None:
        if sys.excepthook is _end_job:
            sys.excepthook = _shown
        _shown = None
    _session = None


def _end_job_on_failure() -> None:
    """An exception that nobody catches ends all ranks, which would wait for this one; one of them shows its own."""
    global _shown
    _shown = sys.excepthook
    sys.excepthook = _end_job


def _end_job(kind: type[BaseException], error: BaseException, trace: Optional[TracebackType]) -> None:
    ranks = _session
    shown = _shown or sys.__excepthook__
    if ranks is None:
        shown(kind, error, trace)
        return
    if ranks.claim_report():
        shown(kind, error, trace)
        if ranks.rank > 0:  # of what fails on the first rank its training has told the log
            ranks.tell(sentence_of(error))
    sys.stdout.flush()
    sys.stderr.flush()
    ranks.abort(getattr(error, "exit_code", 1))
