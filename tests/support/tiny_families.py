"""Minimal runs of each family, for tests that start hundreds of them."""

import json
import random
import struct
from pathlib import Path

import jobs

SIDE = 4  # image height and width

COMMON = {
    "run": {"output_dir": "run", "num_threads": 1},
    "model": {"num_hidden_layers": 2, "hidden_size": 16, "num_attention_heads": 4, "dropout": 0.1},
    "data": {},
    "training": {"max_steps": 24, "learning_rate": 0.003, "lr_scheduler": {"warmup_steps": 2, "type": "constant"},
                 "validation": {"interval": 7, "max_batches": 1}},
    "checkpoint": {"save_interval": 3, "keep_latest": 2},
    "metrics": {"log_interval": 1, "log_timing": False},
}
TEXT = {"train": "text.txt", "validation": "held-out.txt", "global_batch_size": 4, "seq_length": 8}
PAIRS = {"train": "train.source", "train_target": "train.target", "validation": "held-out.source",
         "validation_target": "held-out.target", "global_batch_tokens": 128, "max_length": 12}
TAGS = {"train": "train.tags", "validation": "held-out.tags", "global_batch_tokens": 128, "max_length": 64}
IMAGES = {"format": "images", "train": "train.images", "train_target": "train.labels", "validation": "held-out.images",
          "validation_target": "held-out.labels", "global_batch_tokens": 160}

# Settings of each family in addition to COMMON, by section.
OWN = {
    "transformer_xl": {"model": {"mem_len": 8}, "data": TEXT},
    "decoder": {"model": {"norm": {"position": "pre"}}, "data": TEXT},
    "universal_transformer": {"model": {"num_hidden_layers": 1, "recurrence": {"num_steps": 3, "type": "act"}}, "data": TEXT},
    "encoder_decoder": {"run": {"task": "translation"}, "data": PAIRS, "training": {"label_smoothing": 0.1}},
    "encoder": {"run": {"task": "tagging"}, "model": {"use_crf": True}, "data": TAGS},
    "image_transformer": {"run": {"task": "image_generation"},
                          "model": {"attention": {"layer_types": ["local_1d"], "local_1d": {"filter_width": 12}},
                                    "class_conditional": True}, "data": IMAGES},
}
FAMILIES = tuple(OWN)


def sections_of(family):
    """Returns the configuration of a run of the family, by section."""
    sections = jobs.merged(COMMON, OWN[family])
    sections["model"] = {"family": family, **sections["model"]}
    return sections


def _lines(path, lines):
    Path(path).write_text("".join(line + "\n" for line in lines))


def _pairs(source, count):
    words = ["".join(source.choice("abcdef") for _ in range(source.randint(1, 9))) for _ in range(count)]
    return words, [word[::-1].upper() for word in words]


def _tagged(source):
    choices = [[("anna", "B-PER")], [("new", "B-LOC"), ("york", "I-LOC")], [("saw", "O")], [("the", "O")], [("in", "O")]]
    return "".join(f"{word}\t{tag}\n" for _ in range(source.randint(1, 6)) for word, tag in source.choice(choices))


def write_data(directory, family):
    """Writes the data files of the family's configuration."""
    directory = Path(directory)
    data = OWN[family]["data"]
    for number, (key, size) in enumerate((("train", 120), ("validation", 4))):
        source = random.Random(number)
        if data is TEXT:
            jobs.write_text(directory / data[key], words=25 * size, seed=number)
        elif data is PAIRS:
            for name, lines in zip((data[key], data[f"{key}_target"]), _pairs(source, size)):
                _lines(directory / name, lines)
        elif data is TAGS:
            (directory / data[key]).write_text("\n".join(_tagged(source) for _ in range(size)))
        else:
            labels = [source.randrange(3) for _ in range(size)]
            values = bytes(70 * label + source.randrange(8) for label in labels for _ in range(SIDE * SIDE))
            (directory / data[key]).write_bytes(struct.pack(">4B3I", 0, 0, 8, 3, size, SIDE, SIDE) + values)
            (directory / data[f"{key}_target"]).write_bytes(struct.pack(">4BI", 0, 0, 8, 1, size) + bytes(labels))


def write(directory, family):
    """Writes NAME.yaml and its data into a directory; returns the file name."""
    write_data(directory, family)
    # JSON is YAML.
    (Path(directory) / f"{family}.yaml").write_text(json.dumps(sections_of(family), indent=1))
    return f"{family}.yaml"
