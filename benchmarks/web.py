"""The dashboard under load: opening a record of 50,000 attempts, and 20 pages on one live run.

    python benchmarks/web.py [--steps 1000] [--pages 20] [--seconds 20]

Prints wall-clock time of each view of the long record, and CPU and memory of the server while the
pages follow a run that a process writes.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from skillopt.testing.records import LargeRecord

ROOT = Path(__file__).parents[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1000, help="of 50 attempts each")
    parser.add_argument("--pages", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=20.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        runs = Path(folder)
        LargeRecord(runs / "long", steps=options.steps).write()
        with serving(runs) as (port, pid):
            opening(port, pid, options.steps)
            following(port, pid, options.pages, options.seconds)


@contextmanager
def serving(runs: Path) -> Generator[tuple[int, int], None, None]:
    command = [sys.executable, "-m", "skillopt", "web", "--runs", str(runs), "--port", "0"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, cwd=runs, env=environment
    ) as process:
        port = 0
        for line in process.stderr or ():
            if found := re.search(r"dashboard: http://127.0.0.1:(\d+)/", line):
                port = int(found[1])
            if line.startswith("Ctrl-C"):
                break
        try:
            yield port, process.pid
        finally:
            process.send_signal(signal.SIGINT)


def get(port: int, path: str) -> tuple[float, bytes]:
    start = time.monotonic()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    connection.request("GET", path)
    body = connection.getresponse().read()
    connection.close()
    return time.monotonic() - start, body


def opening(port: int, pid: int, steps: int) -> None:
    """Each view of the long record, the first one from its file."""
    run = ""
    while not run:
        runs = json.loads(get(port, "/api/runs")[1])["runs"]
        run = next((each["id"] for each in runs), "")
    print(f"a record of {steps} steps and {steps * 50:,} attempts")
    before = cpu(pid)
    for name, path in (
        ("opened", ""),
        ("again", ""),
        ("a step", f"/steps/{steps // 2}"),
        ("skill", "/skill?name=best&against=initial"),
        ("items", "/items"),
        ("an attempt", "/attempts?task=v3&skill=best"),
        ("proposals", "/proposals"),
        ("log", "/log"),
    ):
        took, body = get(port, f"/api/runs/{run}{path}")
        print(f"  {name:<12} {took:6.2f} s  {len(body) / 1e3:9,.0f} kB")
    print(f"  CPU of the server {cpu(pid) - before:.1f} s, memory {memory(pid):.0f} MB")


def following(port: int, pid: int, pages: int, seconds: float) -> None:
    """Many streams on one run, which a simulated training writes."""
    session = json.loads(get(port, "/api/session")[1])
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    headers = {"x-skillopt": session["csrf"], "content-type": "application/json"}
    body = json.dumps({"kind": "simulated", "name": "live", "seed": "0"})
    connection.request("POST", "/api/launch", body, headers)
    run = json.loads(connection.getresponse().read())["id"]
    counts = [0] * pages
    ids: list[list[str]] = [[] for _ in range(pages)]
    end = time.monotonic() + seconds
    threads = [
        threading.Thread(target=follow, args=(port, run, end, counts, ids, page), daemon=True)
        for page in range(pages)
    ]
    before, start = cpu(pid), time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds + 20)
    took = time.monotonic() - start
    alike = len({tuple(each) for each in ids}) == 1
    print(f"{pages} pages on one live run for {took:.0f} s")
    print(f"  {sum(counts):,} events sent; every page got the same record: {alike}")
    print(f"  CPU of the server {cpu(pid) - before:.2f} s, memory {memory(pid):.0f} MB")


def follow(
    port: int, run: str, end: float, counts: list[int], ids: list[list[str]], page: int
) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request("GET", f"/api/stream?run={run}&after=0")
    response = connection.getresponse()
    while time.monotonic() < end and (line := response.readline()):
        counts[page] += line.startswith(b"event:")
        if line.startswith(b"id: "):
            ids[page].append(line[4:].decode().strip())
    connection.close()


def cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text("utf-8")
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    return int(found[1]) / 1e3 if found else 0.0


if __name__ == "__main__":
    main()
