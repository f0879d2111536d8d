#!/usr/bin/env python3
"""An encoder classifier in PyTorch, as in configs/text-classification-wordnet.yaml and configs/listops.yaml.

    python3 tests/benchmarks/peer_labels.py glosses
    python3 tests/benchmarks/peer_labels.py listops --seed 2

Trains on runs/NAME/train.tsv with the vocabulary runs/NAME/vocabulary.model, which launch/example NAME writes. Batches,
schedule, initialization and optimizer are those of longspan. Prints the accuracy on runs/NAME/test.tsv (requires
sentencepiece).
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import math
import random
import time

import torch
from torch import nn
from torch.nn import functional as F

from peer_network import Layer, learning_rate, sinusoids

CONFIGURATIONS = {  # values of configs/NAME.yaml
    "glosses": dict(network=dict(layers=2, width=128, heads=4, hidden=512, dropout=0.2, pooling="mean"),
                    steps=600, warmup=100, budget=8000, rate=0.002),
    "listops": dict(network=dict(layers=4, width=128, heads=4, hidden=256, dropout=0, pooling="first", learned=72),
                    steps=4000, warmup=200, budget=6000, rate=0.001),
}
LONGEST, MULTIPLE = 64, 8


class Classifier(nn.Module):
    def __init__(self, vocabulary, classes, layers, width, heads, hidden, dropout, pooling, learned=0):
        super().__init__()
        self.width, self.pooling = width, pooling
        self.table = nn.Embedding(vocabulary, width)
        nn.init.normal_(self.table.weight, std=width**-0.5)
        if learned:
            self.positions = nn.Parameter(torch.randn(learned, width) * width**-0.5)
        else:
            self.register_buffer("positions", sinusoids(LONGEST, width), persistent=False)
        self.layers = nn.ModuleList(Layer(width, heads, hidden, dropout, crosses=False) for _ in range(layers))
        self.norm, self.drop = nn.LayerNorm(width), nn.Dropout(dropout)
        self.scores = nn.Linear(width, classes)
        nn.init.normal_(self.scores.weight, std=width**-0.5)
        nn.init.zeros_(self.scores.bias)

    def forward(self, tokens, lengths):
        counts = torch.arange(tokens.shape[1]) < lengths[:, None]
        x = self.drop(self.table(tokens) * math.sqrt(self.width) + self.positions[: tokens.shape[1]])
        for layer in self.layers:
            x = layer(x, counts[:, None, None])
        x = self.norm(x)
        pooled = x[:, 0] if self.pooling == "first" else (x * counts[..., None]).sum(1) / lengths[:, None]
        return self.scores(pooled)


class Texts:
    """Lines of a class, a tab and a text, in SentencePiece tokens, truncated to LONGEST."""

    def __init__(self, path, subwords, classes, budget):
        lines = [line.rstrip("\n").split("\t", 1) for line in open(path, encoding="utf-8", newline="\n")]
        self.classes = classes or sorted({label for label, _ in lines})
        ids = {name: i for i, name in enumerate(self.classes)}
        self.labels = [ids[label] for label, _ in lines]
        self.tokens = [tokens[:LONGEST] for tokens in subwords.encode([text for _, text in lines])]
        self.budget = budget

    def columns(self, i):
        return -(-len(self.tokens[i]) // MULTIPLE) * MULTIPLE

    def epoch(self, seed):
        """Shuffled batches, each of one width except the last ones."""
        draw = random.Random(seed)
        order = list(range(len(self.tokens)))
        draw.shuffle(order)
        order.sort(key=self.columns)
        batches, batch = [], []
        for i in order:
            if batch and (len(batch) + 1) * self.columns(i) > self.budget:
                batches.append(batch)
                batch = []
            batch.append(i)
        batches.append(batch)
        draw.shuffle(batches)
        return batches

    def batch(self, examples):
        columns = max(map(self.columns, examples))
        tokens = torch.tensor([self.tokens[i] + [0] * (columns - len(self.tokens[i])) for i in examples])
        return tokens, torch.tensor([len(self.tokens[i]) for i in examples]), torch.tensor([self.labels[i] for i in examples])

    def steps(self, count):
        seed = 0
        while True:
            for examples in self.epoch(seed):
                if count == 0:
                    return
                count -= 1
                yield self.batch(examples)
            seed += 1


def trained(texts, network, steps, warmup, rate):
    model = Classifier(**network).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, fused=True)
    begin, losses = time.perf_counter(), []
    for step, (tokens, lengths, labels) in enumerate(texts.steps(steps), 1):
        optimizer.param_groups[0]["lr"] = learning_rate(step, steps, warmup, rate)
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(model(tokens, lengths), labels)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
        if step % 100 == 0 or step == steps:
            seconds = (time.perf_counter() - begin) / step
            print(f"step {step}/{steps}  loss {sum(losses) / len(losses):.4f}  {seconds:.3f} s a step", flush=True)
            losses = []
    return model.eval()


@torch.no_grad()
def accuracy(model, texts):
    right = 0
    for examples in texts.epoch(0):
        tokens, lengths, labels = texts.batch(examples)
        right += int((model(tokens, lengths).argmax(1) == labels).sum())
    return 100 * right / len(texts.labels)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=CONFIGURATIONS)
    parser.add_argument("--folder", help="of the files; none: runs/NAME")
    parser.add_argument("--tokenizer", metavar="FILE", help="none: vocabulary.model in the folder")
    parser.add_argument("--steps", type=int, help="none: those of the configuration")
    parser.add_argument("--rate", type=float, help="likewise, the greatest learning rate")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    import sentencepiece

    torch.set_num_threads(given.threads)
    torch.manual_seed(given.seed)
    folder, configuration = given.folder or f"runs/{given.name}", CONFIGURATIONS[given.name]
    subwords = sentencepiece.SentencePieceProcessor(model_file=given.tokenizer or f"{folder}/vocabulary.model")
    texts = Texts(f"{folder}/train.tsv", subwords, None, configuration["budget"])
    network = dict(configuration["network"], vocabulary=subwords.get_piece_size(), classes=len(texts.classes))
    model = trained(texts, network, given.steps or configuration["steps"], configuration["warmup"], given.rate or configuration["rate"])
    print(f"{folder}/test.tsv: accuracy {accuracy(model, Texts(f'{folder}/test.tsv', subwords, texts.classes, configuration['budget'])):.2f}%")


if __name__ == "__main__":
    main()
