"""Emulates several hosts on one machine, for tests of multi-host jobs.

    with Hosts(["one", "two"], directory, visible=[program]) as hosts:
        job = hosts.start("one", ["mpirun", "--host", "one:2,two:2", program, ...])
        hosts.cut("two")
        job.wait(60)

Each host has its own network, name, processes, /tmp, /dev/shm and /etc/hosts, and shares the other files of the machine. A
bridge in a separate network namespace connects the hosts. `ssh` is tests/support/host_agent on their PATH, which asks this
process to start the command on the other host. A host lives as long as its first process, which exits when this process
closes a pipe, so nothing remains however the test ends. If the first process exits earlier, operations on the host raise an
error with its exit code.
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path

AGENT = Path(__file__).resolve().parent / "host_agent"
NETWORK = "10.213.0"
KINDS = ("--net", "--uts", "--ipc", "--pid", "--mount")

# The first process of a host. Arguments: the name, a directory for its /tmp, its /etc/hosts, and the visible paths of /tmp.
# It reaps orphaned processes, as init does. `cat` echoes its input once the setup is complete.
FIRST_PROCESS = """
set -e
name=$1 temporary=$2 names=$3
shift 3
mount -t tmpfs tmpfs "$temporary"
chmod 1777 "$temporary"
for path; do
  case $path in /tmp/*)
    inside=$temporary/${path#/tmp/}
    [ -e "$inside" ] && continue  # inside a previous directory
    if [ -d "$path" ]; then mkdir -p "$inside"; else mkdir -p "${inside%/*}"; : >"$inside"; fi
    mount --bind "$path" "$inside" ;;
  esac
done
mount --rbind "$temporary" /tmp
mount -t tmpfs tmpfs /dev/shm
mount -t proc proc /proc
mount --bind "$names" /etc/hosts
hostname "$name"
ip link set lo up
cat
true
"""


def why_not(programs=()):
    """Returns why this machine cannot emulate hosts or lacks one of the programs; "" if it can."""
    for program in "ip", "unshare", "nsenter", "mpirun", *programs:
        if shutil.which(program) is None:
            return f"{program} not found in PATH"
    trial = subprocess.run(["unshare", *KINDS, "--fork", "sh", "-c",
                            "mount -t tmpfs tmpfs /dev/shm && mount -t proc proc /proc && ip link add one type bridge && "
                            "ip link add two type veth peer name three"],
                           capture_output=True, text=True, check=False)
    if trial.returncode:
        return f"cannot create namespaces for hosts: {trial.stderr.strip()}"
    return ""


def _run(*words):
    """Returns the output of the command; raises AssertionError if it fails."""
    words = [str(word) for word in words]
    done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=60)
    if done.returncode:
        raise AssertionError(f"{' '.join(words)}: exit code {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout


def _text(file):
    return os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0).decode(errors="replace")


def only_child(process):
    """Returns the id of the process started by nsenter or unshare, the target of signals."""
    end = time.monotonic() + 10
    while not (children := Path(f"/proc/{process}/task/{process}/children").read_text().split()):
        if time.monotonic() > end:
            raise AssertionError(f"process {process} has no child process")
        time.sleep(0.01)
    return int(children[0])


class _First:
    """A first process, which lives as long as this process holds its pipe."""

    def __init__(self, command):
        self._errors = tempfile.TemporaryFile()
        # The parent is unshare, which exits with the same code.
        self._parent = subprocess.Popen([str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self._errors, start_new_session=True)
        with contextlib.suppress(BrokenPipeError):  # it has exited
            self._parent.stdin.write(b"ready\n")
            self._parent.stdin.flush()
        if self._parent.stdout.readline() != b"ready\n":
            self._parent.wait(10)
            why = self.end()
            self.close()
            raise AssertionError(f"cannot create a host: {why}")
        self.id = only_child(self._parent.pid)

    def end(self):
        """Returns how it exited; "" while it runs."""
        code = self._parent.poll()
        if code is None:
            return ""
        return f"first process exited with {code}: {_text(self._errors) or 'no output'}"

    def let_go(self):
        with contextlib.suppress(BrokenPipeError):
            self._parent.stdin.close()

    def close(self):
        self.let_go()
        try:
            self._parent.wait(10)
        except subprocess.TimeoutExpired:
            self._parent.kill()  # also kills its child, the first process
            self._parent.wait()
        self._parent.stdout.close()
        self._errors.close()


class Host:
    """A host. `first` is the id of its first process."""

    def __init__(self, name, number, first):
        self.name, self.number, self._first = name, number, first
        self.first = first.id
        self.reachable = True
        self.is_ended = False  # ended by the test

    def check(self):
        """Raises AssertionError if the host has exited and the test did not end it."""
        if not self.is_ended and (end := self._first.end()):
            raise AssertionError(f"host {self.name} exited: {end}")

    def enter(self, command, directory):
        """Returns the command line that runs the command on the host."""
        self.check()
        return ["nsenter", f"--target={self.first}", *KINDS, f"--wd={directory}", "--", *map(str, command)]

    def run(self, *words):
        """Runs the command on the host, as `_run` does."""
        return _run(*self.enter(words, "/"))

    def end(self):
        self.is_ended = True
        os.kill(self.first, signal.SIGKILL)

    def processes(self, mark=""):
        """Returns (id, command) of the processes on the host whose environment contains the mark."""
        self.check()
        try:
            own = os.readlink(f"/proc/{self.first}/ns/pid")
        except OSError:
            return []  # the host has exited
        found = []
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and os.readlink(entry / "ns" / "pid") == own:
                    command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                    is_other = int(entry.name) != self.first and command != "cat "  # the child of the first process
                    if command and is_other and (not mark or mark.encode() in (entry / "environ").read_bytes()):
                        found.append((int(entry.name), command))
            except OSError:
                pass  # the process has exited
        return found

    def ranks(self, program):
        """Returns the ids of the processes of `program train`."""
        return [process for process, command in self.processes() if command.startswith(f"{program} train ")]

    def files(self):
        """Returns the files that jobs left in its /tmp."""
        root = Path(f"/proc/{self.first}/root")
        return sorted(str(path.relative_to(root)) for path in (root / "tmp").glob("ompi.*"))

    def shared_memory(self):
        """Returns the files that jobs left in its /dev/shm."""
        return sorted(path.name for path in Path(f"/proc/{self.first}/root/dev/shm").iterdir())

    def kill(self, name, number=signal.SIGKILL, only=""):
        """Sends a signal to the processes of the program `name`, optionally only with first argument `only`; returns their number."""
        chosen = [process for process, words in ((process, command.split()) for process, command in self.processes())
                  if Path(words[0]).name == name and only in ("", *words[1:2])]
        for process in chosen:
            os.kill(process, number)
        return len(chosen)


class Job:
    """A command started on a host."""

    def __init__(self, command, directory, environment):
        self._output, self._errors = tempfile.TemporaryFile(), tempfile.TemporaryFile()
        self.process = subprocess.Popen(command, cwd=directory, stdin=subprocess.DEVNULL, stdout=self._output,
                                        stderr=self._errors, env=environment)

    def output(self):
        return _text(self._output)

    def errors(self):
        return _text(self._errors)

    def wait(self, seconds):
        """Returns the exit code; None after a timeout."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def close(self):
        self.process.wait()
        self._output.close()
        self._errors.close()


class Hosts:
    """Several hosts, and the network between them."""

    def __init__(self, names, directory, visible=(), home=None):
        self.directory = Path(directory).resolve()
        self._visible = [self.directory, *(Path(path).resolve() for path in visible)]
        self._names = list(names)
        self._home = str(home or os.environ.get("HOME", "/"))
        self._hosts = {}
        self._first_ones = []
        self._jobs = []

    def __enter__(self):
        try:
            self._make()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_):
        self.close()

    def __getitem__(self, name):
        return self._hosts[name]

    def __iter__(self):
        return iter(self._hosts.values())

    def _make(self):
        folder = self.directory / "hosts"
        (folder / "bin").mkdir(parents=True)
        (folder / "bin" / "ssh").symlink_to(AGENT)
        names = folder / "names"
        names.write_text("127.0.0.1 localhost\n"
                         + "".join(f"{NETWORK}.{i + 1} {name}\n" for i, name in enumerate(self._names)))
        self._listen(folder / "door")
        self._switch = self._first_process(["unshare", "--net", "--fork", "--kill-child", "cat"]).id
        self._on_switch("ip", "link", "add", "bridge", "type", "bridge")
        self._on_switch("ip", "link", "set", "bridge", "up")
        for i, name in enumerate(self._names):
            self._make_host(i, name, folder, names)

    def _make_host(self, number, name, folder, names):
        temporary = folder / f"tmp-{name}"
        temporary.mkdir()
        first = self._first_process(
            ["unshare", *KINDS, "--fork", "--kill-child", "sh", "-c", FIRST_PROCESS, "sh", name, temporary, names,
             *self._visible, AGENT])
        host = self._hosts[name] = Host(name, number, first)
        port = f"port{number}"
        _run("ip", "link", "add", port, "netns", self._switch, "type", "veth", "peer", "name", "network", "netns", first.id)
        self._on_switch("ip", "link", "set", port, "master", "bridge", "up")
        for words in (["address", "add", f"{NETWORK}.{number + 1}/24", "dev", "network"], ["link", "set", "network", "up"]):
            host.run("ip", *words)

    def _first_process(self, command):
        self._first_ones.append(_First(command))
        return self._first_ones[-1]

    def _on_switch(self, *command):
        _run("nsenter", "--target", self._switch, "--net", "--", *command)

    def _listen(self, path):
        self._door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._door.bind(str(path))
        self._door.listen()
        self._server = threading.Thread(target=self._serve, daemon=True)
        self._server.start()

    def _serve(self):
        while True:
            try:
                connection, _ = self._door.accept()
            except OSError:
                return  # _shut() was called
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _shut(self):
        """Stops listening. Closing the socket alone is not enough: after SIGSTOP and SIGCONT the thread would accept on the
        reused descriptor, the socket of the next hosts, and answer their logins."""
        self._door.shutdown(socket.SHUT_RDWR)
        self._server.join()
        self._door.close()

    def _answer(self, connection):
        """Serves a login to a host: a fresh environment, the command run by a shell."""
        with connection:
            text, streams, _, _ = socket.recv_fds(connection, 1 << 16, 3)
            try:
                code = self._log_in(streams, *text.decode().split("\0", 2))
            finally:
                for stream in streams:
                    os.close(stream)
            try:
                connection.send(bytes([code & 255]))
            except OSError:
                pass  # the client was killed

    def _log_in(self, streams, source, name, command):
        """Returns the exit code. Closes the streams after starting the command."""
        host = self._hosts.get(name)
        if not host or not host.reachable or not self._hosts[source].reachable:
            os.write(streams[2], f"ssh: connect to host {name} port 22: No route to host\n".encode())
            return 255
        try:
            words = host.enter(["/bin/sh", "-c", command], "/")
        except AssertionError as error:
            os.write(streams[2], f"{error}\n".encode())
            return 255
        with subprocess.Popen(words, stdin=streams[0], stdout=streams[1], stderr=streams[2],
                              env=self.environment()) as process:
            while streams:
                os.close(streams.pop())
            return process.wait()

    @property
    def agent(self):
        """The path of `ssh` on the hosts, for processes with another one on their PATH."""
        return self.directory / "hosts" / "bin" / "ssh"

    def environment(self):
        """The environment after a login."""
        return {"PATH": f"{self.directory}/hosts/bin:{os.environ['PATH']}", "HOME": self._home, "LANG": "C.UTF-8",
                "CUDA_VISIBLE_DEVICES": "", "OMP_WAIT_POLICY": "passive"}  # many ranks share few cores here

    def start(self, name, command, environment=None):
        """Starts a command on a host, in the directory that all hosts share."""
        job = Job(self[name].enter(command, self.directory), self.directory, {**self.environment(), **(environment or {})})
        self._jobs.append(job)
        return job

    def cut(self, name):
        """Silently drops all traffic from and to the host."""
        self[name].reachable = False
        self._on_switch("ip", "link", "set", f"port{self[name].number}", "nomaster")

    def join(self, name):
        """Reconnects the host after `cut`."""
        self._on_switch("ip", "link", "set", f"port{self[name].number}", "master", "bridge")
        self[name].reachable = True

    def end(self, name):
        """Simulates a power loss: no traffic and no processes remain."""
        self.cut(name)
        self[name].end()

    def processes(self, names=None, mark=""):
        """Returns {host: [(id, command)]} of the processes whose environment contains the mark; only hosts that have some."""
        found = {name: self[name].processes(mark) for name in names or self._hosts}
        return {name: processes for name, processes in found.items() if processes}

    def left_behind(self, names=None, seconds=10, mark=""):
        """Returns the processes that still run after `seconds`, as `processes` does."""
        end = time.monotonic() + seconds
        while found := self.processes(names, mark):
            if time.monotonic() > end:
                return found
            time.sleep(0.1)
        return {}

    def end_all(self):
        """Kills all processes on the hosts."""
        for processes in self.processes().values():
            for process, _ in processes:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
        self.left_behind()

    def close(self):
        for first in self._first_ones:
            first.let_go()
        for first in self._first_ones:
            first.close()
        for job in self._jobs:
            job.close()
        if hasattr(self, "_server"):
            self._shut()
        shutil.rmtree(self.directory / "hosts", ignore_errors=True)
