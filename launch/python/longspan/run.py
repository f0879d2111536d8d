"""A run, as its directory tells of it.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Optional, Union

import numpy
from numpy.typing import NDArray

from . import _longspan
from .configuration import nested
from .errors import DataError

Columns = dict[str, NDArray[Any]]


class Run:
    """The directory of a run, which may train, have ended, or be damaged. Everything is read when it is asked for."""

    def __init__(self, path: Union[str, os.PathLike[str]]) -> None:
        """Raises DataError where no run is there."""
        self.path = Path(path)
        self._record()

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r})"

    def __fspath__(self) -> str:
        return str(self.path)

    def _record(self) -> dict[str, Any]:
        record: dict[str, Any] = json.loads(_longspan.record(str(self.path)))
        return record

    @property
    def state(self) -> str:
        """never started, running, finished, stopped, diverged or failed."""
        return str(self._record()["state"])

    @property
    def step(self) -> int:
        """The last step that was logged or saved."""
        return int(self._record()["step"])

    @property
    def max_steps(self) -> Optional[int]:
        """training.max_steps."""
        steps = self._record()["max_steps"]
        return None if steps is None else int(steps)

    @property
    def layout(self) -> dict[str, Optional[int]]:
        """Ranks by axis: data, context, tensor."""
        return dict(self._record()["layout"])

    @property
    def end_reason(self) -> str:
        """The error at the end of the log of a run that diverged or failed."""
        return str(self._record()["end_reason"])

    @property
    def errors(self) -> list[str]:
        """What cannot be read of it, a message each."""
        return list(self._record()["errors"])

    @property
    def config(self) -> dict[str, Any]:
        """Every key with its value, in sections: run.config["training"]["max_steps"]."""
        file = self.path / "config.yaml"
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"{file}: cannot be read: {error}") from None
        return nested(text, str(file))

    @property
    def metrics(self) -> Columns:
        """An array for each number of metrics.jsonl, an element for each logged step; NaN where a step has none."""
        columns: Columns = dict(_longspan.metrics(str(self.path / "metrics.jsonl")))
        for name in ("step", "tokens"):
            if name in columns and not numpy.isnan(columns[name]).any():
                columns[name] = columns[name].astype(numpy.int64)
        return columns

    @property
    def checkpoints(self) -> list[int]:
        """The steps that are saved, oldest first."""
        return list(_longspan.steps(str(self.path / "checkpoints")))
