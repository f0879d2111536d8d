"""Two nodes on this machine: a network, a host name and a /dev/shm each, joined by a link that leads nowhere else.

All processes live in one process namespace, whose end is theirs, whatever ends it: `enter_namespaces` starts the test
anew in it, on node-1. Files are those of this machine, as on a file system that all nodes see.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from jobs import until

INSIDE = "LONGSPAN_TEST_NAMESPACES"
SKIPPED = 77
NAMES = ("node-1", "node-2")


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


def enter_namespaces(programs, packages):
    """Returns in namespaces of the test's own, or ends the test with a sentence and 77.

    `programs`: what it needs besides, and the packages that have them.
    """
    if os.environ.pop(INSIDE, None):
        _become_first_process()
        return
    os.environ["PATH"] += ":/usr/sbin:/sbin"  # where Debian keeps daemons, which a user's path may lack
    missing = [program for program in ["unshare", "nsenter", "ip", "mpirun", *programs]
               if shutil.which(program) is None]
    if missing:
        skip(f"{', '.join(missing)} not found; wanted the packages iproute2, util-linux, openmpi-bin and {packages}")
    namespaces = ["unshare", "--net", "--uts", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    trial = subprocess.run([*namespaces, "ip", "link", "add", "type", "veth"], stderr=subprocess.PIPE, text=True)
    if trial.returncode != 0:
        skip(f"no namespaces with a link can be made, for which one must be root: {trial.stderr.strip()}")
    os.execvpe(namespaces[0], [*namespaces, sys.executable, *sys.argv], {**os.environ, INSIDE: "1"})


class TwoNodes:
    """The caller is on node-1. `folder` is for what lies about."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.folder.mkdir(parents=True)
        hosts = self.folder / "hosts"
        hosts.write_text("127.0.0.1 localhost\n10.77.0.1 node-1\n10.77.0.2 node-2\n")
        self.on("node-1", "mount", "--bind", hosts, "/etc/hosts")
        self._second = subprocess.Popen(["unshare", "--net", "--uts", "--mount", "sleep", "infinity"])
        mine = os.readlink("/proc/self/ns/net")
        until(lambda: self._network("node-2") != mine, 10)
        self.on("node-1", "ip", "link", "add", "link-1", "type", "veth", "peer", "name", "link-2",
                "netns", self._second.pid)
        for number, node in enumerate(NAMES, start=1):
            link = f"link-{number}"
            for command in (f"hostname {node}", "mount -t tmpfs tmpfs /dev/shm", "ip link set lo up",
                            f"ip address add 10.77.0.{number}/24 dev {link}", f"ip link set {link} up"):
                self.on(node, *command.split())

    def entering(self, node):
        """What stands before a command that is to run there."""
        return [] if node == "node-1" else ["nsenter", f"--target={self._second.pid}", "--net", "--uts", "--mount"]

    def on(self, node, *words):
        """What the command writes on that node; it must succeed."""
        done = subprocess.run([*self.entering(node), *map(str, words)], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=60)
        if done.returncode != 0:
            raise AssertionError(f"{node}: {' '.join(map(str, words))}: {done.stdout}")
        return done.stdout

    def _network(self, node):
        return os.readlink(f"/proc/{self._second.pid if node == 'node-2' else os.getpid()}/ns/net")

    def processes(self, mark):
        """(id, command) of what has this in its environment."""
        found = []
        for entry in Path("/proc").iterdir():
            try:
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
                if entry.name.isdigit() and mark in (entry / "environ").read_text(errors="replace"):
                    found.append((int(entry.name), command))
            except OSError:
                pass  # it has ended
        return [(process, command) for process, command in found if command]

    def ranks(self, node, mark="OMPI_COMM_WORLD_RANK="):
        """The ids of the ranks that run there."""
        found = []
        for process, _ in self.processes(mark):
            try:
                if os.readlink(f"/proc/{process}/ns/net") == self._network(node):
                    found.append(process)
            except OSError:
                pass  # it has ended
        return found

    def left_behind(self, mark):
        """What of jobs is still there a while after their end: processes, shared memory on either node."""
        until(lambda: not self.processes(mark), 20)
        shared = [f"{node}: {name}" for node in NAMES for name in self.on(node, "ls", "/dev/shm").split()]
        return self.processes(mark) + shared
