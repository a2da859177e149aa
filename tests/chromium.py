"""A real browser without a window, driven by its own protocol over a pipe: tests need nothing but Chromium."""

import base64
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
OPTIONS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe"]
OPTIONS += ["--no-first-run", "--disable-background-networking", "--disable-dev-shm-usage"]


def found() -> str | None:
    """The program, where there is one."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One page of it. Everything that a page complains of is kept in `errors`, and what it asks for in `requests`."""

    def __init__(self, folder: Path) -> None:
        program = found()
        assert program is not None
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()

        def as_three_and_four() -> None:
            # By way of high numbers, for one of these may be 3 or 4 already.
            high = [os.dup2(theirs_in, 103), os.dup2(theirs_out, 104)]
            for number, handle in zip((3, 4), high, strict=True):
                os.dup2(handle, number)

        self._process = subprocess.Popen(
            [program, *OPTIONS, f"--user-data-dir={folder}"],
            preexec_fn=as_three_and_four,
            pass_fds=(3, 4),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._rest, self._number, self._session = b"", 0, ""
        self.errors: list[str] = []
        self.requests: list[str] = []
        self._events: list[str] = []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """A command, and its answer."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                result: dict[str, Any] = answer["result"]
                return result

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            more = os.read(self._in, 1 << 20)
            if not more:
                raise RuntimeError("the browser has ended")
            self._rest += more
        text, self._rest = self._rest.split(b"\0", 1)
        message: dict[str, Any] = json.loads(text)
        method, about = message.get("method", ""), message.get("params", {})
        self._events.append(method)
        if method == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(about["exceptionDetails"]))
        elif method == "Log.entryAdded" and about["entry"]["level"] == "error":
            self.errors.append(about["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(about["request"]["url"])
        return message

    def open(self, path: Path) -> None:
        """A page, once it has loaded."""
        self.errors, self.requests, self._events = [], [], []
        self.send("Page.navigate", url=path.resolve().as_uri())
        while "Page.loadEventFired" not in self._events:
            self._next()

    def run(self, script: str) -> Any:
        """What a script on the page gives, once what it changed was drawn."""
        drawn = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
        text = f"(async () => {{ const found = (() => {{ {script} }})(); await {drawn}; return found; }})()"
        answer = self.send("Runtime.evaluate", expression=text, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(json.dumps(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def press(self, key: str) -> None:
        """A key, as a hand does it."""
        code = {"ArrowRight": 39, "ArrowLeft": 37, "ArrowUp": 38, "ArrowDown": 40, "Tab": 9, " ": 32, "Enter": 13}[key]
        text = {" ": " ", "Enter": "\r"}.get(key)
        about: dict[str, Any] = {"key": key, "windowsVirtualKeyCode": code} | ({"text": text} if text else {})
        for kind in ("keyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, **about)

    def click(self, selector: str) -> None:
        """The middle of an element, as a mouse does it."""
        place = self.run(
            f"const e = document.querySelector({json.dumps(selector)});"
            "e.scrollIntoView({block: 'center', behavior: 'instant'});"
            "const b = e.getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2]"
        )
        about: dict[str, Any] = {"x": place[0], "y": place[1], "button": "left", "clickCount": 1}
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, **about)
        self.run("")

    def move(self, x: float, y: float) -> None:
        """The mouse to a place."""
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        self.run("")

    def size(self, width: int, height: int = 900, *, dark: bool = False, phone: bool = False) -> None:
        """Of the window; `dark` as the system may ask for."""
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.send("Emulation.setEmulatedMedia", media="", features=features)

    def picture(self, path: Path, *, whole: bool = True) -> None:
        """What is to be seen, as .png."""
        about: dict[str, Any] = {}
        if whole:
            width, height = self.run("const e = document.documentElement; return [e.clientWidth, e.scrollHeight]")
            about["clip"] = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        answer = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole, **about)
        path.write_bytes(base64.b64decode(answer["data"]))

    def print(self, path: Path) -> None:
        """As it is printed, as .pdf."""
        path.write_bytes(base64.b64decode(self.send("Page.printToPDF", printBackground=True)["data"]))

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._in)
        os.close(self._out)
