"""Beam search in PyTorch with a KV cache, by the rules of beam_search of longspan (those of fairseq).

SPDX-License-Identifier: Apache-2.0
"""
import torch


@torch.inference_mode()
def beam_search(model, sources, longest, begin, end, forbidden=(), beam=4, alpha=0.6, shortest=0):
    """Returns the best tokens for each of `sources` (lists of ids), from `shortest` to `longest[i]` before the end.

    Among the best 2 `beam` continuations, those that end within the first `beam` are finished. The best `beam` others
    continue. An input with `beam` finished ones is complete and leaves the batch.
    """
    lengths = torch.tensor([len(ids) for ids in sources])
    source = torch.zeros(len(sources), int(lengths.max()), dtype=torch.long)
    for row, ids in zip(source, sources):
        row[: len(ids)] = torch.tensor(ids)
    side, side_mask = model.encode(source, lengths)
    side_keys = model.side_keys(side)
    finished = [[] for _ in sources]
    active = list(range(len(sources)))  # the inputs of the rows
    longest = torch.tensor(longest)
    # Initially one hypothesis: the others have score -inf.
    scores = torch.full((len(sources), beam), float("-inf"))
    scores[:, 0] = 0
    tokens = torch.full((len(sources) * beam, 1), begin)
    kept = [None] * len(side_keys)
    length = 0
    while active:
        logs, kept = model.read_on(tokens[:, -1], length, kept, side_keys, side_mask)
        vocabulary = logs.shape[-1]
        for token in forbidden if length >= shortest else (*forbidden, end):
            logs[:, token] = float("-inf")
        logs = logs.view(len(active), beam, vocabulary)
        last = longest == length
        length += 1
        if last.any():
            ends = logs[last, :, end]
            logs[last] = float("-inf")
            logs[last, :, end] = ends
        best, places = (logs + scores[:, :, None]).flatten(1).topk(2 * beam)
        chosen, of = places % vocabulary, places // vocabulary
        ends = chosen == end
        penalty = ((5 + length) / 6) ** alpha
        for row, place in (ends[:, :beam] & best[:, :beam].isfinite()).nonzero().tolist():
            hypothesis = row * beam + int(of[row, place])
            finished[active[row]].append((float(best[row, place]) / penalty, tokens[hypothesis, 1:]))
        # The first `beam` that do not end, in order.
        order = (ends * 2 * beam + torch.arange(2 * beam)).topk(beam, largest=False).indices
        scores, chosen, of = (x.gather(1, order) for x in (best, chosen, of))
        goes_on = ~last & torch.tensor([len(finished[i]) < beam for i in active])
        rows = torch.arange(len(active))[:, None] * beam + of
        if not goes_on.all():
            active = [i for i, goes in zip(active, goes_on.tolist()) if goes]
            scores, chosen, rows, longest = (x[goes_on] for x in (scores, chosen, rows, longest))
            side_keys, side_mask = [keys[:, goes_on] for keys in side_keys], side_mask[goes_on]
        rows = rows.flatten()
        tokens = torch.cat([tokens[rows], chosen.view(-1, 1)], 1)
        kept = [keys.index_select(1, rows) for keys in kept]
    return [max(of_input, key=lambda one: one[0])[1].tolist() for of_input in finished]
