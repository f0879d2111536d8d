"""Training from a program.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Optional, Union

import numpy
from numpy.typing import ArrayLike, NDArray

from . import _longspan
from .configuration import Configuration, settings_of, text_of
from .errors import DataError, Error
from .run import Run
from .session import calling

Documents = Iterable[ArrayLike]
Opened = Callable[[int, int], Optional[Iterator[NDArray[numpy.int64]]]]  # from a document of an epoch on


@dataclass(frozen=True)
class DataPosition:
    """The place in the data from which a training wants documents."""

    epoch: int  # passes over the documents that came before
    document: int  # its number in the epoch, from 0 on


def train(
    configuration: Union[str, os.PathLike[str], Configuration],
    overrides: Optional[Configuration] = None,
    *,
    data: Union[Documents, Callable[[DataPosition], Documents], None] = None,
    on_step: Optional[Callable[[dict[str, Any]], object]] = None,
    quiet: bool = False,
) -> Run:
    """Trains as `longspan train` does, to the last step, and goes on from the newest checkpoint of the run's directory.

    `configuration` is a YAML file, or a dict of sections ({"training": {"max_steps": 100}}) or of whole keys
    ({"training.max_steps": 100}); `overrides` win over it, as --set does. All ranks of a job call it together.

    `data` are documents to learn in place of the files of data.train: arrays of token ids, in an order that is the same on
    every rank and whenever it is asked for. An iterable that can be iterated again begins again with each epoch, and a run that
    goes on passes over what it has learnt. A function is called with a DataPosition and returns the documents from there on, so
    that nothing is passed over. What is read only once, like a generator, lasts for one epoch: when it ends before the last step the run
    saves and stops with a DataError.

    `on_step` is called after each step with its figures: step, tokens, loss, learning_rate, grad_norm, and those of a
    validation where there was one. An exception that it raises ends the training on all ranks with a checkpoint saved, and comes
    out of `train` on the rank that raised it.

    With `quiet` nothing goes to standard output. Ctrl-C, and the signals that the program hears, save and stop:
    StoppedWithCheckpoint.
    """
    if threading.current_thread() is not threading.main_thread():
        raise Error("longspan.train requires the main thread, which handles signals")
    text = text_of(configuration) if isinstance(configuration, Mapping) else None
    file = "configuration" if isinstance(configuration, Mapping) else os.fspath(configuration)
    settings = settings_of(overrides or {})
    if data is not None:
        settings.append("data.train=" + json.dumps(GIVEN))
    raised: list[BaseException] = []
    with calling("train") as ranks:
        try:
            directory = _longspan.train(ranks, file, text, settings, None if data is None else _opener(data),
                                        None if on_step is None else _told(on_step, raised), quiet)
        except BaseException as error:
            # What ends the training before it could stop for that.
            if raised and error is not raised[0] and error.__context__ is None:
                error.__context__ = raised[0]
            raise
    return Run(directory)


GIVEN = "(documents that the program gives)"


def _told(on_step: Callable[[dict[str, Any]], object], raised: list[BaseException]) -> Callable[[str], None]:
    def tell(line: str) -> None:
        try:
            on_step(_figures(json.loads(line)))
        except BaseException as error:
            raised.append(error)
            raise

    return tell


def _figures(line: dict[str, Any]) -> dict[str, Any]:
    """NaN and infinity, which JSON cannot represent: `NAME_reason` holds them."""
    figures = {}
    for name, value in line.items():
        reason = line.get(f"{name}_reason")
        if value is None and isinstance(reason, str):
            value = float(reason)
        if not name.endswith("_reason"):
            figures[name] = value
    return figures


def _opener(data: Union[Documents, Callable[[DataPosition], Documents]]) -> Opened:
    """A function that opens them at a place."""
    if isinstance(data, Iterator):
        return _once(data)

    def open_at(epoch: int, document: int) -> Iterator[NDArray[numpy.int64]]:
        if callable(data) and not isinstance(data, Iterable):
            return _ids(data(DataPosition(epoch, document)), epoch, document)
        return _passed_over(_ids(data, epoch, 0), document)

    return open_at


def _once(data: Iterator[ArrayLike]) -> Opened:
    """Of what cannot begin again: there is nothing behind its end."""
    opened = False

    def open_at(epoch: int, document: int) -> Optional[Iterator[NDArray[numpy.int64]]]:
        nonlocal opened
        if opened or epoch > 0:
            return None
        opened = True
        return _passed_over(_ids(data, 0, 0), document)

    return open_at


def _passed_over(documents: Iterator[NDArray[numpy.int64]], count: int) -> Iterator[NDArray[numpy.int64]]:
    for _ in range(count):
        if next(documents, None) is None:
            break
    return documents


def _ids(documents: Documents, epoch: int, first: int) -> Iterator[NDArray[numpy.int64]]:
    for number, document in enumerate(documents, first):
        ids = numpy.asarray(document)
        if ids.size == 0:
            ids = ids.astype(numpy.int64)
        if ids.ndim != 1 or ids.dtype.kind not in "iu":
            raise DataError(f"the program's data: document {number} of epoch {epoch}: expected a one-dimensional integer array "
                            f"of token ids, found {ids.dtype} of shape {ids.shape}")
        yield numpy.ascontiguousarray(ids, dtype=numpy.int64)
