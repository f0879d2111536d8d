"""The ranks of the job that this process belongs to.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import atexit
import sys
from types import TracebackType
from typing import Optional

from . import _longspan

_session: Optional[_longspan.Session] = None


def session() -> _longspan.Session:
    """The session of this process, begun when it is first needed: all ranks come to that together."""
    global _session
    if _session is None:
        _session = _longspan.Session()
        atexit.register(_end)
        if _session.size > 1:
            _end_job_on_failure(_session)
    return _session


def rank() -> int:
    """This process's place among the ranks of the job; 0 where it is alone."""
    return session().rank


def size() -> int:
    """How many ranks the job has."""
    return session().size


def _end() -> None:
    """Waits for the other ranks, and ends MPI where it was begun here."""
    global _session
    _session = None


def _end_job_on_failure(ranks: _longspan.Session) -> None:
    """An exception that nobody catches ends all ranks, which would wait for this one; one of them shows its own."""
    shown = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: Optional[TracebackType]) -> None:
        if ranks.claim_report():
            shown(kind, error, trace)
        sys.stdout.flush()
        sys.stderr.flush()
        ranks.abort(getattr(error, "exit_code", 1))

    sys.excepthook = hook
