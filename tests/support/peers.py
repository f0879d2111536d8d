"""Programs of other projects that tests compare with, in a Python environment that `launch/setup --peers` makes."""

import os
import subprocess
from pathlib import Path

import jobs


class PeersTestCase(jobs.TestCase):
    """A test that is skipped where the environment is not there. `peer_script` is a file of tests/peers."""

    peer_script = "causal.py"

    def environment(self):
        cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        peers = Path(os.environ.get("LONGSPAN_PEERS") or Path(cache) / "longspan" / "peers").absolute()
        if not (peers / "ready").exists():
            self.skipTest(f"there is no {peers / 'ready'}; launch/setup --peers makes it")
        return peers

    def need(self, package):
        """One that an environment which was made before may lack."""
        peers = self.environment()
        if not list(peers.glob(f"lib/python3*/site-packages/{package}")):
            self.skipTest(f"{peers} has no {package}; remove it, and launch/setup --peers makes it with that")

    def peer(self, *arguments):
        """What the script prints, which must succeed."""
        python = self.environment() / "bin" / "python"
        script = jobs.SOURCE / "tests" / "peers" / self.peer_script
        result = subprocess.run([python, script, *map(str, arguments)], cwd=self.directory, capture_output=True, text=True,
                                env={**os.environ, "CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1"})
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout
