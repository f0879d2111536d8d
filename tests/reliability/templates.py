"""Templates of launch/cluster, edited as a user would, and the tree in which they run."""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import jobs
from jobs import Layout

CLUSTER = jobs.SOURCE / "launch" / "cluster"
STEPS = 200  # about ten milliseconds each, enough to receive a signal
LAYOUTS = [Layout(4, 1), Layout(2, 2), Layout(2, 1, 2), Layout(1, 2, 2)]
CONFIGURATION = {
    "model": {"family": "transformer_xl", "num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 4,
              "mem_len": 32, "dropout": 0.1},
    "data": {"train": "text.txt", "global_batch_size": 8, "seq_length": 64},
    "training": {"max_steps": STEPS, "learning_rate": 0.01, "lr_scheduler": {"warmup_steps": 2}},
    "checkpoint": {"save_interval": 40, "keep_latest": 3},
    "metrics": {"log_interval": 1, "log_timing": False},
}


def check(condition, message):
    if not condition:
        raise AssertionError(message)


def check_equal(metrics, unbroken):
    """Checks that metrics.jsonl of a stopped run equals that of an uninterrupted run, byte for byte."""
    ours, theirs = metrics.splitlines(), unbroken.splitlines()
    for line in range(max(len(ours), len(theirs))):
        check(ours[line : line + 1] == theirs[line : line + 1],
              f"other losses than an unbroken run: line {line + 1} is {ours[line : line + 1]}, "
              f"wanted {theirs[line : line + 1]}")


def changed(template, changes):
    """Returns the template with these changes, {old: new}, which are allowed only in places marked "change:".

    A mark covers its line. If it starts a comment line, it also covers the lines up to the next empty one.
    """
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


def make_tree(home, program):
    """Creates the files that the templates read at home: the program, a configuration and its text."""
    tree = home / "longspan"
    (tree / "build" / "launch").mkdir(parents=True)
    (tree / "build" / "launch" / "longspan").symlink_to(program)
    (tree / "configs").mkdir()
    (tree / "configs" / "quickstart.yaml").write_text(json.dumps(CONFIGURATION, indent=1))
    jobs.write_text(tree / "text.txt", words=60000)
    return tree
