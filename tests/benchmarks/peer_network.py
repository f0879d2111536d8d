"""Shared by the PyTorch benchmarks: pre-norm layers, the encoder-decoder of configs/translation.yaml and the learning
rate schedule.

Embeddings of both sides and the output layer share one table, which is scaled for embeddings. Positions are sinusoids.
Dropout applies to embeddings, to sublayers and inside feed-forward layers, not to attention.
SPDX-License-Identifier: Apache-2.0
"""
import math

import torch
from torch import nn
from torch.nn import functional as F

SIZES = dict(vocabulary=4000, layers=3, width=256, heads=4, hidden=1024, dropout=0.1)


def learning_rate(step, steps, warmup=300, rate=0.001):
    """Returns the learning rate of update `step`, counted from 1."""
    if step < warmup:
        return rate * step / warmup
    return rate * 0.5 * (1 + math.cos(math.pi * min((step - warmup) / max(steps + 1 - warmup, 1), 1)))


def linear(inputs, outputs, parts=1):
    """`parts` concatenated layers, each initialized separately (Glorot and Bengio 2010)."""
    layer = nn.Linear(inputs, parts * outputs)
    for weight in layer.weight.detach().chunk(parts):
        nn.init.xavier_uniform_(weight)
    nn.init.zeros_(layer.bias)
    return layer


class SelfAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.projection = linear(width, width, 3)
        self.out = linear(width, width)

    def projected(self, x):
        """Returns query, key and value of x [batch, time, width], each [batch, heads, time, dim]."""
        batch, time_, _ = x.shape
        return self.projection(x).view(batch, time_, 3, self.heads, -1).permute(2, 0, 3, 1, 4)

    def joined(self, mixed):
        return self.out(mixed.transpose(1, 2).flatten(2))

    def forward(self, x, mask, causal):
        mixed = F.scaled_dot_product_attention(*self.projected(x), attn_mask=mask, is_causal=causal)
        return self.joined(mixed)

    def read_on(self, x, kept):
        """Decodes one position: returns its output and the extended cache [2, batch, heads, positions, dim]."""
        parts = self.projected(x)
        kept = parts[1:] if kept is None else torch.cat([kept, parts[1:]], 3)
        return self.joined(F.scaled_dot_product_attention(parts[0], kept[0], kept[1])), kept


class CrossAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.query = linear(width, width)
        self.key_value = linear(width, width, 2)
        self.out = linear(width, width)

    def keys(self, side):
        batch, time_, _ = side.shape
        return self.key_value(side).view(batch, time_, 2, self.heads, -1).permute(2, 0, 3, 1, 4)

    def forward(self, x, keys, mask):
        batch, time_, width = x.shape
        query = self.query(x).view(batch, time_, self.heads, -1).transpose(1, 2)
        mixed = F.scaled_dot_product_attention(query, keys[0], keys[1], attn_mask=mask)
        return self.out(mixed.transpose(1, 2).reshape(batch, time_, width))


class FeedForward(nn.Sequential):
    def __init__(self, width, hidden, dropout):
        super().__init__(linear(width, hidden), nn.ReLU(), nn.Dropout(dropout), linear(hidden, width))


class Layer(nn.Module):
    def __init__(self, width, heads, hidden, dropout, crosses):
        super().__init__()
        self.attention = SelfAttention(width, heads)
        self.cross = CrossAttention(width, heads) if crosses else None
        self.feed_forward = FeedForward(width, hidden, dropout)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3 if crosses else 2))
        self.drop = nn.Dropout(dropout)

    def forward(self, x, mask=None, causal=False, side=None, side_mask=None):
        x = x + self.drop(self.attention(self.norms[0](x), mask, causal))
        if self.cross is not None:
            x = x + self.drop(self.cross(self.norms[1](x), self.cross.keys(side), side_mask))
        return x + self.drop(self.feed_forward(self.norms[-1](x)))

    def read_on(self, x, kept, side_keys, side_mask):
        """x: [inputs * beam, 1, width]. The hypotheses of an input share its keys."""
        found, kept = self.attention.read_on(self.norms[0](x), kept)
        x = x + found
        together = self.norms[1](x).view(side_keys.shape[1], -1, x.shape[-1])
        x = x + self.cross(together, side_keys, side_mask).view(x.shape)
        return x + self.feed_forward(self.norms[2](x)), kept


def sinusoids(positions, width):
    frequency = 10000 ** (-torch.arange(0, width, 2) / width)
    angles = torch.arange(positions)[:, None] * frequency
    return torch.stack([angles.sin(), angles.cos()], 2).flatten(1)


class EncoderDecoder(nn.Module):
    def __init__(self, vocabulary, layers, width, heads, hidden, dropout, longest=1024):
        super().__init__()
        self.width = width
        self.table = nn.Embedding(vocabulary, width)
        nn.init.normal_(self.table.weight, std=width**-0.5)
        self.register_buffer("positions", sinusoids(longest, width), persistent=False)
        self.encoder, self.decoder = (
            nn.ModuleList(Layer(width, heads, hidden, dropout, crosses) for _ in range(layers))
            for crosses in (False, True)
        )
        self.encoder_norm, self.decoder_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.drop = nn.Dropout(dropout)

    def embed(self, tokens, first=0):
        positions = self.positions[first : first + tokens.shape[1]]
        return self.drop(self.table(tokens) * math.sqrt(self.width) + positions)

    def encode(self, source, lengths):
        """Returns the encoder output [batch, time, width] and its mask [batch, 1, 1, time]."""
        mask = (torch.arange(source.shape[1]) < lengths[:, None])[:, None, None]
        x = self.embed(source)
        for layer in self.encoder:
            x = layer(x, mask)
        return self.encoder_norm(x), mask

    def forward(self, source, lengths, tokens, targets):
        """Returns the mean loss over targets; -100: padding at the end, which causal attention does not read."""
        side, side_mask = self.encode(source, lengths)
        x = self.embed(tokens)
        for layer in self.decoder:
            x = layer(x, None, True, side, side_mask)
        counts = targets >= 0
        logits = F.linear(self.decoder_norm(x[counts]), self.table.weight)
        return F.cross_entropy(logits, targets[counts], label_smoothing=0.1)

    def side_keys(self, side):
        return [layer.cross.keys(side) for layer in self.decoder]

    def read_on(self, tokens, position, kept, side_keys, side_mask):
        """Returns log-probabilities after `tokens` [inputs * beam] at this position, and the KV cache of each layer."""
        x, now_kept = self.embed(tokens[:, None], position), []
        for layer, before, keys in zip(self.decoder, kept, side_keys):
            x, now = layer.read_on(x, before, keys, side_mask)
            now_kept.append(now)
        return F.log_softmax(F.linear(self.decoder_norm(x[:, 0]), self.table.weight), -1), now_kept
