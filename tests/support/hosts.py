"""Hosts on one machine, for tests of jobs that need several.

    with Hosts(["one", "two"], directory, visible=[program]) as hosts:
        job = hosts.start("one", ["mpirun", "--host", "one:2,two:2", program, ...])
        hosts.cut("two")
        job.wait(60)

A host has its own network, name, processes, /tmp, /dev/shm and /etc/hosts, and sees the rest of the machine's files. A
bridge in a network of its own joins them; `ssh` to another host is tests/support/host_agent on their PATH, which asks
this process to start the command there. A host lives as long as its first process, and that one until this process closes
a pipe: so nothing is left, however the test ends.
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

# The first process of a host: its arguments are the name, a folder for its /tmp, its /etc/hosts, and what of /tmp it
# sees. It waits for whatever loses its parent, as the first process of a machine does.
FIRST_PROCESS = """
set -e
name=$1 temporary=$2 names=$3
shift 3
mount -t tmpfs tmpfs "$temporary"
chmod 1777 "$temporary"
for path; do
  case $path in /tmp/*)
    inside=$temporary/${path#/tmp/}
    [ -e "$inside" ] && continue  # it lies in a folder before it
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
echo ready
cat >/dev/null
true
"""


def why_not():
    """A sentence that says why this machine gives no hosts; empty where it does."""
    for program in "ip", "unshare", "nsenter", "mpirun":
        if not any(os.access(Path(folder) / program, os.X_OK) for folder in os.environ["PATH"].split(":")):
            return f"needs {program}, which is not in PATH"
    trial = subprocess.run(["unshare", *KINDS, "--fork", "sh", "-c",
                            "mount -t tmpfs tmpfs /dev/shm && mount -t proc proc /proc && ip link add one type bridge && "
                            "ip link add two type veth peer name three"],
                           capture_output=True, text=True, check=False)
    if trial.returncode:
        return f"namespaces for hosts cannot be made here: {trial.stderr.strip()}"
    return ""


def _run(*words):
    subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True)


class Host:
    """One of them. `first` is its first process."""

    def __init__(self, name, number, first, pipe):
        self.name, self.number, self.first, self._pipe = name, number, first, pipe
        self.reachable = True

    def enter(self, command, directory):
        """The command as words that run it on the host."""
        return ["nsenter", f"--target={self.first}", *KINDS, f"--wd={directory}", "--", *map(str, command)]

    def processes(self):
        """(id, command) of what was started on it."""
        try:
            own = os.readlink(f"/proc/{self.first}/ns/pid")
        except OSError:
            return []  # it is gone, and all of it
        found = []
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and os.readlink(entry / "ns" / "pid") == own:
                    command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                    if command and int(entry.name) != self.first and command != "cat ":  # the first one waits for that
                        found.append((int(entry.name), command))
            except OSError:
                pass  # it has ended
        return found

    def ranks(self, program):
        """The ids of the processes of that program which train."""
        return [process for process, command in self.processes() if command.startswith(f"{program} train ")]

    def files(self):
        """What jobs have left in its /tmp."""
        root = Path(f"/proc/{self.first}/root")
        return sorted(str(path.relative_to(root)) for path in (root / "tmp").glob("ompi.*"))

    def kill(self, name, number=signal.SIGKILL, only=""):
        """Sends a signal to the processes whose program has that name, and that first word where one is given; how many."""
        chosen = [process for process, words in ((process, command.split()) for process, command in self.processes())
                  if Path(words[0]).name == name and only in ("", *words[1:2])]
        for process in chosen:
            os.kill(process, number)
        return len(chosen)


class Job:
    """A command that was started on a host."""

    def __init__(self, command, directory, environment):
        self._output, self._errors = tempfile.TemporaryFile(), tempfile.TemporaryFile()
        self.process = subprocess.Popen(command, cwd=directory, stdin=subprocess.DEVNULL, stdout=self._output,
                                        stderr=self._errors, env=environment)

    @staticmethod
    def _text(file):
        return os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0).decode(errors="replace")

    def output(self):
        return self._text(self._output)

    def errors(self):
        return self._text(self._errors)

    def wait(self, seconds):
        """The exit code; None where it runs on for so long."""
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
        self._pipes = []
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
        self._switch = self._first_process(["unshare", "--net", "--fork", "--kill-child", "sh", "-c",
                                            "echo ready; cat >/dev/null; true"])[0]
        self._on_switch("ip", "link", "add", "bridge", "type", "bridge")
        self._on_switch("ip", "link", "set", "bridge", "up")
        for i, name in enumerate(self._names):
            self._make_host(i, name, folder, names)

    def _make_host(self, number, name, folder, names):
        temporary = folder / f"tmp-{name}"
        temporary.mkdir()
        first, pipe = self._first_process(
            ["unshare", *KINDS, "--fork", "--kill-child", "sh", "-c", FIRST_PROCESS, "sh", name, temporary, names,
             *self._visible, AGENT])
        host = self._hosts[name] = Host(name, number, first, pipe)
        port = f"port{number}"
        _run("ip", "link", "add", port, "netns", self._switch, "type", "veth", "peer", "name", "network", "netns", first)
        self._on_switch("ip", "link", "set", port, "master", "bridge", "up")
        for words in (["address", "add", f"{NETWORK}.{number + 1}/24", "dev", "network"], ["link", "set", "network", "up"]):
            _run(*host.enter(["ip", *words], "/"))

    def _first_process(self, command):
        """The id of the process that it starts and waits for, and itself."""
        pipe = subprocess.Popen([str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                start_new_session=True)
        self._pipes.append(pipe)
        if pipe.stdout.readline() != "ready\n":
            raise RuntimeError(f"a host cannot be made: {pipe.stderr.read()}")
        return int(Path(f"/proc/{pipe.pid}/task/{pipe.pid}/children").read_text().split()[0]), pipe

    def _on_switch(self, *command):
        _run("nsenter", "--target", self._switch, "--net", "--", *command)

    def _listen(self, path):
        self._door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._door.bind(str(path))
        self._door.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                connection, _ = self._door.accept()
            except OSError:
                return  # it was closed
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection):
        """Does what a login to a host does: an environment of its own, the command by a shell."""
        with connection:
            text, streams, _, _ = socket.recv_fds(connection, 1 << 16, 3)
            source, name, command = text.decode().split("\0", 2)
            host = self._hosts.get(name)
            if not host or not host.reachable or not self._hosts[source].reachable:
                code = 255
                os.write(streams[2], f"ssh: connect to host {name} port 22: No route to host\n".encode())
            else:
                with subprocess.Popen(host.enter(["/bin/sh", "-c", command], "/"), stdin=streams[0], stdout=streams[1],
                                      stderr=streams[2], env=self.environment()) as process:
                    for stream in streams:
                        os.close(stream)
                    streams = []
                    code = process.wait()
            for stream in streams:
                os.close(stream)
            try:
                connection.send(bytes([code & 255]))
            except OSError:
                pass  # whoever asked has been killed

    def environment(self):
        """What a user finds after a login."""
        return {"PATH": f"{self.directory}/hosts/bin:{os.environ['PATH']}", "HOME": self._home, "LANG": "C.UTF-8",
                "CUDA_VISIBLE_DEVICES": "", "OMP_WAIT_POLICY": "passive"}  # many ranks share few cores here

    def start(self, name, command, environment=None):
        """Starts a command on a host, in the directory that all of them see."""
        job = Job(self[name].enter(command, self.directory), self.directory, {**self.environment(), **(environment or {})})
        self._jobs.append(job)
        return job

    def cut(self, name):
        """The network no longer carries what the host sends or is sent; nobody is told."""
        self[name].reachable = False
        self._on_switch("ip", "link", "set", f"port{self[name].number}", "nomaster")

    def join(self, name):
        """The opposite of `cut`."""
        self._on_switch("ip", "link", "set", f"port{self[name].number}", "master", "bridge")
        self[name].reachable = True

    def end(self, name):
        """As when its power is cut: it sends nothing more, and nothing runs on it."""
        self.cut(name)
        os.kill(self[name].first, signal.SIGKILL)

    def processes(self, names=None):
        """{host: [(id, command)]} of what runs on them, without hosts where nothing does."""
        found = {name: self[name].processes() for name in names or self._hosts}
        return {name: processes for name, processes in found.items() if processes}

    def left_behind(self, names=None, seconds=10):
        """What still runs on them after so long."""
        end = time.monotonic() + seconds
        while found := self.processes(names):
            if time.monotonic() > end:
                return found
            time.sleep(0.1)
        return {}

    def end_all(self):
        """Ends what runs on the hosts."""
        for processes in self.processes().values():
            for process, _ in processes:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
        self.left_behind()

    def close(self):
        for pipe in self._pipes:
            pipe.stdin.close()
        for pipe in self._pipes:
            try:
                pipe.wait(10)
            except subprocess.TimeoutExpired:
                pipe.kill()  # and with it its child, the first process
                pipe.wait()
            pipe.stdout.close()
            pipe.stderr.close()
        for job in self._jobs:
            job.close()
        if hasattr(self, "_door"):
            self._door.close()
        shutil.rmtree(self.directory / "hosts", ignore_errors=True)
