#!/usr/bin/env python3
"""An encoder-decoder on pairs of lines in PyTorch, as in configs/translation.yaml.

    python3 tests/benchmarks/peer_pairs.py --beside build/tests/benchmark_pairs
    python3 tests/benchmarks/peer_pairs.py --beside build/tests/benchmark_beam

Alternate with the programs of longspan: training steps on equal batches, as one process of 2 threads and as 2 ranks of
one thread, and beam search. --compile compiles the network.

    python3 tests/benchmarks/peer_pairs.py --train runs/translation --tokenizer runs/translation/run/tokenizer-*.model

Trains on FOLDER/train.{en,es} with the batches, schedule and optimizer of longspan, translates FOLDER/test.en by beam
search of 4 and prints BLEU and chrF of sacreBLEU. Requires sentencepiece and sacrebleu. --save FILE saves the state
every 200 steps; a later start resumes from it.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import math
import os
import re
import tempfile
import time
from pathlib import Path

import torch

import peer_pairs_data as data
from peer_network import SIZES, EncoderDecoder, learning_rate
from peer_pairs_search import beam_search
from peer_timing import figure, output_of, seconds_of

MPIRUN = str(Path(__file__).resolve().parents[1] / "support" / "mpirun")


def optimizer_of(model):
    return torch.optim.AdamW(model.parameters(), lr=0.001, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, fused=True)


def step_on(model, optimizer, batch):
    optimizer.zero_grad(set_to_none=True)
    loss = model(**batch)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss.detach()


def trained(arguments, subwords):
    pairs = data.Pairs(subwords, *(f"{arguments.train}/train.{side}" for side in arguments.sides),
                       longest=arguments.longest, budget=arguments.batch_tokens,
                       multiple=arguments.multiple, bucket=arguments.bucket)
    torch.manual_seed(1)
    model = EncoderDecoder(**dict(SIZES, vocabulary=subwords.get_piece_size())).train()
    optimizer = optimizer_of(model)
    done = 0
    if arguments.save and os.path.exists(arguments.save):
        state = torch.load(arguments.save)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        done = state["done"]
    begin, tokens, loss_sum = time.perf_counter(), 0, 0.0
    for step, batch in enumerate(pairs.steps(done, arguments.steps), done + 1):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, arguments.steps)
        count = int((batch["targets"] >= 0).sum())
        loss_sum += float(step_on(model, optimizer, batch)) * count
        tokens += count
        if step % 50 == 0 or step == arguments.steps:
            seconds = time.perf_counter() - begin
            print(f"step {step}/{arguments.steps}  loss {loss_sum / tokens:.4f}  {tokens / seconds:.0f} tokens/s", flush=True)
            begin, tokens, loss_sum = time.perf_counter(), 0, 0.0
        if arguments.save and (step % 200 == 0 or step == arguments.steps):
            state = dict(model=model.state_dict(), optimizer=optimizer.state_dict(), done=step)
            torch.save(state, arguments.save + ".new")
            os.replace(arguments.save + ".new", arguments.save)
    return model.eval()


def translated(model, subwords, lines, longest, batch_tokens=4096):
    """Translates each line by beam search of 4, in batches of similar length."""
    sources = [ids[:longest] for ids in subwords.encode(lines)]
    order = sorted((i for i, ids in enumerate(sources) if ids), key=lambda i: -len(sources[i]))
    special = dict(begin=subwords.bos_id(), end=subwords.eos_id())
    forbidden = [special["begin"], subwords.piece_to_id("<0x0A>")]
    found = [""] * len(lines)
    while order:
        count = max(1, min(256, batch_tokens // len(sources[order[0]])))
        batch, order = order[:count], order[count:]
        inputs = [sources[i] for i in batch]
        results = beam_search(model, inputs, [len(ids) + 50 for ids in inputs], forbidden=forbidden, **special)
        for i, ids in zip(batch, results):
            found[i] = subwords.decode(ids)
    return found


def train(arguments):
    import sacrebleu
    import sentencepiece

    subwords = sentencepiece.SentencePieceProcessor(model_file=arguments.tokenizer)
    model = trained(arguments, subwords)
    sources, references = (data.lines_of(f"{arguments.train}/test.{side}") for side in arguments.sides)
    begin = time.perf_counter()
    found = translated(model, subwords, sources[: arguments.test_lines], arguments.longest)
    seconds = time.perf_counter() - begin
    references = references[: len(found)]
    if arguments.output:
        with open(arguments.output, "w", encoding="utf-8") as file:
            file.writelines(line + "\n" for line in found)
    print(f"{len(found)} lines translated by beam search of 4 in {seconds:.0f} s")
    print(sacrebleu.corpus_bleu(found, [references]))
    print(sacrebleu.corpus_chrf(found, [references]), flush=True)


def rate(words, threads, pattern):
    """Returns a metric that a benchmark program prints."""
    text = output_of(words, threads)
    print(text, end="", flush=True)
    return float(re.search(pattern, text).group(1))


def training_steps(arguments, path):
    """Returns target tokens per second, with the best time of three for each batch."""
    model = EncoderDecoder(**SIZES).train()
    optimizer = optimizer_of(model)
    run = torch.compile(model, dynamic=True) if arguments.compile else model
    batches = data.batches_from(path, SIZES["vocabulary"])
    best = [math.inf] * len(batches)
    for _ in range(3):
        for i, batch in enumerate(batches):
            best[i] = min(best[i], seconds_of(lambda: step_on(run, optimizer, batch), "cpu"))
    return sum(int((batch["targets"] >= 0).sum()) for batch in batches) / sum(best)


def beside_training(arguments):
    program, threads = arguments.beside, arguments.threads
    ours, ranks, theirs = 0.0, 0.0, 0.0
    with tempfile.NamedTemporaryFile(suffix=".jsonl") as batches:
        words = [program, "verses", str(arguments.batches), batches.name]
        pattern = r"(\d+) target tokens/s"
        for _ in range(arguments.rounds):
            ours = max(ours, rate(words, threads, pattern))
            theirs = max(theirs, training_steps(arguments, batches.name))
            ranks = max(ranks, rate([MPIRUN, str(threads), *words[:3]], 1, pattern))
    print(f"pairs: longspan {ours:.0f} target tokens/s, on {threads} ranks of 1 thread {ranks:.0f}, "
          f"PyTorch {torch.__version__} {theirs:.0f}")
    figure("pairs_over_pytorch", ours / theirs)
    figure("pairs_over_pytorch/ranks", ranks / theirs)


def beside_beam(arguments, inputs=32, source=32, tokens=64):
    """The weights are initial, so the end token is suppressed."""
    model = EncoderDecoder(**SIZES).eval()
    sources = torch.randint(3, SIZES["vocabulary"], (inputs, source)).tolist()

    def search():
        found = beam_search(model, sources, [tokens] * inputs, 1, 2, forbidden=(1,), shortest=tokens)
        assert all(len(ids) == tokens for ids in found)

    ours, theirs = 0.0, 0.0
    for _ in range(arguments.rounds):
        ours = max(ours, rate([arguments.beside, str(inputs), "4", str(tokens)], arguments.threads, r"(\d+) tokens/s"))
        theirs = max(theirs, inputs * tokens / min(seconds_of(search, "cpu") for _ in range(3)))
    print(f"beam search of 4: longspan {ours:.0f} tokens/s, PyTorch {torch.__version__} {theirs:.0f}")
    figure("beam_over_pytorch", ours / theirs)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--beside", metavar="PROGRAM", help="benchmark_pairs or benchmark_beam, to take turns with")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--batches", type=int, default=12, help="batches of training steps that are timed")
    parser.add_argument("--compile", action="store_true", help="the network of training steps")
    parser.add_argument("--train", metavar="FOLDER", help="that launch/example translation made")
    parser.add_argument("--sides", nargs=2, default=["en", "es"], help="names of the files after the dot")
    parser.add_argument("--tokenizer", metavar="FILE", help="the model of SentencePiece in the run's directory")
    parser.add_argument("--steps", type=int, default=2400)
    parser.add_argument("--batch-tokens", type=int, default=8000)
    parser.add_argument("--multiple", type=int, default=4, help="data.pad_to_multiple_of")
    parser.add_argument("--bucket", type=int, default=8, help="batches of a bucket when it is sorted")
    parser.add_argument("--longest", type=int, default=256)
    parser.add_argument("--test-lines", type=int, help="none: all")
    parser.add_argument("--save", metavar="FILE", help="the state of training, from which it goes on")
    parser.add_argument("--output", metavar="FILE", help="for the translations")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    if not arguments.beside:
        train(arguments)
    elif "beam" in Path(arguments.beside).name:
        beside_beam(arguments)
    else:
        beside_training(arguments)


if __name__ == "__main__":
    main()
