"""Templates of launch/cluster, changed as their user would."""


def wanted(holds, otherwise):
    if not holds:
        raise AssertionError(otherwise)


def changed(template, changes):
    """The template with these changes, {what is there: what is to be}, which may be where it says "change:" only: in that
    line, or where that is a comment of its own, up to the next empty line."""
    lines, allowed = [], False
    left = dict(changes)
    for line in template.splitlines():
        is_marked = "change:" in line
        allowed = is_marked and line.startswith("# ") or allowed and line != ""
        for old, new in changes.items():
            if old in line and (allowed or is_marked):
                line = line.replace(old, new)
                left.pop(old, None)
        lines.append(line)
    if left:
        raise AssertionError(f"not in a place that says \"change:\": {', '.join(left)}")
    return "\n".join(lines) + "\n"
