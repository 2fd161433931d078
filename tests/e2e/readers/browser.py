"""Debian's Chromium without a screen, driven over its debugging protocol: load a page, ask it things, take a picture.

Needs nothing but the standard library: the protocol is JSON in a WebSocket (RFC 6455), which is a few bytes around each
message where both ends are on one machine.
"""
import base64
import functools
import http.client
import http.server
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time
import urllib.parse


class WebSocket:
    """Text messages over one connection. Every wait ends at `deadline` (time.monotonic())."""

    def __init__(self, url, deadline):
        place = urllib.parse.urlsplit(url)
        self.deadline = deadline
        self.socket = socket.create_connection((place.hostname, place.port), timeout=120)
        self.stream = self.socket.makefile("rb")
        key = base64.b64encode(os.urandom(16)).decode()
        self.socket.sendall((f"GET {place.path} HTTP/1.1\r\nHost: {place.netloc}\r\nUpgrade: websocket\r\n"
                             f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n"
                             ).encode())
        status = self.stream.readline()
        if b" 101 " not in status:
            raise RuntimeError(f"Chromium refuses the connection: {status!r}")
        while self.stream.readline() not in (b"\r\n", b""):
            pass

    def _frame(self, opcode, payload):
        mask = os.urandom(4)
        head = bytes([0x80 | opcode])
        if len(payload) < 126:
            head += bytes([0x80 | len(payload)])
        elif len(payload) < 65536:
            head += bytes([0x80 | 126]) + struct.pack(">H", len(payload))
        else:
            head += bytes([0x80 | 127]) + struct.pack(">Q", len(payload))
        masked = bytes(a ^ b for a, b in zip(payload, mask * (len(payload) // 4 + 1)))
        self.socket.sendall(head + mask + masked)

    def send(self, text):
        self._frame(1, text.encode())

    def _exactly(self, count):
        self.socket.settimeout(max(0.1, self.deadline - time.monotonic()))
        data = self.stream.read(count)
        if len(data) < count:
            raise RuntimeError("Chromium closed the connection")
        return data

    def receive(self):
        message = b""
        while True:
            first, second = self._exactly(2)
            length = second & 127
            if length == 126:
                length = struct.unpack(">H", self._exactly(2))[0]
            elif length == 127:
                length = struct.unpack(">Q", self._exactly(8))[0]
            payload = self._exactly(length)
            if first & 15 == 8:
                raise RuntimeError("Chromium closed the connection")
            if first & 15 == 9:
                self._frame(10, payload)
            elif first & 15 in (0, 1):
                message += payload
                if first & 0x80:
                    return message.decode()

    def close(self):
        self.stream.close()
        self.socket.close()


class Browser:
    """A context manager: one page of 1600 x 1000, gone with all its processes and files at the end."""

    def __init__(self, program, seconds=600):
        self.program = program
        self.deadline = time.monotonic() + seconds
        self.calls = 0
        self.errors = []  # what the page threw
        self.socket = None

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix="profd-browser-")
        self.log = open(os.path.join(self.folder, "log"), "wb")
        try:
            # A session of its own: Chromium is many processes. The sandbox needs what containers and root lack.
            self.process = subprocess.Popen(
                [self.program, "--headless=new", "--no-sandbox", "--disable-gpu", "--enable-unsafe-swiftshader",
                 "--disable-dev-shm-usage", "--no-first-run", "--remote-debugging-port=0",
                 f"--user-data-dir={self.folder}/profile",
                 "--window-size=1600,1000", "about:blank"],
                stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, start_new_session=True)
            self.socket = WebSocket(self._page(), self.deadline)
            for domain in ("Page", "Runtime"):
                self.call(domain + ".enable")
            self.call("Emulation.setDeviceMetricsOverride", width=1600, height=1000, deviceScaleFactor=1, mobile=False)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self.socket:
            self.socket.close()
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _page(self):
        """Address of the page's debugging socket, once Chromium is up; it writes its port into its profile."""
        port_file = os.path.join(self.folder, "profile", "DevToolsActivePort")
        while time.monotonic() < self.deadline and self.process.poll() is None:
            try:
                with open(port_file, encoding="ascii") as file:
                    port = int(file.readline())
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
                connection.request("GET", "/json")
                for target in json.loads(connection.getresponse().read()):
                    if target["type"] == "page":
                        return target["webSocketDebuggerUrl"]
            except (OSError, ValueError):
                pass
            time.sleep(0.1)
        with open(self.log.name, encoding="utf-8", errors="replace") as log:
            raise RuntimeError(f"Chromium did not start: {log.read()[-2000:]}")

    def call(self, method, **parameters):
        self.calls += 1
        self.socket.send(json.dumps({"id": self.calls, "method": method, "params": parameters}))
        while True:
            answer = json.loads(self.socket.receive())
            if answer.get("method") == "Runtime.exceptionThrown":
                details = answer["params"]["exceptionDetails"]
                self.errors.append(details.get("exception", {}).get("description") or details["text"])
            if answer.get("id") == self.calls:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def open(self, url):
        self.call("Page.navigate", url=url)

    def evaluate(self, script):
        """Value of an expression in the page; a promise is waited for."""
        result = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            details = result["exceptionDetails"]
            raise RuntimeError(details.get("exception", {}).get("description") or details["text"])
        return result["result"].get("value")

    def wait_for(self, script, seconds=300):
        """The expression's first true value; what cannot be asked yet counts as false.

        The time is that of a machine on which others work: Perfetto compiles 10 MB of code before it shows anything.
        """
        end = min(self.deadline, time.monotonic() + seconds)
        problem = None
        while time.monotonic() < end:
            try:
                value = self.evaluate(script)
                if value:
                    return value
            except RuntimeError as error:
                problem = error
            time.sleep(0.2)
        shown = self.evaluate("document.body ? document.body.innerText : ''")
        raise RuntimeError(f"waited {seconds} s for {script}: {problem}; the page threw {self.errors} and shows {shown[:2000]!r}")

    def picture(self, path):
        data = base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])
        with open(path, "wb") as file:
            file.write(data)
        return data


class _Files(http.server.SimpleHTTPRequestHandler):
    extensions_map = {**http.server.SimpleHTTPRequestHandler.extensions_map, ".wasm": "application/wasm",
                      ".js": "text/javascript"}

    def translate_path(self, path):
        name = urllib.parse.unquote(urllib.parse.urlsplit(path).path)
        if name in self.server.extra:
            return str(self.server.extra[name])
        return super().translate_path(path)

    def log_message(self, *_):
        pass


class Files:
    """A context manager: a folder, and single files under names of their own, on a port of this machine at `.url`."""

    def __init__(self, folder, **extra):
        handler = functools.partial(_Files, directory=str(folder))
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.server.daemon_threads = True
        self.server.extra = {"/" + name: path for name, path in extra.items()}
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
