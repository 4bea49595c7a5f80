# SPDX-License-Identifier: LGPL-2.1-or-later
"""As much of a W3C WebDriver client as the page's tests need, over chromedriver's HTTP API.

The driver runs below a keeper: this file as a program, which adopts whatever the driver starts and,
once its standard input ends, kills all of it and removes its directory. That happens however the test
ends, so that a killed run leaves nothing that a later one trips over.

usage: webdriver.py DIRECTORY DRIVER ARGUMENT..."""

import base64
import contextlib
import ctypes
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
PR_SET_CHILD_SUBREAPER = 36
KEYS = {
    "Enter": "\ue007", "Escape": "\ue00c", "Home": "\ue011", "ArrowLeft": "\ue012", "ArrowUp": "\ue013",
    "ArrowRight": "\ue014", "ArrowDown": "\ue015", "Tab": "\ue004",
}
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
    "--window-size=1280,900",
]


class WebDriverError(Exception):
    pass


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def children_of(pid):
    found = []
    for entry in os.listdir("/proc"):
        with contextlib.suppress(OSError, ValueError):
            with open(f"/proc/{int(entry)}/stat", encoding="utf-8", errors="replace") as f:
                # The name may hold anything; behind its parenthesis: state, parent.
                if int(f.read().rpartition(")")[2].split()[1]) == pid:
                    found.append(int(entry))
    return found


def keep(directory, command):
    for number in signal.SIGINT, signal.SIGTERM, signal.SIGHUP:
        signal.signal(number, signal.SIG_IGN)  # the end of the input is the signal
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                     start_new_session=True)
    while os.read(0, 4096):
        pass
    # Killed one generation after the other: orphans become this process's children.
    while children := children_of(os.getpid()):
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        for child in children:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(child, 0)
    shutil.rmtree(directory, ignore_errors=True)


class Browser:
    """One chromedriver with one session, and a directory that goes with it."""

    def __init__(self, driver, browser):
        self.session = None
        self.port = free_port()
        self.directory = directory = tempfile.mkdtemp(prefix="ringside-browser-")
        # A home of its own: whatever a browser writes there goes with the directory.
        environment = dict(os.environ, HOME=directory, TMPDIR=directory, XDG_CONFIG_HOME=directory,
                           XDG_CACHE_HOME=directory)
        self.keeper = subprocess.Popen(
            [sys.executable, os.path.abspath(__file__), directory, driver, f"--port={self.port}", "--log-level=SEVERE"],
            env=environment, stdin=subprocess.PIPE)
        try:
            self.wait_for_driver()
            answer = self.call("POST", "/session", {"capabilities": {"alwaysMatch": {
                "browserName": "chrome",
                "goog:loggingPrefs": {"browser": "ALL"},
                "goog:chromeOptions": {"binary": browser, "args": FLAGS + [f"--user-data-dir={directory}/profile"]},
            }}})
            self.session = answer["sessionId"]
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()

    def close(self):
        with contextlib.suppress(OSError, WebDriverError, http.client.HTTPException):
            if self.session:
                self.call("DELETE", f"/session/{self.session}", timeout=20)
        self.keeper.stdin.close()
        self.keeper.wait()

    def wait_for_driver(self):
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if self.keeper.poll() is not None:
                raise WebDriverError(f"the driver's keeper ended with {self.keeper.returncode}")
            with contextlib.suppress(OSError, http.client.HTTPException):
                if self.call("GET", "/status")["ready"]:
                    return
            time.sleep(0.1)
        raise WebDriverError("chromedriver does not answer")

    def call(self, method, path, body=None, timeout=120):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            connection.request(method, path, None if body is None else json.dumps(body),
                               {"Content-Type": "application/json"})
            value = json.loads(connection.getresponse().read())["value"]
        finally:
            connection.close()
        if isinstance(value, dict) and "error" in value:
            raise WebDriverError(f"{path}: {value['error']}: {value['message'].splitlines()[0]}")
        return value

    def do(self, method, path, body=None):
        return self.call(method, f"/session/{self.session}{path}", body)

    def open(self, path):
        self.do("POST", "/url", {"url": "file://" + os.path.abspath(path)})

    def run(self, script, *arguments):
        """The value that the script returns."""
        return self.do("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def settle(self):
        """Until what was asked for is drawn: two frames."""
        self.do("POST", "/execute/async", {"args": [], "script":
                "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => done()));"})

    def find(self, css):
        return self.do("POST", "/element", {"using": "css selector", "value": css})[ELEMENT]

    def click(self, css):
        self.do("POST", f"/element/{self.find(css)}/click", {})
        self.settle()

    def type(self, css, text):
        self.do("POST", f"/element/{self.find(css)}/value", {"text": text})
        self.settle()

    def press(self, *keys):
        """Keys for whatever has the focus."""
        actions = []
        for key in keys:
            value = KEYS.get(key, key)
            actions += [{"type": "keyDown", "value": value}, {"type": "keyUp", "value": value}]
        self.do("POST", "/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]})
        self.settle()

    def hover(self, css):
        origin = {ELEMENT: self.find(css)}
        self.do("POST", "/actions", {"actions": [{
            "type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"},
            "actions": [{"type": "pointerMove", "duration": 0, "origin": origin, "x": 0, "y": 0}]}]})
        self.settle()

    def devtools(self, command, **parameters):
        return self.do("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def set_scheme(self, scheme):
        self.devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def set_size(self, width, height):
        self.devtools("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.settle()

    def log(self):
        """What the page has logged since the last call: errors and refusals of the policy."""
        return self.do("POST", "/se/log", {"type": "browser"})

    def screenshot(self, path):
        with open(path, "wb") as f:
            f.write(base64.b64decode(self.do("GET", "/screenshot")))


if __name__ == "__main__":
    keep(sys.argv[1], sys.argv[2:])
