#!/usr/bin/env python3
"""launch/cluster/pbs.sh and mpijob.yaml on two nodes (tests/support/hosts.py). The test takes the role of the queue.

    tests/reliability/queues_test.py build/launch/longspan [--full] [--kind WORDS] [--only NUMBER]

Neither PBS nor Kubernetes is required. For PBS the test starts the script as pbs_mom would, with a file of nodes and a
`qsub` that records its arguments. For the MPIJob it validates the file against the published definition of
kubeflow.org/v2beta1, and starts the commands of its containers as pods would. The workers' sshd runs on each node. The
launcher is the first process of a process namespace, with the environment that the operator adds.
"""

import contextlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from mpijob_schema import MPIJOB
from templates import CLUSTER, LAYOUTS, changed, check, check_equal, make_tree

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import hosts
import jobs
from counted import Counted, skip
from jobs import until

MARK = "LONGSPAN_TEST_QUEUE="
LONG = {"training.max_steps": 600, "checkpoint.save_interval": 100}  # longer than a launcher without ranks waits

NAMES = ("node-1", "node-2")


class Desk:
    """Two nodes, a tree at home, and the processes that start there."""

    def __init__(self, nodes, home, program):
        self.nodes, self.home = nodes, home
        self.tree = make_tree(home, program)
        self.programs = home / "programs"
        self.programs.mkdir()
        self._unbroken = {}

    def write_program(self, name, text):
        (self.programs / name).write_text(text)
        (self.programs / name).chmod(0o755)

    def start(self, words, name, environment=None, node="node-1"):
        """Starts a process with its output in NAME.output. Signals go to the only child of the returned process."""
        with open(self.home / f"{name}.output", "ab") as output:
            return subprocess.Popen(self.nodes[node].enter(words, self.tree), stdin=subprocess.DEVNULL,
                                    stdout=output, stderr=output, cwd=self.tree, start_new_session=True,
                                    env={**os.environ, "HOME": str(self.home), "CUDA_VISIBLE_DEVICES": "",
                                         "PATH": f"{self.programs}:{os.environ['PATH']}", "LONGSPAN_TEST_QUEUE": name,
                                         **(environment or {})})

    def output_of(self, name):
        path = self.home / f"{name}.output"
        return path.read_text(errors="replace") if path.exists() else ""

    def run(self, name):
        return jobs.Run(self.tree / "runs" / name)

    def step(self, name):
        """Returns the last logged step."""
        path = self.tree / "runs" / name / "metrics.jsonl"
        return path.read_bytes().count(b"\n") if path.exists() else 0

    def wait_for_step(self, process, name, step):
        check(until(lambda: self.step(name) >= step or process.poll() is not None) and self.step(name) >= step,
              f"no step {step}: {process.returncode}\n{self.output_of(name)}")

    def wait_for_end(self, process, name, code):
        try:
            found = process.wait(jobs.MOST_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise AssertionError(f"does not end: {self.output_of(name)}") from None
        check(found == code, f"exit code {found}; wanted {code}\n{self.output_of(name)}")
        left = self.nodes.left_behind(seconds=20, mark=MARK + name + "\0")
        left = left or {node.name: memory for node in self.nodes if (memory := node.shared_memory())}
        check(not left, f"left behind: {left}")

    def unbroken(self, layout, settings=None):
        """Returns metrics.jsonl of an uninterrupted run."""
        key = layout, json.dumps(settings or {})
        if key not in self._unbroken:
            name = f"unbroken-{len(self._unbroken)}"
            self.wait_for_end(self.start_pbs(name, layout, settings=settings), name, 0)
            self._unbroken[key] = self.run(name).metrics_bytes()
        return self._unbroken[key]

    def check_losses(self, name, layout, settings=None):
        check_equal(self.run(name).metrics_bytes(), self.unbroken(layout, settings))
        check("Stopped after step" in self.run(name).log(), f"{name}: never stopped\n{self.output_of(name)}")

    def start_pbs(self, name, layout, seconds=None, settings=None, variables=None, refuses=False):
        """Starts the template on the first of its nodes. `qsub` records its directory and arguments.

        `variables`: those that the previous job gave to qsub; `refuses`: the queue accepts no job.
        """
        settings = " ".join(jobs.flat({**layout.settings(), **(settings or {})}))
        changes = {"--set parallel.data_parallel_size=16 --set data.global_batch_size=64": settings,
                   "OMP_NUM_THREADS=4": "OMP_NUM_THREADS=1",
                   "script=pbs.sh": f"script={name}.sh"}
        if seconds:
            changes["$((4 * 3600 - 180))"] = str(seconds)
        script = self.home / f"{name}.sh"
        script.write_text(changed((CLUSTER / "pbs.sh").read_text(), changes))
        nodefile = self.home / f"{name}.nodes"
        nodefile.write_text("node-1\nnode-1\nnode-2\nnode-2\n")
        self.write_program(
            "qsub", f"#!/bin/sh\necho \"$PWD $*\" >>{self.home}/$PBS_JOBNAME.asked\nexit {int(refuses)}\n")
        return self.start(["bash", script], name, {
            "PBS_JOBID": "1.test", "PBS_JOBNAME": name, "PBS_NODEFILE": str(nodefile), "PBS_O_WORKDIR": str(self.home),
            # Replaces ssh, as the template leaves access to other nodes to the cluster.
            "OMPI_MCA_plm_rsh_agent": str(self.nodes.agent), **(variables or {})})

    def requeues(self, name):
        """Returns the variables for the next job, for each call of qsub."""
        path = self.home / f"{name}.asked"
        calls = path.read_text().splitlines() if path.exists() else []
        found = [re.fullmatch(f"{self.home} -v ([^ ]*) {name}.sh", call) for call in calls]
        check(all(found), f"qsub was given {calls}")
        return [dict(word.split("=") for word in call[1].split(",")) for call in found]


def pbs_signals(desk, number, name, layout):
    """Requests a stop three times, once during startup. Each time the job saves, exits with 75 and requeues itself."""
    source = random.Random(number)
    for times in range(1, 4):
        job = desk.start_pbs(name, layout)
        if times == 2:
            time.sleep(source.uniform(0, 3))
        else:
            desk.wait_for_step(job, name, desk.step(name) + source.randrange(1, 11))
        os.kill(hosts.only_child(job.pid), signal.SIGUSR1)
        desk.wait_for_end(job, name, 75)
        check(len(desk.requeues(name)) == times, f"qsub was given {desk.requeues(name)}")
    desk.wait_for_end(desk.start_pbs(name, layout), name, 0)
    check(len(desk.requeues(name)) == 3, f"qsub was given {desk.requeues(name)}")
    desk.check_losses(name, layout)


def pbs_time(desk, number, name, layout):
    """Limits the time of each job to a part of the full duration: it saves before its end and requeues itself."""
    begin = time.monotonic()
    desk.wait_for_end(desk.start_pbs(f"{name}-timed", layout), f"{name}-timed", 0)
    seconds = (0.4 + 0.1 * number) * (time.monotonic() - begin)
    for pieces in range(20):
        job = desk.start_pbs(name, layout, seconds=seconds)
        job.wait(jobs.MOST_SECONDS)
        desk.wait_for_end(job, name, 0 if job.returncode == 0 else 75)
        if job.returncode == 0:
            break
    check(job.returncode == 0, f"not at its end after 20 pieces of {seconds:.1f} s\n{desk.output_of(name)}")
    check(pieces == len(desk.requeues(name)) > 0, f"{pieces} pieces; qsub was given {desk.requeues(name)}")
    desk.check_losses(name, layout)


def pbs_ended(desk, number, name, layout):
    """SIGTERM to the script saves and ends. SIGTERM to every process, as by qdel, leaves only complete checkpoints."""
    job = desk.start_pbs(name, layout)
    desk.wait_for_step(job, name, random.Random(number).randrange(1, 30))
    if number % 2 == 0:
        os.kill(hosts.only_child(job.pid), signal.SIGTERM)
        desk.wait_for_end(job, name, 75)
    else:
        for processes in desk.nodes.processes(mark=f"{MARK}{name}\0").values():
            for process, _ in processes:
                with contextlib.suppress(ProcessLookupError):  # it has ended
                    os.kill(process, signal.SIGTERM)
        job.wait(jobs.MOST_SECONDS)
        desk.wait_for_end(job, name, job.returncode)
    check(not desk.requeues(name), f"qsub was given {desk.requeues(name)}")
    desk.wait_for_end(desk.start_pbs(name, layout), name, 0)
    check_equal(desk.run(name).metrics_bytes(), desk.unbroken(layout))


def lose_machine(desk):
    """Ends Open MPI's daemon on the second node, as if the machine failed."""
    check(desk.nodes["node-2"].kill("orted") == 1, "node-2 has no daemon")


def hang(desk):
    """Suspends a rank on the second node."""
    os.kill(desk.nodes["node-2"].processes("OMPI_COMM_WORLD_RANK=")[0][0], signal.SIGSTOP)


def lost_job(desk, name, layout, step, fault=lose_machine, settings=None, variables=None, refuses=False):
    """Runs a job with the fault after that step. Returns its output."""
    before = len(desk.output_of(name))
    job = desk.start_pbs(name, layout, settings=settings, variables=variables, refuses=refuses)
    until(lambda: f"step {step}/" in desk.output_of(name)[before:] or job.poll() is not None)
    fault(desk)
    desk.wait_for_end(job, name, 5)
    return desk.output_of(name)[before:]


def saved_job(desk, name, layout, variables):
    """Runs a job until a request to save and requeue. Returns the saved step."""
    job = desk.start_pbs(name, layout, variables=variables)
    desk.wait_for_step(job, name, desk.step(name) + 3)
    os.kill(hosts.only_child(job.pid), signal.SIGUSR1)
    desk.wait_for_end(job, name, 75)
    return desk.run(name).steps()[-1]


def next_variables(desk, name, before=None):
    """Checks and returns the variables for the next job: one more failure at the same step, or the first at another."""
    saved = desk.run(name).steps()
    step = f"step-{saved[-1]:09}" if saved else "nothing"
    times = int(before["FAILURES"]) + 1 if before and before["FAILED_AT"] == step else 1
    found = desk.requeues(name)[-1]
    check(found == {"FAILURES": str(times), "FAILED_AT": step}, f"told {found}; wanted {times} times with {step}")
    return found


def pbs_lost(desk, number, name, layout):
    """Loses a machine twice: each time the job requeues itself, and the run resumes."""
    source, variables = random.Random(number), None
    for times in 1, 2:
        output = lost_job(desk, name, layout, step=60 * times + source.randrange(20), variables=variables)
        variables = next_variables(desk, name, variables)
        check(f"of at most 3 at {variables['FAILED_AT']}\n" in output, f"it said: {output}")
    desk.wait_for_end(desk.start_pbs(name, layout, variables=variables), name, 0)
    check(len(desk.requeues(name)) == 2, f"qsub was given {desk.requeues(name)}")
    check_equal(desk.run(name).metrics_bytes(), desk.unbroken(layout))


def pbs_gives_up(desk, number, name, layout):
    """Suspends a rank twice before the first save, then three times at the same step: the job gives up.

    A job that a user starts resets the count. The queue rejects its request.
    """
    settings = {"checkpoint.save_interval": 0, "run.collective_timeout_seconds": 5}
    variables, step = None, 1
    for _ in range(2):
        lost_job(desk, name, layout, step, hang, settings, variables)
        variables = next_variables(desk, name, variables)
    step = saved_job(desk, name, layout, variables) + 1
    check(desk.requeues(name)[-1] == variables, f"told {desk.requeues(name)[-1]}; wanted {variables}")
    for _ in range(2):
        lost_job(desk, name, layout, step, hang, settings, variables)
        variables = next_variables(desk, name, variables)
    output = lost_job(desk, name, layout, step, hang, settings, variables)
    check(f"Not requeued: 3 lost nodes or hung ranks at {variables['FAILED_AT']}\n" in output
          and len(desk.requeues(name)) == 5, f"asked {desk.requeues(name)}, it said: {output}")
    output = lost_job(desk, name, layout, step, hang, settings, refuses=True)
    next_variables(desk, name)
    check("Requeue failed; run qsub to resume" in output, f"it said: {output}")


class Pods:
    """Containers of mpijob.yaml, as processes on the two nodes."""

    def __init__(self, desk, name, layout, settings, apart):
        import yaml
        self.desk, self.name = desk, name
        text = (CLUSTER / "mpijob.yaml").read_text()
        self.keys = desk.home / "keys"
        # The path of the keys is inside the image.
        job = yaml.safe_load(text.replace(yaml.safe_load(text)["spec"]["sshAuthMountPath"], str(self.keys)))["spec"]
        specs = job["mpiReplicaSpecs"]
        self.launcher, self.worker = (specs[kind]["template"]["spec"]["containers"][0]
                                      for kind in ("Launcher", "Worker"))
        command = " ".join(self.launcher["command"])
        settings = " ".join(jobs.flat({**layout.settings(), **settings}))
        for old, new in {"-n 16": "-n 4", "runs/mpijob": f"runs/{name}",
                         "--set parallel.data_parallel_size=16 --set data.global_batch_size=64": settings}.items():
            check(old in command, f"no {old} in the launcher's command")
            command = command.replace(old, new)
        self.command = command.split()
        self.environment = {entry["name"]: entry["value"] for entry in self.launcher["env"]}
        self.environment["OMP_NUM_THREADS"] = "1"
        hosts = desk.home / "hostfile"
        # Ranks run on the node of the launcher, or only on the other one.
        hosts.write_text("node-2 slots=4\n" if apart else "node-1 slots=2\nnode-2 slots=2\n")
        # The operator adds these.
        self.environment.update({
            "OMPI_MCA_orte_default_hostfile": str(hosts), "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
            "OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10", "OMPI_MCA_orte_set_default_slots": "2"})
        self._make_keys()
        desk.write_program("longspan", f"#!/bin/sh\nexec {desk.tree}/build/launch/longspan \"$@\"\n")
        self.workers = [desk.start(self.worker["command"], f"{name}-worker", node=node) for node in NAMES]

    def _make_keys(self):
        if self.keys.exists():
            return
        for node in self.desk.nodes:
            node.run("mkdir", "-p", "/run/sshd")  # sshd requires it as root
        self.keys.mkdir()
        subprocess.run(["ssh-keygen", "-q", "-t", "ecdsa", "-N", "", "-f", str(self.keys / "id_rsa")], check=True)
        shutil.copy(self.keys / "id_rsa.pub", self.keys / "authorized_keys")

    def start(self):
        """Starts the launcher, the first process of its pod."""
        return self.desk.start(["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", *self.command], self.name,
                               self.environment)

    def end(self):
        for worker in self.workers:
            if worker.poll() is None:
                os.kill(hosts.only_child(worker.pid), signal.SIGKILL)
            worker.wait()


def first_process(launcher):
    """Returns the process id of the only child of unshare, itself the only child of nsenter."""
    return hosts.only_child(hosts.only_child(launcher.pid))


def mpijob_schema(desk, number, name, layout):
    """Checks that the file has only fields of the definition."""
    import jsonschema
    import yaml
    text = (CLUSTER / "mpijob.yaml").read_text()
    job = yaml.safe_load(text)
    jsonschema.validate(job, MPIJOB)
    specs = job["spec"]["mpiReplicaSpecs"]
    ranks = specs["Worker"]["replicas"] * job["spec"]["slotsPerWorker"]
    command = " ".join(specs["Launcher"]["template"]["spec"]["containers"][0]["command"])
    check(f"-n {ranks} " in command and f"parallel.data_parallel_size={ranks} " in command, f"{ranks} slots, but: {command}")
    for spec in specs.values():
        pod = spec["template"]["spec"]
        volumes = {volume["name"] for volume in pod["volumes"]}
        mounted = {mount["name"] for container in pod["containers"] for mount in container["volumeMounts"]}
        check(mounted == volumes, f"volumes {volumes}, mounted {mounted}")


def mpijob_stopped(desk, number, name, layout):
    """Ends the launcher as a pod: it saves, exits with 75, and the next one resumes. Workers keep no processes."""
    if shutil.which("sshd") is None:
        return "sshd not found; wanted the package openssh-server"
    apart = number % 2 == 1
    settings = LONG if apart else {}
    pods = Pods(desk, name, layout, settings, apart)
    try:
        for _ in range(2):
            launcher = pods.start()
            desk.wait_for_step(launcher, name, desk.step(name) + 5)
            os.kill(first_process(launcher), signal.SIGTERM)
            desk.wait_for_end(launcher, name, 75)
            # Hook of a terminating worker.
            for node in desk.nodes:
                node.run(*pods.worker["lifecycle"]["preStop"]["exec"]["command"])
        desk.wait_for_end(pods.start(), name, 0)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{desk.output_of(name + '-worker')[-2000:]}") from None
    finally:
        pods.end()
    desk.check_losses(name, layout, settings)
    return None


# Name of a kind, its case, and the numbers of cases in the usual run and in all.
KINDS = [
    ("MPIJob: fields of the published definition", mpijob_schema, 1, 1),
    ("MPIJob: the launcher is told to end and goes on", mpijob_stopped, 1, 12),
    ("PBS: three times asked, with the losses of an unbroken run", pbs_signals, 1, 20),
    ("PBS: saves before its time is over", pbs_time, 0, 4),
    ("PBS: is ended", pbs_ended, 0, 10),
    ("PBS: a machine is lost, with the losses of an unbroken run", pbs_lost, 1, 10),
    ("PBS: gives up at the third time with the same step saved", pbs_gives_up, 0, 4),
]


def main():
    counted = Counted(__doc__)
    if why := hosts.why_not(["ssh", "ssh-keygen"]):
        skip(why)
    with tempfile.TemporaryDirectory(prefix="longspan-queues-", ignore_cleanup_errors=True) as directory, hosts.Hosts(
            NAMES, directory, visible=[jobs.SOURCE, Path(counted.program).parents[1]]) as nodes:
        desk = Desk(nodes, Path(directory).resolve() / "home", counted.program)
        for words, case, usual, full in KINDS:
            kind = counted.kind(words, usual, full)
            for number in kind:
                try:
                    left_out = case(desk, number, f"{case.__name__}-{number}", LAYOUTS[number % len(LAYOUTS)])
                    if left_out:
                        kind.leaves_out(number, left_out)
                    else:
                        kind.passed()
                except AssertionError as error:
                    kind.fails(number, error)
    counted.end()


if __name__ == "__main__":
    main()
