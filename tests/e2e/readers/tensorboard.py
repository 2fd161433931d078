"""TensorBoard with the plugin torch_tb_profiler on a log folder, asked by HTTP. `python` is one that has both."""
import json
import os
import pathlib
import subprocess
import time
import urllib.parse
import urllib.request

from ports import free_port

SECONDS = 300


class TensorBoard:
    def __init__(self, python, folder):
        self.port = free_port()
        self.log = pathlib.Path(folder).parent / "tensorboard.log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [python, "-m", "tensorboard.main", "--logdir", folder, "--host", "127.0.0.1", "--port", str(self.port),
                 "--load_fast", "false"], stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                env={k: v for k, v in os.environ.items() if not k.startswith("PROFD_")})

    def ask(self, what, **query):
        """Answer of one of the plugin's pages."""
        url = f"http://127.0.0.1:{self.port}/data/plugin/pytorch_profiler/{what}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url, timeout=120) as answer:
            return json.load(answer)

    def wait_for_run(self):
        """The runs, once they are read."""
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            assert self.process.poll() is None, self.log.read_text()
            try:
                answer = self.ask("runs")
            except OSError:
                answer = {"loading": True, "runs": []}
            if answer["runs"] and not answer["loading"]:
                return answer["runs"]
            time.sleep(0.2)
        raise AssertionError(f"no run within {SECONDS} s: {self.log.read_text()}")

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.process.terminate()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
