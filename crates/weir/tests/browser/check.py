#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""check.py [--shots DIRECTORY] [--shows TEXT]... PAGE...: renders pages in headless Chromium as people see them.

Each page is laid out at 360, 800 and 1400 px, light and dark. It prints one line per problem: a TEXT that is not
shown, an error on the console, an exception, a request to the network, an element wider than the window, an empty
figure. It drives Chromium through its debugging pipe and opens no port.
"""
import base64
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

WIDTHS = [360, 800, 1400]
SCHEMES = ["light", "dark"]

# Elements that extend beyond the window, except those that an ancestor clips or hides.
PROBE = r"""
(() => {
  const wide = document.documentElement.clientWidth;
  const found = [];
  const hidden = (node) => {
    for (let up = node.parentElement; up; up = up.parentElement) {
      const style = getComputedStyle(up);
      if (style.overflowX !== "visible" && up.getBoundingClientRect().right <= wide + 1) return true;
    }
    return false;
  };
  for (const node of document.querySelectorAll("body *")) {
    const box = node.getBoundingClientRect();
    if (box.width && (box.right > wide + 1 || box.left < -1) && !hidden(node)) {
      found.push(`${node.tagName} ${node.id || node.className.baseVal || node.className} from ${box.left} to ${box.right}`);
    }
  }
  const empty = [...document.querySelectorAll("canvas, svg")].filter((node) => {
    const box = node.getBoundingClientRect();
    return box.width < 50 || box.height < 20;
  });
  return {
    scroll: document.documentElement.scrollWidth, wide, found: found.slice(0, 5), empty: empty.length,
    back: getComputedStyle(document.body).backgroundColor, figures: document.querySelectorAll("canvas, svg").length,
    text: document.body.innerText, drawn: [...document.querySelectorAll("svg")].map((node) => node.textContent).join("\n"),
  };
})()
"""


class Browser:
    """Chromium on its debugging pipe: JSON messages, each terminated by a NUL."""

    def __init__(self, program, home):
        read_here, write_there = os.pipe()
        read_there, write_here = os.pipe()

        def pipes():
            # Moves both away from 3 and 4 first, because either may be one of these.
            into, out = os.dup2(read_there, 103), os.dup2(write_there, 104)
            os.dup2(into, 3)
            os.dup2(out, 4)

        self.process = subprocess.Popen(
            [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             "--no-first-run", "--disable-extensions", "--remote-debugging-pipe", f"--user-data-dir={home}", "about:blank"],
            preexec_fn=pipes, close_fds=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, env={**os.environ, "HOME": home})
        os.close(read_there)
        os.close(write_there)
        self.out, self.into = os.fdopen(write_here, "wb", 0), os.fdopen(read_here, "rb", 0)
        self.rest, self.number, self.events = b"", 0, []

    def receive(self):
        while b"\0" not in self.rest:
            part = self.into.read(1 << 16)
            if not part:
                raise SystemExit("Chromium ended by itself")
            self.rest += part
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, session=None, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        self.out.write(json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise SystemExit(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def wait_for(self, method):
        while not any(event.get("method") == method for event in self.events):
            self.events.append(self.receive())


def look(browser, page, width, scheme, shots, texts):
    """Renders a page and yields its problems."""
    target = browser.call("Target.createTarget", url="about:blank")["targetId"]
    session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
    for domain in ["Page", "Runtime", "Log", "Network"]:
        browser.call(f"{domain}.enable", session)
    browser.call("Emulation.setDeviceMetricsOverride", session, width=width, height=900, deviceScaleFactor=1, mobile=width < 600)
    browser.call("Emulation.setEmulatedMedia", session, features=[{"name": "prefers-color-scheme", "value": scheme}])
    browser.events.clear()
    url = page.resolve().as_uri()
    browser.call("Page.navigate", session, url=url)
    browser.wait_for("Page.loadEventFired")
    result = browser.call("Runtime.evaluate", session, expression=PROBE, returnByValue=True)
    seen = result["result"].get("value")
    for event in browser.events:
        params = event.get("params", {})
        if event.get("method") == "Runtime.exceptionThrown":
            yield params["exceptionDetails"].get("exception", {}).get("description", "an exception")
        elif event.get("method") == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
            yield f"console: {[arg.get('value') for arg in params['args']]}"
        elif event.get("method") == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            yield f"log: {params['entry']['text']}"
        elif event.get("method") == "Network.requestWillBeSent" and not params["request"]["url"].startswith((url, "data:", "file:")):
            yield f"requests from the network {params['request']['url']}"
    if seen is None:
        yield f"could not be inspected: {result}"
        return
    if seen["scroll"] > seen["wide"]:
        yield f"{seen['scroll']} px wide in a window of {seen['wide']}"
    for element in seen["found"]:
        yield f"beyond the window: {element}"
    if seen["empty"]:
        yield f"{seen['empty']} empty figures"
    for word in ("NaN", "undefined", "Infinity", "[object"):
        if word in seen["text"]:
            yield f"the text contains {word}"
    # innerText does not include text in drawings.
    for text in texts:
        if text not in seen["text"] + seen["drawn"]:
            yield f"does not show {text!r}"
    dark = sum(int(part) for part in seen["back"].strip("rgba()").split(",")[:3]) < 384
    if dark != (scheme == "dark"):
        yield f"background {seen['back']} in {scheme} mode"
    print(f"{page.name} {width} {scheme}: {seen['figures']} figures")
    if shots:
        metrics = browser.call("Page.getLayoutMetrics", session)["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": width, "height": metrics["height"], "scale": 1}
        data = browser.call("Page.captureScreenshot", session, captureBeyondViewport=True, clip=clip)["data"]
        (shots / f"{page.stem}-{width}-{scheme}.png").write_bytes(base64.b64decode(data))
    browser.call("Target.closeTarget", targetId=target)


def main():
    args, shots, texts = sys.argv[1:], None, []
    while args[:1] in (["--shots"], ["--shows"]):
        if args[0] == "--shows":
            texts.append(args[1])
        else:
            shots = pathlib.Path(args[1])
            shots.mkdir(parents=True, exist_ok=True)
        args = args[2:]
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if not program or not args:
        raise SystemExit("check.py: needs Chromium and a page")
    wrong = 0
    with tempfile.TemporaryDirectory() as home:
        browser = Browser(program, home)
        try:
            for page in map(pathlib.Path, args):
                for width in WIDTHS:
                    for scheme in SCHEMES:
                        for problem in look(browser, page, width, scheme, shots, texts):
                            print(f"{page} at {width} px, {scheme}: {problem}", file=sys.stderr)
                            wrong += 1
            browser.call("Browser.close")
            browser.process.wait(20)
        finally:
            browser.process.kill()
            browser.process.wait()
    raise SystemExit(1 if wrong else 0)


main()
