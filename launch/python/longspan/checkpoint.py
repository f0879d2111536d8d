"""A checkpoint, as arrays.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Optional, Union

import numpy
from numpy.typing import NDArray

from . import _longspan
from .configuration import nested

try:
    import ml_dtypes

    _bfloat16: Optional[numpy.dtype[Any]] = numpy.dtype(ml_dtypes.bfloat16)
except ImportError:
    _bfloat16 = None

_kept = {"f64": "<f8", "f32": "<f4", "f16": "<f2", "i64": "<i8", "i32": "<i4", "u8": "u1"}


class Checkpoint(Mapping[str, NDArray[Any]]):
    """One saved step: its tensors by name, each a NumPy array of the whole, put together from what the ranks wrote.

    Nothing is read before it is asked for. Of what is read each hash is verified; DataError says what is damaged. bfloat16 is
    an array of ml_dtypes.bfloat16 where the package ml_dtypes is installed, and of float32, without loss, where it is not.
    """

    def __init__(self, path: Union[str, os.PathLike[str]], checkpoint: Union[str, int, None] = None) -> None:
        """`path` is a step's directory, or a run, of which the newest step is meant, or the one that `checkpoint` names: a
        number, "step-000000500", or "best"."""
        name = None if checkpoint is None else str(checkpoint)
        self._file = _longspan.Checkpoint.open(os.fspath(path), name)
        self._tensors = {name: (kept, tuple(shape)) for name, kept, shape in self._file.tensors()}

    def __repr__(self) -> str:
        return f"Checkpoint({str(self.path)!r})"

    def __getitem__(self, name: str) -> NDArray[Any]:
        """Reads it; KeyError where there is no such tensor."""
        kept, shape = self._tensors[name]
        elements: NDArray[Any] = self._file.read(name)
        if kept != "bf16":
            return elements.view(_kept[kept]).reshape(shape)
        if _bfloat16 is not None:
            return elements.view(_bfloat16).reshape(shape)
        return (elements.view("<u2").astype(numpy.uint32) << 16).view(numpy.float32).reshape(shape)

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def __contains__(self, name: object) -> bool:
        return name in self._tensors

    @property
    def names(self) -> list[str]:
        """Of its tensors, in their order."""
        return list(self._tensors)

    def shape(self, name: str) -> tuple[int, ...]:
        """Of a tensor, which is not read for it."""
        return self._tensors[name][1]

    def dtype(self, name: str) -> numpy.dtype[Any]:
        """Of the array that reading the tensor gives."""
        kept = self.storage_dtype(name)
        if kept == "bf16":
            return _bfloat16 if _bfloat16 is not None else numpy.dtype(numpy.float32)
        return numpy.dtype(_kept[kept])

    def storage_dtype(self, name: str) -> str:
        """The type in the files: f64, f32, bf16, f16, i64, i32 or u8."""
        return self._tensors[name][0]

    @property
    def path(self) -> Path:
        return Path(self._file.path)

    @property
    def step(self) -> int:
        return self._file.step

    @property
    def run_id(self) -> str:
        return self._file.run_id

    @property
    def saved_at(self) -> int:
        """Seconds since 1970, in UTC; 0: it is not known."""
        return self._file.saved_at

    @property
    def layout(self) -> dict[str, int]:
        """The ranks that saved it, by axis."""
        return dict(zip(("data", "context", "tensor"), self._file.layout))

    @property
    def scalars(self) -> dict[str, Union[bool, int, float, str]]:
        """Its named values."""
        return dict(self._file.scalars)

    @property
    def config(self) -> dict[str, Any]:
        """Of the run that saved it, in sections."""
        return nested(self._file.configuration, str(self.path / "manifest.json"))
