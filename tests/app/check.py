#!/usr/bin/env python3
"""Tries the MCP App in a real browser: check.py BINARY [FOLDER]

Starts a longhaul with server.toml, serves host.html, which shows the app in a frame and passes its calls on, and has headless
Chromium open each scenario of it. Pictures of the ends of scenarios go to FOLDER. Needs Python 3.10 and chromium, nothing else.
"""

import http.client
import http.server
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import urllib.parse

HERE = pathlib.Path(__file__).resolve().parent
UI = "io.modelcontextprotocol/ui"
APP_TYPE = "text/html;profile=mcp-app"
SCENARIOS = [
    ("running", "light"),
    ("running", "dark"),
    ("completed", "light"),
    ("completed", "dark"),
    ("asking", "dark"),
    ("asked", "light"),
    ("declined", "dark"),
    ("failed", "light"),
    ("retried", "dark"),
    ("canceled", "light"),
    ("long", "light"),
    ("ended", "light"),
]
# What a host gives a view that asks for no domains.
CSP = (
    "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; media-src 'self' data:; connect-src 'none'; frame-ancestors 'self'"
)


class Session:
    """An MCP session of 2025-11-25 whose client can show apps, or cannot."""

    def __init__(self, address, shows_apps):
        self.address, self.id, self.last = address, None, 0
        extensions = {UI: {"mimeTypes": [APP_TYPE]}} if shows_apps else {}
        capabilities = {"extensions": extensions}
        info = {"name": "host", "version": "1"}
        self.opened = self.ask(
            "initialize", {"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": info}
        )["result"]

    def ask(self, method, params):
        self.last += 1
        body = json.dumps({"jsonrpc": "2.0", "id": self.last, "method": method, "params": params})
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        if self.id:
            headers["Mcp-Session-Id"] = self.id
        connection = http.client.HTTPConnection(self.address, timeout=60)
        connection.request("POST", "/mcp", body, headers)
        answer = connection.getresponse()
        text = answer.read().decode()
        self.id = self.id or answer.getheader("Mcp-Session-Id")
        connection.close()
        if answer.getheader("Content-Type", "").startswith("text/event-stream"):
            text = [line[6:] for line in text.splitlines() if line.startswith("data: {")][-1]
        return json.loads(text)


class Host(http.server.ThreadingHTTPServer):
    """Serves the host page, and waits for its report."""

    daemon_threads = True

    def __init__(self, session, view):
        super().__init__(("127.0.0.1", 0), Handler)
        self.session, self.view, self.lock = session, view, threading.Lock()
        self.begin()

    def begin(self):
        self.report, self.reported = None, threading.Event()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        path = urllib.parse.urlparse(self.path).path
        if path == "/":
            self.answer((HERE / "host.html").read_bytes(), "text/html; charset=utf-8")
        elif path == "/view":
            self.answer(self.server.view.encode(), "text/html; charset=utf-8", CSP)
        elif path == "/hold":
            self.server.reported.wait(60)
            self.answer(b"", "image/png")
        else:
            self.send_error(404)

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/call":
            with self.server.lock:
                message = self.server.session.ask("tools/call", body)
            self.answer(json.dumps({key: message[key] for key in ("result", "error") if key in message}).encode())
        else:
            self.server.report = body
            self.server.reported.set()
            self.answer(b"{}")

    def answer(self, body, kind="application/json", csp=None):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if csp:
            self.send_header("Content-Security-Policy", csp)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def check(is_so, what):
    if not is_so:
        raise AssertionError(what)


def check_lists(plain, shown):
    """Only a client that shows apps hears of them."""
    names = lambda session: {tool["name"]: tool for tool in session.ask("tools/list", {})["result"]["tools"]}
    without, with_app = names(plain), names(shown)
    check(set(with_app) - set(without) == {"view_job", "answer_question", "retry_job"}, "the app's own tools are for clients that show it")
    check(not any("_meta" in tool for tool in without.values()), "others hear of no app")
    tool = with_app["bake_a_cake"]["_meta"]
    check(tool["ui"]["resourceUri"] == tool["ui/resourceUri"] == "ui://longhaul/job", "its jobs have a view")
    check(with_app["view_job"]["_meta"]["ui"]["visibility"] == ["app"], "the model does not see the app's tools")
    check(UI in shown.opened["capabilities"]["extensions"], "the server offers apps")


def open_page(browser, url, picture, profile):
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
    command += ["--hide-scrollbars", "--window-size=640,560", f"--user-data-dir={profile}", f"--screenshot={picture}", url]
    return subprocess.run(command, capture_output=True, timeout=90, text=True)


def run(binary, folder, scratch):
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    check(browser, "chromium is needed")
    log = open(scratch / "log", "w+")
    command = [binary, "serve", "--config", "server.toml", "--listen", "127.0.0.1:0", "--data-dir", scratch / "data"]
    server = subprocess.Popen(command, cwd=HERE, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        address = re.search(r"http://([0-9.:]+)", server.stdout.readline()).group(1)
        plain, shown = Session(address, False), Session(address, True)
        check_lists(plain, shown)
        contents = shown.ask("resources/read", {"uri": "ui://longhaul/job"})["result"]["contents"][0]
        check(contents["mimeType"] == APP_TYPE, "the view has the type that hosts ask for")
        host = Host(shown, contents["text"])
        threading.Thread(target=host.serve_forever, daemon=True).start()
        failures = []
        for scenario, theme in SCENARIOS:
            host.begin()
            query = urllib.parse.urlencode({"scenario": scenario, "theme": theme, "scratch": scratch})
            url = f"http://127.0.0.1:{host.server_address[1]}/?{query}"
            page = open_page(browser, url, folder / f"{scenario}-{theme}.png", scratch / "profile")
            failure = host.report["failure"] if host.report else f"no report: {page.stderr[-2000:]}"
            print(f"{'failed' if failure else 'passed'}  {scenario} {theme}{': ' + failure if failure else ''}")
            failures += [scenario] if failure else []
        host.shutdown()
        if failures:
            log.seek(0)
            print(log.read()[-4000:])
        return 1 if failures else 0
    finally:
        server.terminate()
        server.wait(30)


def main():
    binary = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else pathlib.Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        return run(binary, folder.resolve(), pathlib.Path(scratch))


if __name__ == "__main__":
    sys.exit(main())
