#!/usr/bin/env python3
"""launch/cluster/slurm.sbatch on a real Slurm of two nodes (slurm_cluster.py): stopped, requeued, resumed.

    tests/reliability/slurm_test.py build/launch/longspan [--full] [--kind WORDS] [--only NUMBER]
"""

import json
import os
import random
import re
import signal
import sys
import tempfile
import time
from pathlib import Path

from slurm_cluster import NAMES, REQUEUE_SECONDS, Cluster, why_not
from templates import CLUSTER, CONFIGURATION, LAYOUTS, STEPS, changed, check, check_equal, make_tree

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import hosts
import jobs
from counted import Counted, skip

TEMPLATE = CLUSTER / "slurm.sbatch"
OVER = ["COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL"]
# Enough steps to reach the time limit three times.
LONG = {"training.max_steps": 150, "model.num_hidden_layers": 4, "model.hidden_size": 128, "data.seq_length": 128,
        "checkpoint.save_interval": 50}


class Desk:
    """A user of the cluster, with a tree at home and jobs."""

    options = ["--ntasks-per-node=2", "--cpus-per-task=1", "--mem=1000"]

    def __init__(self, cluster, home, program):
        self.cluster = cluster
        self.tree = make_tree(home, program)
        os.environ["HOME"] = str(home)
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
        self._unbroken = {}

    def submit(self, name, layout, *options, settings=None):
        words = " ".join(jobs.flat({**layout.settings(), **(settings or {})}))
        script = self.tree / f"{name}.sbatch"
        script.write_text(changed(TEMPLATE.read_text(), {"--set parallel.data_parallel_size=16 --set data.global_batch_size=64": words}))
        return self.cluster.submit(script, f"--job-name={name}", *self.options, *options, folder=self.tree)

    def run(self, name):
        return jobs.Run(self.tree / "runs" / name)

    def step(self, name):
        """Returns the last logged step."""
        try:
            return self.run(name).metrics_bytes().count(b"\n")
        except FileNotFoundError:
            return 0

    def output_of(self, job):
        path = self.tree / f"longspan-{job}.out"
        return path.read_text(errors="replace") if path.exists() else ""

    def unbroken(self, layout, settings=None):
        """Returns metrics.jsonl of an uninterrupted run."""
        key = layout, json.dumps(settings)
        if key not in self._unbroken:
            name = f"unbroken-{len(self._unbroken)}"
            job = self.submit(name, layout, settings=settings)
            self.wait_for_end(job, "COMPLETED")
            self._unbroken[key] = self.run(name).metrics_bytes()
        return self._unbroken[key]

    def wait_for_step(self, job, name, step):
        self.wait_until(job, f"step {step}", lambda found: self.step(name) >= step)

    def wait_for(self, job, state, restarts=0):
        """Waits until the job has that state after `restarts` requeues."""
        self.wait_until(job, f"{state} after {restarts} restarts",
                   lambda found: found["JobState"] == state and int(found["Restarts"]) >= restarts)

    def wait_for_end(self, job, state, exit_code=0):
        self.wait_for(job, state)
        found = self.cluster.job(job)
        if state != "CANCELLED" and found["ExitCode"] != f"{exit_code}:0":
            raise AssertionError(f"exit code {found['ExitCode']}; wanted {exit_code}\n{self.output_of(job)}")
        left = self.cluster.network.left_behind(seconds=20, mark="SLURM_JOB_ID=")
        left = left or {host.name: memory for host in self.cluster.network if (memory := host.shared_memory())}
        if left:
            raise AssertionError(f"left behind: {left}")

    def wait_until(self, job, what, has_come):
        end = time.monotonic() + jobs.MOST_SECONDS
        while True:
            found = self.cluster.job(job)
            if has_come(found):
                return
            if found["JobState"] in OVER or time.monotonic() > end:
                raise AssertionError(f"wanted {what}, found {found}\n{self.output_of(job)}")
            time.sleep(0.1)

    def check_completes(self, job, name, layout, settings=None):
        """Checks that the job completes with the losses of an uninterrupted run."""
        self.wait_for_end(job, "COMPLETED")
        check_equal(self.run(name).metrics_bytes(), self.unbroken(layout, settings))

    def steps_stopped_at(self, name):
        return [int(step) for step in re.findall("Stopped after step ([0-9]+) as requested", self.run(name).log())]


def three_requeues(desk, number, name, layout):
    """Requests a stop by a signal to the script, three times."""
    job = desk.submit(name, layout)
    source = random.Random(number)
    for restarts in range(3):
        desk.wait_for(job, "RUNNING", restarts)
        desk.wait_for_step(job, name, desk.step(name) + source.randrange(1, 11))
        if restarts == 0:
            check_cores(desk.cluster)
        desk.cluster.user("scancel", "--batch", "--signal=USR1", job)
        desk.wait_for(job, "PENDING", restarts + 1)
    desk.check_completes(job, name, layout)
    check(len(desk.steps_stopped_at(name)) == 3, f"stopped at {desk.steps_stopped_at(name)}; wanted three times")


def check_cores(cluster):
    """Checks that the ranks of a node are not bound to the same core."""
    for node in ("node-1", "node-2"):
        ranks = cluster.ranks(node)
        cores = set().union(*(os.sched_getaffinity(rank) for rank in ranks))
        check(len(ranks) == 2 and len(cores) >= min(2, os.cpu_count()), f"{node}: ranks {ranks} on the cores {cores}")


def time_limit(desk, number, name, layout):
    """Slurm sends its signal before the time limit of the job. It checks the time every 30 seconds."""
    job = desk.submit(name, layout, "--time=1", "--signal=B:USR1@40", settings=LONG)
    desk.wait_for(job, "PENDING", restarts=3)
    desk.cluster.user("scontrol", "update", f"jobid={job}", "timelimit=20")
    desk.check_completes(job, name, layout, LONG)
    check(len(desk.steps_stopped_at(name)) >= 3, f"stopped at {desk.steps_stopped_at(name)}; wanted three times")


def any_moment(desk, number, name, layout):
    """Requests a stop at a random time: before ranks start, or while they start, save or end."""
    job = desk.submit(name, layout)
    desk.wait_for(job, "RUNNING")
    time.sleep(random.Random(number).uniform(0, 6))
    try:
        desk.cluster.user("scancel", "--batch", "--signal=USR1", job)
    except AssertionError:
        desk.wait_for(job, "COMPLETED")  # it has ended
    desk.check_completes(job, name, layout)


def saved_and_ended(desk, number, name, layout):
    """scancel --batch --signal=TERM saves the job and does not requeue it."""
    job = desk.submit(name, layout)
    step = random.Random(number).randrange(1, 30)
    desk.wait_for_step(job, name, step)
    desk.cluster.user("scancel", "--batch", "--signal=TERM", job)
    desk.wait_for_end(job, "FAILED", exit_code=75)
    check(desk.cluster.job(job)["Restarts"] == "0", "queued again")
    stopped = desk.steps_stopped_at(name)
    check(len(stopped) == 1 and stopped[0] >= step and desk.run(name).steps()[-1] == stopped[0],
          f"stopped at {stopped}, has {desk.run(name).entries()}; wanted a checkpoint of step {step} or later")
    desk.check_completes(desk.submit(name, layout), name, layout)


def canceled(desk, number, name, layout):
    """scancel ends the job immediately and leaves no processes. The next job resumes from a complete checkpoint."""
    job = desk.submit(name, layout)
    desk.wait_for_step(job, name, random.Random(number).randrange(1, 30))
    desk.cluster.user("scancel", job)
    desk.wait_for_end(job, "CANCELLED")
    check(desk.cluster.job(job)["Restarts"] == "0", "queued again")
    desk.check_completes(desk.submit(name, layout), name, layout)


def drained(desk, number, name, layout):
    """Drains a node: the job continues there until a request to stop, and then waits for the node."""
    node = f"node-{number % 2 + 1}"
    job = desk.submit(name, layout)
    step = random.Random(number).randrange(1, 20)
    desk.wait_for_step(job, name, step)
    desk.cluster.user("scontrol", "update", f"nodename={node}", "state=drain", "reason=repair")
    check(desk.cluster.nodes()[node].startswith("drng"), f"{desk.cluster.nodes()}; wanted {node} to be draining")
    desk.wait_for_step(job, name, min(desk.step(name) + 3, STEPS))
    desk.cluster.user("scancel", "--batch", "--signal=USR1", job)
    desk.wait_for(job, "PENDING", restarts=1)
    time.sleep(REQUEUE_SECONDS + 5)
    check(desk.cluster.job(job)["JobState"] == "PENDING", f"{desk.cluster.job(job)}; wanted it to wait for {node}")
    desk.cluster.user("scontrol", "update", f"nodename={node}", "state=resume")
    desk.check_completes(job, name, layout)


def node_down(desk, number, name, layout):
    """Sets a node down: Slurm ends and requeues the job, and the run resumes from its checkpoint."""
    node = f"node-{number % 2 + 1}"
    job = desk.submit(name, layout)
    desk.wait_for_step(job, name, random.Random(number).randrange(1, 30))
    desk.cluster.user("scontrol", "update", f"nodename={node}", "state=down", "reason=gone")
    desk.wait_for(job, "PENDING", restarts=1)
    desk.cluster.user("scontrol", "update", f"nodename={node}", "state=resume")
    desk.check_completes(job, name, layout)


def killed_rank(desk, number, name, layout):
    """Kills a rank on either node: the job ends with the documented code and is not requeued."""
    job = desk.submit(name, layout)
    source = random.Random(number)
    desk.wait_for_step(job, name, source.randrange(1, 30))
    os.kill(source.choice(desk.cluster.ranks(f"node-{number % 2 + 1}")), signal.SIGKILL)
    desk.wait_for_end(job, "FAILED", exit_code=137)
    check(desk.cluster.job(job)["Restarts"] == "0", "queued again")
    desk.check_completes(desk.submit(name, layout), name, layout)


def lost_machine(desk, number, name, layout):
    """Ends Open MPI's daemon on the second node, as if the machine failed: the job is requeued automatically."""
    job = desk.submit(name, layout)
    desk.wait_for_step(job, name, random.Random(number).randrange(45, 100))
    check(desk.cluster.network["node-2"].kill("orted") == 1, f"node-2 has no daemon\n{desk.output_of(job)}")
    desk.wait_for(job, "PENDING", restarts=1)
    desk.check_completes(job, name, layout)
    output = desk.output_of(job)
    check(re.search("failure 1 of at most 3 at step-[0-9]+", output) and "Resumed from" in output,
          f"it said: {output}")


def hung_each_time(desk, number, name, layout):
    """Suspends a rank three times before the first save: the job gives up with the documented code."""
    job = desk.submit(name, layout, settings={"checkpoint.save_interval": 0, "run.collective_timeout_seconds": 5})
    for restarts in range(3):
        desk.wait_until(job, f"step 1 after {restarts} restarts",
                        lambda _: desk.output_of(job).count("step 1/") > restarts)
        os.kill(desk.cluster.ranks("node-2")[0], signal.SIGSTOP)
        if restarts < 2:
            desk.wait_for(job, "PENDING", restarts + 1)
    desk.wait_for_end(job, "FAILED", exit_code=5)
    output = desk.output_of(job)
    check(desk.cluster.job(job)["Restarts"] == "2" and output.count(" of at most 3 at nothing") == 2
          and output.count("Not requeued: 3 lost nodes or hung ranks at nothing") == 1, f"it said: {output}")


def unknown_key(desk, number, name, layout):
    """An unknown key is reported once, and the job is not requeued."""
    job = desk.submit(name, layout, settings={"model.widht": 8})
    desk.wait_for_end(job, "FAILED", exit_code=2)
    output = desk.output_of(job)
    check(output.count("model.widht") == 1 and "Failed with exit code 2" in output, f"it said: {output}")


def unmodified(desk, number, name, layout):
    """Runs the unmodified template: 16 ranks, 8 per node, with 4 threads each."""
    configuration = {**CONFIGURATION, "training": {**CONFIGURATION["training"], "max_steps": 12}}
    (desk.tree / "configs" / "quickstart.yaml").write_text(json.dumps(configuration, indent=1))
    asked = desk.cluster.submit(TEMPLATE, folder=desk.tree)
    desk.wait_for_step(asked, "longspan", 3)
    desk.cluster.user("scancel", "--batch", "--signal=USR1", asked)
    desk.wait_for_end(asked, "COMPLETED")
    unbroken = desk.cluster.submit(TEMPLATE, "--job-name=unbroken", folder=desk.tree)
    desk.wait_for_end(unbroken, "COMPLETED")
    check(len(desk.steps_stopped_at("longspan")) == 1, desk.output_of(asked))
    check_equal(desk.run("longspan").metrics_bytes(), desk.run("unbroken").metrics_bytes())


def main():
    counted = Counted(__doc__)
    if why := why_not():
        skip(why)
    with tempfile.TemporaryDirectory(prefix="longspan-slurm-", ignore_cleanup_errors=True) as directory, hosts.Hosts(
            NAMES, directory, visible=[jobs.SOURCE, Path(counted.program).parents[1]]) as network:
        folder = Path(directory).resolve()
        cluster = Cluster(network, folder / "cluster")
        desk = Desk(cluster, folder / "home", counted.program)
        for words, case, usual, full in KINDS:
            kind = counted.kind(f"Slurm: {words}", usual, full)
            for number in kind:
                try:
                    case(desk, number, f"{case.__name__}-{number}", LAYOUTS[number % len(LAYOUTS)])
                    kind.passed()
                except AssertionError as error:
                    kind.fails(number, f"{error}\n{cluster.logs()}")
                    cluster.user("scancel", "--user=root")
        cluster.end()
    counted.end()


# Name of a kind, its case, and the numbers of cases in the usual run and in all.
KINDS = [
    ("a wrong key ends the job", unknown_key, 1, 1),
    ("three times queued again by a signal, with the losses of an unbroken run", three_requeues, 1, 40),
    ("three times queued again at the time limit, with the losses of an unbroken run", time_limit, 0, 4),
    ("asked at any moment", any_moment, 0, 60),
    ("scancel --batch --signal=TERM saves and ends", saved_and_ended, 0, 20),
    ("scancel ends at once, and the next job continues", canceled, 1, 20),
    ("a node is drained", drained, 0, 6),
    ("a node goes down", node_down, 0, 10),
    ("a rank is killed", killed_rank, 0, 10),
    ("a machine is lost, and the job continues by itself", lost_machine, 1, 10),
    ("a rank hangs three times with nothing saved", hung_each_time, 0, 1),
    ("the template as it is, on 16 ranks", unmodified, 0, 1),
]

if __name__ == "__main__":
    main()
