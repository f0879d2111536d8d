"""What goes wrong: an exception for each exit code of the program, with the program's one sentence.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from typing import ClassVar


class Error(Exception):
    """Whatever the program ends with; `exit_code` is what it would return."""

    exit_code: ClassVar[int] = 1


class ConfigurationError(Error):
    """A bad configuration, or an option that is none."""

    exit_code = 2


class DataError(Error):
    """Bad data, tokenizer or checkpoint."""

    exit_code = 3


class DivergenceError(Error):
    """Training diverged."""

    exit_code = 4


class RankFailedError(Error):
    """A rank failed or hung."""

    exit_code = 5


class StoppedWithCheckpoint(Error):
    """Stopped on request, with a checkpoint saved: train again to go on from it."""

    exit_code = 75


def sentence_of(error: BaseException) -> str:
    """What the log of a run says of it: one line."""
    text = " ".join(str(error).split())
    return text if isinstance(error, Error) else f"{type(error).__name__}: {text}" if text else type(error).__name__


def of_code(code: int) -> type[Error]:
    """The exception of an exit code."""
    kinds = (ConfigurationError, DataError, DivergenceError, RankFailedError, StoppedWithCheckpoint)
    return next((kind for kind in kinds if kind.exit_code == code), Error)
