#!/usr/bin/env python3
"""Jobs over two and three hosts: losses equal to one process; lost hosts; directories that are not shared.

    tests/reliability/hosts_test.py build/launch/longspan [--full] [--shard K/N] [--cases N] [--only NUMBER] [--kind NAME]

The hosts are namespaces of this machine (tests/support/hosts.py). Exit code 77: they are not permitted here.
"""

import contextlib
import json
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import hosts
import jobs
from counted import Counted
from jobs import Layout, Run, flat, until
from templates import CLUSTER, CONFIGURATION, make_tree

# Settings by family.
FAMILIES = {"transformer_xl": {"model.mem_len": 6, "model.dropout": 0.1}, "decoder": {"model.dropout": 0.1}}
SETTINGS = {"run.num_threads": 1, "model.num_hidden_layers": 2, "model.hidden_size": 24, "model.num_attention_heads": 6,
            "data.train": "text.txt",
            "data.global_batch_size": 12, "data.seq_length": 12, "training.max_steps": 8,
            "training.learning_rate": 0.01, "training.lr_scheduler.warmup_steps": 2,
            "checkpoint.save_interval": 4, "checkpoint.keep_latest": 3, "metrics.log_interval": 1, "metrics.log_timing": False,
            "precision.compute_dtype": "float64"}
STARTERS = ("longspan launch", "mpirun")
# Number of hosts, ranks per host, and layout. Ranks fill hosts by slot: neighbors in the tensor axis, then in the
# context axis, share a host if possible.
OVER_HOSTS = [
    (2, 1, Layout(2, 1, 1)), (2, 1, Layout(1, 2, 1)), (2, 1, Layout(1, 1, 2)),
    (2, 2, Layout(4, 1, 1)), (2, 2, Layout(2, 2, 1)), (2, 2, Layout(2, 1, 2)), (2, 2, Layout(1, 2, 2)),
    (2, 4, Layout(2, 2, 2)), (2, 4, Layout(2, 2, 2, True)),
    (3, 1, Layout(3, 1, 1)), (3, 1, Layout(1, 3, 1)), (3, 1, Layout(1, 1, 3)),
    (3, 2, Layout(3, 2, 1)), (3, 2, Layout(3, 1, 2)), (3, 2, Layout(1, 3, 2)),
    (3, 4, Layout(3, 2, 2)),
]
NAMES = ["one", "two", "three"]
TIME_LIMIT = 10  # run.collective_timeout_seconds, seconds
MOST_TO_END = TIME_LIMIT + 15
MORE_BEYOND_A_CUT = 10  # seconds
MOST_SECONDS = 600  # for a successful job, on a busy machine
FAULTS = ("cut", "gone", "daemon")


class Failed(Exception):
    """A case failed."""


def check(condition, text):
    if not condition:
        raise Failed(text)


class Place:
    """A directory that all hosts share, with a text, and jobs that train on it."""

    def __init__(self, program, directory):
        self.program, self.directory = program, Path(directory)
        jobs.write_text(self.directory / "text.txt")
        (self.directory / "tiny.yaml").write_text("{}\n")

    def hosts(self, count):
        return hosts.Hosts(NAMES[:count], self.directory, visible=[jobs.SOURCE, Path(self.program).parents[1]])

    def command(self, starter, slots, settings):
        """Returns the command that starts a job on hosts, {name: ranks}."""
        where = ",".join(f"{name}:{ranks}" for name, ranks in slots.items())
        options = ["--host", where, "--map-by", "slot", "-x", "OMP_NUM_THREADS=1"]
        training = ["train", "tiny.yaml", *flat(settings)]
        if starter == "longspan launch":
            return [self.program, "launch", "-n", sum(slots.values()), *options, "--", *training]
        words = " ".join(["exec", "mpirun", *options, self.program, *training])
        return ["sh", "-c", f". {jobs.SOURCE}/launch/mpirun-environment; {words}"]

    def train(self, network, starter, slots, settings):
        """Runs a job that must succeed. Returns its output."""
        job = network.start(next(iter(slots)), self.command(starter, slots, settings))
        code = job.wait(MOST_SECONDS)
        check(code == 0, f"exit code {code}, wanted 0; it said\n{job.output()}{job.errors()}")
        left = network.left_behind()
        check(not left, f"still running: {left}")
        return job.output()

    def losses_of_one_process(self, family, steps):
        """Returns the losses by step."""
        run = Run(self.directory / f"one-process-{family}-{steps}")
        if not run.path.exists():
            settings = {**SETTINGS, **FAMILIES[family], "model.family": family, "training.max_steps": steps,
                        "checkpoint.save_interval": 0, "run.output_dir": run.path}
            job = jobs.Job(self.program, ["train", "tiny.yaml", *flat(settings)], 1, self.directory)
            with contextlib.closing(job):
                result = job.wait()
                check(result.code == 0, result.output + result.errors)
        return {line["step"]: line["loss"] for line in run.metrics()}

    def check_losses(self, run, family, steps):
        expected = self.losses_of_one_process(family, steps)
        found = [(line["step"], line["loss"]) for line in run.metrics()]
        check([step for step, _ in found] == sorted(expected), f"steps in metrics.jsonl: {[step for step, _ in found]}")
        for step, loss in found:
            check(abs(loss - expected[step]) <= 1e-9 * abs(expected[step]),
                  f"loss {loss!r} after step {step}, of one process {expected[step]!r}")


def over_hosts(place, kind):
    """Trains with every layout, family and starter."""
    with place.hosts(3) as network:
        for number in kind:
            rest, which = divmod(number, len(OVER_HOSTS))
            family, starter = list(FAMILIES)[rest % 2], STARTERS[rest // 2 % 2]
            count, ranks, layout = OVER_HOSTS[which]
            run = Run(place.directory / f"over-{number}")
            try:
                place.train(network, starter, dict.fromkeys(NAMES[:count], ranks),
                            {**SETTINGS, **FAMILIES[family], "model.family": family, **layout.settings(),
                             "run.output_dir": run.path})
                place.check_losses(run, family, SETTINGS["training.max_steps"])
                kind.passed()
            except Failed as failure:
                kind.fails(number, f"{family} by {starter} on {count} hosts with {ranks} ranks each, {layout}: {failure}")
            shutil.rmtree(run.path, ignore_errors=True)


def memory_of(process):
    """Returns the inodes of the shared memory segments of the process."""
    return set(re.findall(r" (\d+) +/memfd:longspan", Path(f"/proc/{process}/maps").read_text()))


def is_connected_to_other_host(process):
    """Returns whether the process has a connection to another host."""
    own = {os.readlink(entry) for entry in Path(f"/proc/{process}/fd").iterdir()}
    for line in Path(f"/proc/{process}/net/tcp").read_text().splitlines()[1:]:
        words = line.split()
        if words[3] == "01" and words[1][:8] != words[2][:8] and f"socket:[{words[9]}]" in own:
            return True
    return False


def transports(place, kind):
    """Checks that a job uses shared memory within a host, and connections between hosts."""
    with place.hosts(2) as network:
        for number in kind:
            starter = STARTERS[number]
            slots = {"one": 2, "two": 2}
            run = Run(place.directory / f"transports-{number}")
            try:
                job = network.start("one", place.command(starter, slots, {
                    **SETTINGS, "model.family": "decoder", **Layout(2, 2, 1).settings(), "training.max_steps": 10 ** 6,
                    "checkpoint.save_interval": 0, "run.output_dir": run.path}))
                check(until(lambda: (run.path / "metrics.jsonl").exists() and run.metrics_bytes(), MOST_SECONDS),
                      f"does not train: {job.output()}{job.errors()}")
                ranks = {host.name: host.ranks(place.program) for host in network}
                memory = {name: [memory_of(rank) for rank in of_host] for name, of_host in ranks.items()}
                check([len(of_host) for of_host in memory.values()] == [2, 2], f"ranks: {ranks}")
                for name, (first, second) in memory.items():
                    check(len(first & second) >= 2, f"the ranks of {name} share no memory: {first}, {second}")
                check(not memory["one"][0] & memory["two"][0], "ranks of two hosts share memory")
                for rank in ranks["one"] + ranks["two"]:
                    check(is_connected_to_other_host(rank), f"rank {rank} has no connection to the other host")
                if not network["one"].kill("longspan", signal.SIGUSR1, only="launch"):
                    network["one"].kill("mpirun", signal.SIGUSR1)
                code = job.wait(MOST_SECONDS)
                check(code == 75, f"exit code {code} after a request to stop, wanted 75: {job.output()}{job.errors()}")
                kind.passed()
            except Failed as failure:
                kind.fails(number, f"{starter}: {failure}")
            network.end_all()


def directories(place, kind):
    """Rejects a run directory that only the first host has."""
    with place.hosts(3) as network:
        for number in kind:
            starter, count = STARTERS[number % 2], 2 + number // 2
            slots = dict.fromkeys(NAMES[:count], 2)
            try:
                job = network.start("one", place.command(starter, slots, {
                    **SETTINGS, "model.family": "decoder", **Layout(2 * count, 1, 1).settings(),
                    "run.output_dir": "/tmp/of-one-host"}))
                code = job.wait(MOST_SECONDS)
                check(code == 2, f"exit code {code}, wanted 2: {job.errors()}")
                # Open MPI may add messages about the network.
                messages = [line for line in job.errors().splitlines() if line.startswith("longspan: ")]
                check(len(messages) == 1 and re.fullmatch(
                    r'longspan: .*run\.output_dir "/tmp/of-one-host": rank 2 on two cannot see the files of rank 0 on one'
                    r"; use a directory that all hosts of the job share, where each rank writes its part of a checkpoint",
                    messages[0]), f"it said {job.errors()}")
                left = network.left_behind()
                check(not left, f"still running: {left}")
                kind.passed()
            except Failed as failure:
                kind.fails(number, f"{starter} on {count} hosts: {failure}")


def inflict(fault, network, victim):
    if fault == "cut":
        network.cut(victim)
    elif fault == "gone":
        network.end(victim)
    else:
        check(network[victim].kill("orted") == 1, f"{victim} has no daemon")


def lose_host(place, number):
    """Loses a host during a run and restarts the run. Returns a description with the durations."""
    choice = random.Random(number)
    fault, starter, count = FAULTS[number % 3], STARTERS[number // 3 % 2], 2 + number // 6 % 2
    ranks = choice.choice([1, 2])
    victim = NAMES[choice.randrange(1, count)]
    layout = choice.choice([layout for *where, layout in OVER_HOSTS if where == [count, ranks]])
    steps, moment = 24, choice.randrange(6, 18)
    run = Run(place.directory / f"lost-{number}")
    settings = {**SETTINGS, **FAMILIES["decoder"], "model.family": "decoder", **layout.settings(), "run.output_dir": run.path,
                "training.max_steps": steps, "run.collective_timeout_seconds": TIME_LIMIT, "checkpoint.save_interval": 4}
    slots = dict.fromkeys(NAMES[:count], ranks)
    words = f"{fault} of {victim} of {count} after step {moment}, {layout} by {starter}"
    with place.hosts(count) as network:
        job = network.start("one", place.command(starter, slots, settings))
        check(until(lambda: job.process.poll() is not None or (run.path / "metrics.jsonl").exists()
                    and len(run.metrics_bytes().splitlines()) >= moment, MOST_SECONDS),
              f"{words}: does not train: {job.output()}{job.errors()}")
        check(job.process.poll() is None, f"{words}: has ended before: {job.output()}{job.errors()}")
        inflict(fault, network, victim)
        begin = time.monotonic()
        code = job.wait(MOST_TO_END)
        seconds = time.monotonic() - begin
        text = f"it said\n{job.errors()}"
        check(code is not None, f"{words}: runs on after {seconds:.1f} s; {network.processes()}; {text}")
        # mpirun has its own exit code for a lost machine.
        check(code == 5 if starter == "longspan launch" else code not in (0, 75), f"{words}: exit code {code}; {text}")
        left = network.left_behind([name for name in slots if name != victim], max(2.0, MOST_TO_END - seconds))
        # Ranks and the daemon on the lost host receive no signal: they end by themselves.
        left = left or network.left_behind([victim], max(2.0, MOST_TO_END + MORE_BEYOND_A_CUT - seconds))
        ended = time.monotonic() - begin
        check(not left, f"{words}: after {ended:.1f} s still running: {left}; {text}")
        if fault != "daemon":  # a dead daemon removes no files
            files = [host.files() for host in network if host.name != victim or fault == "cut"]
            check(not any(files), f"{words}: left {files}; {text}")
        check(run.steps(), f"{words}: no checkpoint")
        # Restarts with the returned host, or on the remaining ones.
        if fault == "cut":
            network.join(victim)
        elif fault == "gone":
            del slots[victim]
            slots["one"] += ranks
        output = place.train(network, starter, slots, settings)
        check("Resumed from" in output, f"{words}: did not resume: {output}")
        place.check_losses(run, "decoder", steps)
    shutil.rmtree(run.path)
    return f"{words}: code {code} after {seconds:.1f} s, nothing left after {ended:.1f} s"


def lost_hosts(place, kind):
    for number in kind:
        try:
            print(f"{kind.name}: case {number}: {lose_host(place, number)}", flush=True)
            kind.passed()
        except Failed as failure:
            kind.fails(number, failure)


def template(place, kind):
    """Runs launch/cluster/two-nodes.sh and hosts.txt unmodified: two stops, then one machine only."""
    home = place.directory / "home"
    tree = make_tree(home, place.program)
    (tree / "launch" / "cluster").mkdir(parents=True)
    script, list_of_hosts = tree / "launch" / "cluster" / "two-nodes.sh", tree / "launch" / "cluster" / "hosts.txt"
    shutil.copy(CLUSTER / script.name, script)
    lines = [line for line in (CLUSTER / list_of_hosts.name).read_text().splitlines() if line.endswith(" slots=4")]
    names = [line.split()[0] for line in lines]
    steps = 100  # enough for two stops
    (tree / "configs" / "quickstart.yaml").write_text(json.dumps(
        {**CONFIGURATION, "training": {**CONFIGURATION["training"], "max_steps": steps}}, indent=1))
    run = Run(tree / "runs" / "two-nodes")
    for number in kind:
        shutil.copy(CLUSTER / list_of_hosts.name, list_of_hosts)
        with hosts.Hosts(names, place.directory, visible=[Path(place.program).parents[1]], home=home) as network:
            try:
                for start in range(2):
                    stop_template(network, names[0], script, run, start)
                list_of_hosts.write_text(lines[0] + "\n")
                job = network.start(names[0], [script])
                code = job.wait(MOST_SECONDS)
                check(code == 0, f"exit code {code} on one machine, wanted 0: {job.output()}{job.errors()}")
                check("Resumed from" in job.output(), f"did not go on: {job.output()}")
                found = [line["step"] for line in run.metrics()]
                check(found == list(range(1, steps + 1)), f"steps in metrics.jsonl: {found}")
                kind.passed()
            except Failed as failure:
                kind.fails(number, failure)
        shutil.rmtree(run.path, ignore_errors=True)


def stop_template(network, host, script, run, start):
    """Starts the script and, once it trains, requests it to save and stop."""
    saved = max(run.steps(), default=0)
    job = network.start(host, [script])
    check(until(lambda: job.process.poll() is not None or re.search(r"step \d+/", job.output()), MOST_SECONDS)
          and job.process.poll() is None, f"does not train: {job.output()}{job.errors()}")
    check(network[host].kill("longspan", signal.SIGTERM, only="launch"), "the script is not there")
    code = job.wait(MOST_SECONDS)
    check(code == 75, f"exit code {code} after a request to stop, wanted 75: {job.output()}{job.errors()}")
    check(max(run.steps(), default=0) > saved, f"saved steps {run.steps()} after {saved}")
    check(("Resumed from" in job.output()) == (start > 0), f"start {start}: {job.output()}")
    left = network.left_behind()
    check(not left, f"still running: {left}")


def main():
    counted = Counted(__doc__)
    if why := hosts.why_not():
        print(f"left out: {why}")
        sys.exit(77)
    with tempfile.TemporaryDirectory(prefix="longspan-hosts-") as directory:
        place = Place(counted.program, directory)
        for name, usual, full, test in (
                ("losses of one process over hosts", 3, 4 * len(OVER_HOSTS), over_hosts),
                ("memory within hosts, messages between them", 1, 2, transports),
                ("a run's directory of one host", 1, 4, directories),
                ("two-nodes.sh as it is", 0, 1, template),
                ("a host that is lost", 3, 120, lost_hosts)):
            kind = counted.kind(name, usual, full)
            if kind.numbers:
                test(place, kind)
    counted.end()


if __name__ == "__main__":
    main()
