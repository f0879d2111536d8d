#!/usr/bin/env python3
"""Checks an unpacked archive of launch/bundle against its list of contents, for bundle_test.

    tests/launch/contents_check.py FOLDER

Validates the list by the schema of CycloneDX 1.5 if cyclonedx-python-lib[json-validation] is installed, in this Python
or in LONGSPAN_PEERS. Always checks the required fields.
"""

import hashlib
import json
import os
import re
import sys
from pathlib import Path

KINDS = {"application", "library", "file"}


def entries_below(component):
    yield component
    for part in component.get("components", []):
        yield from entries_below(part)


def field_errors(contents):
    """Yields a message for each invalid field."""
    if (contents.get("bomFormat"), contents.get("specVersion")) != ("CycloneDX", "1.5"):
        yield "it is not CycloneDX 1.5"
    if not re.fullmatch(r"urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", contents.get("serialNumber", "")):
        yield "its serial number is none"
    if not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", contents["metadata"]["timestamp"]):
        yield "its time is none"
    references = [entry.get("bom-ref") for top in [contents["metadata"]["component"], *contents["components"]] for entry in entries_below(top)]
    if len(set(references)) < len(references) or None in references:
        yield "references are not each of one thing"
    for dependency in contents["dependencies"]:
        if not {dependency["ref"], *dependency["dependsOn"]} <= set(references):
            yield "it depends on what it does not have"
    for top in contents["components"]:
        for entry in entries_below(top):
            if entry.get("type") not in KINDS or not entry.get("name"):
                yield f"a component without type or name: {entry}"
        if top["type"] == "library" and not (top.get("version") and top.get("licenses") and top.get("purl")):
            yield f"{top['name']} has no version, license or address"
        for license in top.get("licenses", []):
            if set(license["license"]) not in ({"id"}, {"name"}):
                yield f"{top['name']} has an invalid license: {license}"


def schema_errors(text):
    """Returns the errors of the published schema, or prints why it is not available."""
    peers = Path(os.environ.get("LONGSPAN_PEERS", Path.home() / ".cache/longspan/peers"))
    sys.path.extend(map(str, peers.glob("lib/python3*/site-packages")))
    try:
        from cyclonedx.schema import SchemaVersion
        from cyclonedx.validation.json import JsonStrictValidator
        error = JsonStrictValidator(SchemaVersion.V1_5).validate_str(text)
    except Exception as missing:  # the package or one of its dependencies
        print(f"without the schema of CycloneDX: {missing}")
        return []
    return [] if error is None else [str(error)]


def main():
    folder = Path(sys.argv[1])
    text = (folder / "share/longspan/contents.cdx.json").read_text(encoding="utf-8")
    contents = json.loads(text)
    problems = [*field_errors(contents), *schema_errors(text)]
    listed = {}
    for top in [contents["metadata"]["component"], *contents["components"]]:
        for entry in entries_below(top):
            if entry["type"] == "file":
                listed[entry["name"]] = entry["hashes"][0]["content"]
    for path, expected in listed.items():
        if hashlib.sha256((folder / path).read_bytes()).hexdigest() != expected:
            problems.append(f"{path} has another hash")
    found = {str(path.relative_to(folder)) for name in ("lib", "libexec") for path in (folder / name).rglob("*") if path.is_file()}
    problems += [f"{path} is not in the list" for path in sorted(found - set(listed))]
    if len([top for top in contents["components"] if top["type"] == "library"]) < 10 and Path("/usr/bin/dpkg-query").exists():
        problems.append("it names few packages")
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
