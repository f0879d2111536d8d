"""Configurations as Python has them, to text and back.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

from . import _longspan
from .errors import ConfigurationError

Configuration = Mapping[str, Any]


def value_text(value: Any) -> str:
    """As a configuration writes it."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (str, os.PathLike)):
        return json.dumps(os.fspath(value), ensure_ascii=False)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{value_text(str(key))}: {value_text(item)}" for key, item in value.items()) + "}"
    if isinstance(value, Sequence):
        return "[" + ", ".join(map(value_text, value)) + "]"
    if hasattr(value, "item"):  # a number of NumPy's
        return value_text(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, (int, float)):
        return repr(value)
    raise TypeError(f"unsupported configuration value {value!r}")


def text_of(configuration: Configuration) -> str:
    """YAML of sections within sections, or of keys like "training.max_steps"."""
    sections: dict[str, Any] = {}
    for key, value in configuration.items():
        _put(sections, key.split("."), value, key)
    return "".join(f"{value_text(name)}:\n" + _lines(value) if isinstance(value, dict) else f"{value_text(name)}: {value_text(value)}\n"
                   for name, value in sections.items())


def _put(sections: dict[str, Any], path: Sequence[str], value: Any, key: str) -> None:
    """Sets the value of a key, or each value of a section, where `path` leads; `key` is its name in messages."""
    *path, name = path
    at = sections
    for part in path:
        at = at.setdefault(part, {})
        if not isinstance(at, dict):
            raise ConfigurationError(f"configuration: {part} with the value {at!r} cannot be combined with {key}")
    if isinstance(value, Mapping):
        at.setdefault(name, {})
        for each, inner in value.items():
            _put(at, [name, each], inner, f"{key}.{each}")
    elif isinstance(at.get(name), dict):
        raise ConfigurationError(f"configuration: {key} with the value {value!r} cannot be combined with keys of that section")
    else:
        at[name] = value


def _lines(section: Mapping[str, Any]) -> str:
    return "".join(f"  {value_text(name)}: {value_text(value)}\n" for name, value in section.items()) or "  {}\n"


def settings_of(overrides: Configuration) -> list[str]:
    """As --set takes them."""
    flat: dict[str, Any] = {}

    def add(prefix: str, values: Configuration) -> None:
        for key, value in values.items():
            if isinstance(value, Mapping) and not prefix:
                add(f"{key}.", value)
            else:
                flat[prefix + key] = value

    add("", overrides)
    return [f"{key}={value_text(value)}" for key, value in flat.items()]


def nested(text: str, file: str) -> dict[str, Any]:
    """The text of a configuration as sections within sections."""
    sections: dict[str, Any] = {}
    for key, value in _longspan.written_values(text, file).items():
        *path, name = key.split(".")
        at = sections
        for part in path:
            at = at.setdefault(part, {})
        at[name] = value
    return sections
