"""A Slurm cluster of two nodes on this machine: its own daemons, in namespaces of their own.

Each node has a network, a host name and a /dev/shm to itself; a link joins them, and nothing leads out of them. All
processes live in one process namespace, whose end is theirs, whatever ends it: `enter_namespaces()` starts the test
anew in it. Files are those of this machine, which a cluster has on a file system that all nodes see.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from jobs import until

PROGRAMS = ["munged", "slurmctld", "slurmd", "sbatch", "scontrol", "scancel", "unshare", "nsenter", "ip", "mpirun"]
INSIDE = "LONGSPAN_SLURM_NAMESPACES"
SKIPPED = 77

# What is above the usual is named. A node may have more cores in name than the machine has.
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
ReturnToService=2
NodeName=node-1 NodeAddr=10.77.0.1 CPUs=32 RealMemory=4000
NodeName=node-2 NodeAddr=10.77.0.2 CPUs=32 RealMemory=4000
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
REQUEUE_SECONDS = 5  # which a job that was queued again waits; 120 where nobody says otherwise, 5 is the least


def skip(why):
    print(f"left out: {why}", flush=True)
    sys.exit(SKIPPED)


def _become_first_process():
    """The first process of the namespace: takes in whose parents have ended, and ends as the test does."""
    test = os.fork()
    if test == 0:
        return
    while True:
        child, status = os.wait()
        if child == test:
            os._exit(os.waitstatus_to_exitcode(status) & 255)


def enter_namespaces():
    """Returns in namespaces of the test's own, on node-1, or ends the test with a sentence and 77."""
    if os.environ.pop(INSIDE, None):
        _become_first_process()
        return
    os.environ["PATH"] += ":/usr/sbin:/sbin"  # where Debian keeps daemons, which a user's path may lack
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if missing:
        skip(f"{', '.join(missing)} not found; wanted the packages slurm-wlm, munge, iproute2 and util-linux")
    namespaces = ["unshare", "--net", "--uts", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    trial = subprocess.run([*namespaces, "ip", "link", "add", "type", "veth"], stderr=subprocess.PIPE, text=True)
    if trial.returncode != 0:
        skip(f"no namespaces with a link can be made, for which one must be root: {trial.stderr.strip()}")
    os.execvpe(namespaces[0], [*namespaces, sys.executable, *sys.argv], {**os.environ, INSIDE: "1"})


class Cluster:
    """The daemons, and what a user of the cluster would type. The caller is on node-1."""

    def __init__(self, folder):
        self.folder = Path(folder)
        (self.folder / "state").mkdir(parents=True)
        for node in ("node-1", "node-2"):
            (self.folder / node).mkdir()
        os.environ["SLURM_CONF"] = str(self.folder / "slurm.conf")
        (self.folder / "slurm.conf").write_text(
            CONFIGURATION.format(folder=self.folder, requeue_seconds=REQUEUE_SECONDS))
        self._daemons = []
        self._make_nodes()
        self._start_daemons()

    def _make_nodes(self):
        hosts = self.folder / "hosts"
        hosts.write_text("127.0.0.1 localhost\n10.77.0.1 node-1\n10.77.0.2 node-2\n")
        self.on("node-1", "mount", "--bind", hosts, "/etc/hosts")
        self._second = subprocess.Popen(["unshare", "--net", "--uts", "--mount", "sleep", "infinity"])
        mine = os.readlink("/proc/self/ns/net")
        until(lambda: os.readlink(f"/proc/{self._second.pid}/ns/net") != mine, 10)
        self.on("node-1", "ip", "link", "add", "link-1", "type", "veth", "peer", "name", "link-2",
                "netns", self._second.pid)
        for number in (1, 2):
            node, link = f"node-{number}", f"link-{number}"
            for command in (f"hostname {node}", "mount -t tmpfs tmpfs /dev/shm", "ip link set lo up",
                            f"ip address add 10.77.0.{number}/24 dev {link}", f"ip link set {link} up"):
                self.on(node, *command.split())

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
        self.start_node("node-1")
        self.start_node("node-2")
        if not until(lambda: self.nodes() == {"node-1": "idle", "node-2": "idle"}, 60):
            raise AssertionError(f"the nodes do not come up: {self.nodes()}\n{self.logs()}")

    def _entering(self, node):
        return [] if node == "node-1" else ["nsenter", f"--target={self._second.pid}", "--net", "--uts", "--mount"]

    def _start(self, node, *words):
        log = open(self.folder / f"{words[0]}-{node}.output", "ab")
        # A log that Slurm cannot flush at a signal is no reason to keep it.
        self._daemons.append(subprocess.Popen([*self._entering(node), *map(str, words)], stdin=subprocess.DEVNULL,
                                              stdout=log, stderr=log, start_new_session=True))
        return self._daemons[-1]

    def start_node(self, node):
        """Its daemon, slurmd."""
        self._start(node, "slurmd", "-D", "-N", node)

    def on(self, node, *words):
        """What the command writes on that node; it must succeed."""
        done = subprocess.run([*self._entering(node), *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=60)
        if done.returncode != 0:
            raise AssertionError(f"{node}: {' '.join(map(str, words))}: {done.stdout}")
        return done.stdout

    def user(self, *words):
        return self.on("node-1", *words)

    def nodes(self):
        """The state of each node, as sinfo names it: idle, alloc, drng, ..."""
        said = subprocess.run(["sinfo", "--noheader", "--Node", "--format=%N %t"], capture_output=True, text=True).stdout
        return dict(line.split() for line in said.splitlines())

    def submit(self, script, *options, folder):
        """sbatch; the job's number."""
        said = self.user("sbatch", f"--chdir={folder}", *options, script)
        return int(re.search(r"Submitted batch job (\d+)", said)[1])

    def job(self, number):
        """What scontrol says of it, by name."""
        return dict(word.split("=", 1) for word in self.user("scontrol", "show", "job", number, "--oneliner").split()
                    if "=" in word)

    def processes(self):
        """(id, command) of what runs of jobs on the nodes: everything but the daemons and this test."""
        found = []
        for entry in Path("/proc").iterdir():
            try:
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
                if entry.name.isdigit() and "SLURM_JOB_ID=" in (entry / "environ").read_text(errors="replace"):
                    found.append((int(entry.name), command))
            except OSError:
                pass  # it has ended
        return [(process, command) for process, command in found if command]

    def ranks(self, node):
        """The ids of the ranks that run there."""
        namespace = os.readlink(f"/proc/{self._second.pid if node == 'node-2' else os.getpid()}/ns/net")
        return [process for process, command in self.processes()
                if " train " in f" {command} " and " run " not in command and "mpirun" not in command
                and os.readlink(f"/proc/{process}/ns/net") == namespace]

    def left_behind(self):
        """What of jobs is still there a while after their end: processes, shared memory on either node."""
        until(lambda: not self.processes(), 20)
        shared = [f"{node}: {name}" for node in ("node-1", "node-2") for name in self.on(node, "ls", "/dev/shm").split()]
        return self.processes() + shared

    def logs(self):
        return "\n".join(f"{path.name}: {path.read_text(errors='replace')[-2000:]}"
                         for path in sorted(self.folder.glob("*.log")) + sorted(self.folder.glob("*.output")))

    def end(self):
        for daemon in reversed(self._daemons):
            daemon.send_signal(signal.SIGTERM)
        end = time.monotonic() + 10
        for daemon in [*self._daemons, self._second]:
            try:
                daemon.wait(max(0, end - time.monotonic()) if daemon is not self._second else 0)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
