"""Evaluation of and generation with trained models.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Optional, Union

import numpy
from numpy.typing import NDArray

from . import _longspan
from .configuration import Configuration, settings_of
from .session import calling

Path = Union[str, os.PathLike[str]]


@dataclass(frozen=True)
class Sample:
    """A continuation, without the prompt."""

    ids: NDArray[numpy.int64]
    text: str

    def __str__(self) -> str:
        return self.text


def _words(run: Path, checkpoint: Union[str, int, None], overrides: Optional[Configuration], options: dict[str, Any]) -> list[str]:
    """The equivalent command line; None leaves an option at its default."""
    given = {**options, "checkpoint": checkpoint}
    words = []
    for name, value in given.items():
        if value is None or value is False:
            continue
        flag = "--" + name.replace("_", "-")
        text = os.fspath(value) if isinstance(value, os.PathLike) else str(value)
        if value is True:
            words += [flag]
        elif text.startswith("-"):
            words += [f"{flag}={text}"]
        else:
            words += [flag, text]
    for setting in settings_of(overrides or {}):
        words += ["--set", setting]
    return words + ["--", os.fspath(run)]


def evaluate(
    run: Path,
    *,
    checkpoint: Union[str, int, None] = None,
    split: Optional[str] = None,
    data: Optional[Path] = None,
    data_target: Optional[Path] = None,
    mem_len: Optional[int] = None,
    sliding_window: Optional[int] = None,
    stride: Optional[int] = None,
    max_tokens: Optional[int] = None,
    seq_length: Optional[int] = None,
    batch_size: Optional[int] = None,
    loss_by_position: Optional[int] = None,
    needle_in_haystack: Optional[int] = None,
    num_depths: Optional[int] = None,
    beam: Optional[int] = None,
    max_iterations: Optional[int] = None,
    length_beam: Optional[int] = None,
    length_penalty: Optional[float] = None,
    length_penalty_type: Optional[str] = None,
    max_extra_length: Optional[int] = None,
    overrides: Optional[Configuration] = None,
) -> dict[str, Any]:
    """Evaluates a trained model. Returns the fields of `longspan evaluate --json`; the keywords are its options.

    `run` is a Run, its directory, one of its checkpoints, or the YAML file of a run; `overrides` are keys of its configuration
    ({"run.num_threads": 2}). Collective: all ranks of a job call it together and get the same result.
    """
    given = dict(locals())
    options = {name: value for name, value in given.items() if name not in ("run", "checkpoint", "overrides")}
    words = _words(run, checkpoint, overrides, options)
    with calling("evaluate") as ranks:
        metrics: dict[str, Any] = json.loads(_longspan.evaluate(ranks, words))
    return metrics


def generate(
    run: Path,
    prompt: Optional[str] = None,
    *,
    lines: Optional[Iterable[str]] = None,
    prompt_file: Optional[Path] = None,
    checkpoint: Union[str, int, None] = None,
    max_new_tokens: Optional[int] = None,
    num_samples: Optional[int] = None,
    seed: Optional[int] = None,
    temperature: Optional[float] = None,
    top_k: Optional[int] = None,
    top_p: Optional[float] = None,
    mem_len: Optional[int] = None,
    seq_length: Optional[int] = None,
    sample: bool = False,
    beam: Optional[int] = None,
    n_best: Optional[int] = None,
    max_iterations: Optional[int] = None,
    length_beam: Optional[int] = None,
    length_penalty: Optional[float] = None,
    length_penalty_type: Optional[str] = None,
    max_extra_length: Optional[int] = None,
    overrides: Optional[Configuration] = None,
) -> Union[list[Sample], list[str]]:
    """Generates with a trained model, as `longspan generate` with these options: the same ids for the same seed.

    With a language model, returns `num_samples` continuations of `prompt` (a new document without it), each a Sample with `ids`
    and `text`. With a task that maps lines, returns a line for each of `lines`. Collective: all ranks call it together.
    """
    given = dict(locals())
    options = {name: value for name, value in given.items() if name not in ("run", "checkpoint", "overrides", "lines")}
    sources = None if lines is None else [str(line) for line in lines]
    if sources is not None:
        options["input"] = "lines"
    words = _words(run, checkpoint, overrides, options)
    with calling("generate") as ranks:
        made, results = _longspan.generate(ranks, words, sources or [])
    if sources is not None:
        return list(results)
    return [Sample(ids, text) for ids, text in made]
