"""Batches of pairs as in longspan: a budget of tokens, buckets of similar length, shuffled each epoch.

SPDX-License-Identifier: Apache-2.0
"""
import json
import random

import torch


def padded(rows, multiple, filling):
    columns = -(-max(map(len, rows)) // multiple) * multiple
    return torch.tensor([row + [filling] * (columns - len(row)) for row in rows])


class Pairs:
    """Lines of two files in SentencePiece tokens, truncated to `longest`."""

    def __init__(self, subwords, source, target, longest=256, budget=8000, multiple=4, bucket=8):
        self.begin, self.end = subwords.bos_id(), subwords.eos_id()
        self.budget, self.multiple, self.bucket = budget, multiple, bucket
        self.sources, self.targets = (
            [ids[:longest] for ids in subwords.encode(lines_of(path))] for path in (source, target)
        )
        assert len(self.sources) == len(self.targets)

    def columns(self, i):
        """Returns the padded columns of the source, and of the target with its end token."""
        counts = len(self.sources[i]), len(self.targets[i]) + 1
        return tuple(-(-count // self.multiple) * self.multiple for count in counts)

    def cut(self, examples):
        batches, batch, widest = [], [], (0, 0)
        for i in examples:
            columns = self.columns(i)
            both = tuple(map(max, widest, columns))
            if batch and (len(batch) + 1) * sum(both) > self.budget:
                batches.append(batch)
                batch, both = [], columns
            batch.append(i)
            widest = both
        return batches, batch

    def epoch(self, seed):
        """Buckets by columns of the target. A bucket with `bucket` batches is sorted by columns of the source."""
        draw = random.Random(seed)
        order = list(range(len(self.sources)))
        draw.shuffle(order)
        batches, buckets, held = [], {}, {}
        for i in order:
            source, target = self.columns(i)
            bucket = buckets.setdefault(target, [])
            bucket.append(i)
            held[target] = held.get(target, 0) + source + target
            if held[target] >= self.bucket * self.budget:
                bucket.sort(key=lambda j: self.columns(j)[0])
                full, bucket[:] = self.cut(bucket)
                batches += full
                held[target] = sum(sum(self.columns(j)) for j in bucket)
        left = [i for _, bucket in sorted(buckets.items()) for i in sorted(bucket, key=lambda j: self.columns(j)[0])]
        full, last = self.cut(left)
        batches += full + ([last] if last else [])
        draw.shuffle(batches)
        return batches

    def batch(self, examples):
        sources = [self.sources[i] for i in examples]
        targets = [self.targets[i] for i in examples]
        return dict(
            source=padded(sources, self.multiple, 0),
            lengths=torch.tensor([len(ids) for ids in sources]),
            tokens=padded([[self.begin] + ids for ids in targets], self.multiple, 0),
            targets=padded([ids + [self.end] for ids in targets], self.multiple, -100),
        )

    def steps(self, first, count):
        """Returns batches `first` to `count` of the sequence of all epochs."""
        step = seed = 0
        while step < count:
            for examples in self.epoch(seed):
                if first <= step < count:
                    yield self.batch(examples)
                step += 1
            seed += 1


def lines_of(path):
    with open(path, encoding="utf-8", newline="\n") as file:
        return [line.rstrip("\n") for line in file]


def batches_from(path, vocabulary):
    """Batches of random tokens, with shapes and lengths from the file of benchmark_pairs."""
    generator = torch.Generator().manual_seed(7)
    batches = []
    for line in lines_of(path):
        shape = json.loads(line)
        lengths, ends = torch.tensor(shape["source_length"]), torch.tensor(shape["length"])
        sizes = [(len(lengths), shape[side]) for side in ("source_columns", "columns")]
        source, tokens = (torch.randint(3, vocabulary, size, generator=generator) for size in sizes)
        targets = torch.roll(tokens, -1, 1)
        targets[torch.arange(sizes[1][1]) >= ends[:, None]] = -100
        batches.append(dict(source=source, lengths=lengths, tokens=tokens, targets=targets))
    return batches
