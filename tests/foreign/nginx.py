"""Case 15: nginx, with the buffering it does by default and gzip, in front of the event stream.

Usage: nginx.py URL, where URL is the server's, without a path, and `nginx` is installed. The first event must come within
a second, and each of the others within a second of its own time. Exits non-zero on the first thing that is not as promised.
"""

import contextlib
import datetime
import http.client
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
import zlib

LATE = 1.0
"""Seconds after which an event counts as held back."""

CONFIGURATION = """
worker_processes 1;
pid {dir}/pid;
error_log {dir}/error.log;
{user}
events {{ }}
http {{
    access_log off;
    client_body_temp_path {dir}/body;
    proxy_temp_path {dir}/proxy;
    fastcgi_temp_path {dir}/fastcgi;
    uwsgi_temp_path {dir}/uwsgi;
    scgi_temp_path {dir}/scgi;
    gzip on;
    gzip_proxied any;
    {gzip_types}
    server {{
        listen 127.0.0.1:{port};
        location / {{ proxy_pass {upstream}; proxy_set_header Host {host}; proxy_http_version 1.1; }}
    }}
}}
"""


def expect(holds: object, what: object) -> None:
    """Unlike `assert`, also under `python -O`."""
    if not holds:
        raise SystemExit(f"not as promised: {what}")


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


@contextlib.contextmanager
def nginx(upstream: str, gzip_types: str):
    """An nginx of our own before the server; yields its port."""
    port = free_port()
    with tempfile.TemporaryDirectory() as name:
        file = pathlib.Path(name, "nginx.conf")
        user = "user root;" if os.geteuid() == 0 else ""
        host = urllib.parse.urlsplit(upstream).netloc
        file.write_text(
            CONFIGURATION.format(dir=name, user=user, port=port, upstream=upstream, host=host, gzip_types=gzip_types)
        )
        process = subprocess.Popen(["nginx", "-p", name, "-c", str(file), "-e", f"{name}/error.log", "-g", "daemon off;"])
        try:
            until = time.monotonic() + 10
            while True:
                expect(process.poll() is None and time.monotonic() < until, "nginx starts")
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                    break
                time.sleep(0.02)
            yield port
        finally:
            process.terminate()
            process.wait()


def submit(port: int) -> str:
    """Starts the demo; its job's id."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    payload = {"recipientProfile": "a friend behind a proxy", "budget": 50}
    body = json.dumps({"type": "deep_gift_analysis", "payload": payload})
    connection.request("POST", "/api/jobs", body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    text = answer.read()
    expect(answer.status == 201, text)
    connection.close()
    return json.loads(text)["id"]


def pieces(answer: http.client.HTTPResponse):
    """The body as it comes, each piece at once, unzipped if the proxy zipped it."""
    unzip = zlib.decompressobj(wbits=31) if answer.headers.get("Content-Encoding") == "gzip" else None
    while piece := answer.read1(65536):
        yield unzip.decompress(piece) if unzip else piece


def events(port: int, path: str):
    """Each event of the stream with the moment at which it was whole."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", path, headers={"Accept": "text/event-stream", "Accept-Encoding": "gzip"})
    answer = connection.getresponse()
    expect(answer.status == 200, answer.status)
    expect(answer.headers["Content-Type"].startswith("text/event-stream"), answer.headers["Content-Type"])
    expect("no-transform" in answer.headers["Cache-Control"], answer.headers["Cache-Control"])
    text = b""
    for piece in pieces(answer):
        text += piece
        while b"\n\n" in text:
            frame, text = text.split(b"\n\n", 1)
            data = [line[5:].strip() for line in frame.split(b"\n") if line.startswith(b"data:")]
            if data:
                yield json.loads(b"".join(data)), time.time()
    connection.close()


def check(upstream: str, gzip_types: str) -> None:
    with nginx(upstream, gzip_types) as port:
        begin = time.time()
        job = submit(port)
        lags, last = [], None
        for event, came in events(port, f"/api/jobs/{job}/events"):
            if not lags:
                expect(came - begin < LATE, f"the first event came after {came - begin:.2f} s")
            decided = datetime.datetime.fromisoformat(event["timestamp"]).timestamp()
            lags.append(came - decided)
            expect(lags[-1] < LATE, f"{event['type']} came {lags[-1]:.2f} s after it happened")
            last = event["type"]
        expect(last == "job.completed", last)
        expect(len(lags) >= 8, f"{len(lags)} events")
        print(f"nginx ({gzip_types or 'gzip as it is by default'}): {len(lags)} events, the latest by {max(lags):.3f} s")


def main() -> None:
    upstream = sys.argv[1].rstrip("/")
    check(upstream, "")
    check(upstream, "gzip_types text/event-stream;")


main()
