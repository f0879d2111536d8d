"""Faults inside one rank: the preloaded library (rank_fault.cpp), and the addresses of the phases of a run."""

import subprocess
from pathlib import Path

from counted import skip

# Phases of a run, and the functions of the program that contain each.
PHASES = {
    "reading the configuration": ("longspan::configure(",),
    "starting": ("longspan::RunDirectory::RunDirectory(", "longspan::Trainer::Trainer("),
    "reading a batch ahead": ("longspan::BatchLoader::run(", "longspan::BatchLoader::read("),
    "taking a batch": ("longspan::BatchLoader::next(", "longspan::Trainer::reading_of(", "longspan::Trainer::count"),
    "the forward pass": ("longspan::Trainer::losses_of(",),
    "the backward pass": ("longspan::backward(",),
    "sums of gradients": ("longspan::GradientReducer::", "longspan::Trainer::all_reduce_sums("),
    "the update": ("longspan::Optimizer::update(",),
    "the ledger": ("longspan::Communicator::check_ledger(",),
    "a validation": ("::validate(",),
    "saving while training waits": ("longspan::save_checkpoint(",),
    "saving beside the training": ("longspan::BackgroundSave::State::copy_and_write(",),
    "the end of a save": ("longspan::BackgroundSave::commit",),
    "removing an old step": ("longspan::remove_old_checkpoints(",),
    "writing metrics": ("longspan::Tracker::write(",),
}
ONLY_ON_RANK_0 = ("removing an old step", "writing metrics")


def compile_fault(directory):
    """Returns the library. Skips the test if there is no compiler."""
    library = Path(directory) / "rank_fault.so"
    try:
        subprocess.run(["c++", "-std=c++20", "-O1", "-shared", "-fPIC", "-o", library,
                        Path(__file__).with_name("rank_fault.cpp"), "-ldl"], check=True)
    except FileNotFoundError:
        skip("there is no c++ to compile what is preloaded on a rank")
    return library


def places_of(program):
    """Returns the address ranges of the functions of each phase, as rank_fault.cpp reads them."""
    listed = subprocess.run(["nm", "-C", "-S", program], capture_output=True, text=True, check=True).stdout
    symbols = [line.split(" ", 3) for line in listed.splitlines() if line and line[0] != " "]
    symbols = [(int(words[0], 16), int(words[1], 16), words[3]) for words in symbols
               if len(words) == 4 and words[2] in "tTwW"]
    if not symbols:
        skip(f"{program} has no symbols by which the phases of a step could be found")
    def of(names):
        # Templates of std have our functions as arguments, for example their closures.
        found = [(begin, size) for begin, size, name in symbols
                 if any(part in name for part in names) and not name.startswith("std::")]
        return " ".join(f"{begin:x}-{begin + size:x}" for begin, size in found)
    places = {phase: of(names) for phase, names in PHASES.items()}
    for phase, text in places.items():
        if not text:
            raise AssertionError(f"{phase}: the program has none of the functions {PHASES[phase]}; faults.py names others")
    return places


def on_rank(directory, program, rank, lines):
    """Writes a script that executes the program, on one rank after `lines` of shell."""
    script = Path(directory) / "on-one-rank.sh"
    inner = "".join(f"  {line}\n" for line in lines)
    script.write_text(f'#!/bin/sh\nif [ "${{OMPI_COMM_WORLD_RANK:-0}}" = {rank} ]; then\n{inner}fi\nexec {program} "$@"\n')
    script.chmod(0o755)
    return script


def preload(library, fault, struck, within=""):
    """Returns the lines that preload the library with a fault. The fault creates the file `struck`."""
    return [f"export LONGSPAN_TEST_FAULT='{fault}'", f"export LONGSPAN_TEST_FAULT_WITHIN='{within}'",
            f"export LONGSPAN_TEST_FAULT_STRUCK='{struck}'", f"export LD_PRELOAD='{library}'"]
