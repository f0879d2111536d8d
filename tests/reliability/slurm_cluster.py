"""A Slurm cluster of two nodes on this machine (tests/support/hosts.py), with separate daemons."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import hosts
from jobs import until

NAMES = ("node-1", "node-2")


def why_not():
    """Returns why no cluster can run here, or "", as hosts.why_not does."""
    os.environ["PATH"] += ":/usr/sbin:/sbin"  # Debian's daemons, which may be missing in a user's path
    why = hosts.why_not(["munged", "slurmctld", "slurmd", "sbatch", "scontrol", "scancel"])
    return f"{why} (the packages slurm-wlm and munge have what a cluster needs)" if why else ""


# A node may declare more cores than the machine has.
CONFIGURATION = """\
ClusterName=test
SlurmctldHost=node-1
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire={requeue_seconds}
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=2
SlurmdTimeout=10
ReturnToService=1
NodeName=node-1 CPUs=32 RealMemory=4000
NodeName=node-2 CPUs=32 RealMemory=4000
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
REQUEUE_SECONDS = 5  # delay of a requeued job; default 120, minimum 5


class Cluster:
    """Daemons on two hosts, and the commands of a user of the cluster."""

    def __init__(self, network, folder):
        self.network, self.folder = network, folder
        folder.mkdir()
        for name in ("state", *NAMES):
            (self.folder / name).mkdir()
        os.environ["SLURM_CONF"] = str(self.folder / "slurm.conf")
        (self.folder / "slurm.conf").write_text(
            CONFIGURATION.format(folder=self.folder, requeue_seconds=REQUEUE_SECONDS))
        self._daemons = []
        self._start_daemons()

    def _start_daemons(self):
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        self._start("node-1", "munged", "--foreground", "--force", f"--key-file={key}", *(
            f"--{name}-file={self.folder}/munge.{name}" for name in ("pid", "log", "seed")),
            f"--socket={self.folder}/munge.socket")
        if not until((self.folder / "munge.socket").exists, 20):
            raise AssertionError(f"munged does not start: {self.logs()}")
        self._start("node-1", "slurmctld", "-D")
        for node in NAMES:
            self._start(node, "slurmd", "-D", "-N", node)
        if not until(lambda: self.nodes() == dict.fromkeys(NAMES, "idle"), 60):
            raise AssertionError(f"the nodes do not come up: {self.nodes()}\n{self.logs()}")

    def _start(self, node, *words):
        log = open(self.folder / f"{words[0]}-{node}.output", "ab")
        self._daemons.append(subprocess.Popen(self.network[node].enter(words, "/"), stdin=subprocess.DEVNULL,
                                              stdout=log, stderr=log, start_new_session=True))

    def user(self, *words):
        return self.network["node-1"].run(*words)

    def ranks(self, node):
        """Returns the process ids of the ranks on a node."""
        return [process for process, _ in self.network[node].processes("OMPI_COMM_WORLD_RANK=")]

    def nodes(self):
        """Returns the state of each node, as sinfo names it: idle, alloc, drng, ..."""
        try:
            output = self.user("sinfo", "--noheader", "--Node", "--format=%N %t")
        except AssertionError:
            return {}  # slurmctld does not answer yet
        return dict(line.split() for line in output.splitlines())

    def submit(self, script, *options, folder):
        """Runs sbatch. Returns the job's number."""
        output = self.user("sbatch", f"--chdir={folder}", *options, script)
        return int(re.search(r"Submitted batch job (\d+)", output)[1])

    def job(self, number):
        """Returns the fields of scontrol for the job, by name."""
        return dict(word.split("=", 1) for word in self.user("scontrol", "show", "job", number, "--oneliner").split()
                    if "=" in word)

    def logs(self):
        """Returns the last lines of the daemons' logs."""
        return "\n".join(f"{path.name}: {path.read_text(errors='replace')[-1000:]}"
                         for path in sorted(self.folder.glob("*.log")) if path.name != "munge.log")

    def end(self):
        """Ends the daemons in reverse order. Otherwise they end with the test."""
        for daemon in reversed(self._daemons):
            if daemon.poll() is None:
                os.kill(hosts.only_child(daemon.pid), signal.SIGTERM)
        end = time.monotonic() + 10
        for daemon in self._daemons:
            try:
                daemon.wait(max(0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
