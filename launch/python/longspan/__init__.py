"""Longspan from Python: runs and checkpoints as arrays, trained models measured and used, and training.

SPDX-License-Identifier: Apache-2.0
"""

from importlib.metadata import PackageNotFoundError, version

from .checkpoint import Checkpoint
from .errors import ConfigurationError, DataError, DivergenceError, Error, RankFailedError, StoppedWithCheckpoint
from .run import Run
from .session import rank, size
from .training import DataPosition, train
from .use import Sample, evaluate, generate

try:
    __version__ = version("longspan")
except PackageNotFoundError:  # it lies where no wheel has put it
    __version__ = "unknown"

__all__ = ["Checkpoint", "ConfigurationError", "DataError", "DataPosition", "DivergenceError", "Error", "RankFailedError", "Run",
           "Sample", "StoppedWithCheckpoint", "evaluate", "generate", "rank", "size", "train"]
