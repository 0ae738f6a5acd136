"""`python -m benchmarks.couchdb_over_http`: CouchDB's HTTP interface, as its clients see it, beside pouchdb-server's.

    edits               of one document after the other, each acknowledged before the next
    bulk_docs           10,000 new documents in requests of 1,000
    lists               _changes, with and without documents, _bulk_get and _all_docs of 10,000
    pull, push          10,000 documents by PouchDB, 100 at a time, with its memory adapter in Node
    latency             from before a write until a long poll has its row
    listeners           an edit while 100 and 10,000 long polls, and continuous feeds, wait for other documents or values
    stalled             memory for clients that ask for everything and read nothing

Of a pull it says how long PouchDB takes with answers that were recorded: no server can be faster than that. Each server is a
process of its own; "CPU" is what all of its threads have used. The servers take turns, and what is printed is the median.

PouchDB's packages: `npm ci` in tests/pouchdb. pouchdb-server, which keeps its documents in memory here: `npm install -g
pouchdb-server`, or `--pouchdb-server PATH`. What is missing is left out with a message.

Rule of this file: it prints, and checks that the work was done.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Final

from benchmarks.machine import describe, line

ROUNDS: Final = 5
POUCHDB: Final = Path(__file__).resolve().parent.parent / "tests" / "pouchdb"
HEADERS: Final = {"Content-Type": "application/json", "Accept": "application/json"}
TICKS: Final = os.sysconf("SC_CLK_TCK")
REPLICATE: Final = """
const PouchDB = require("./pouch.js");
const lines = require("readline").createInterface({input: process.stdin});
lines.on("line", async text => {
  const {from, to} = JSON.parse(text);
  const local = new PouchDB("m" + Math.random(), {adapter: "memory"});
  if (to) for (let i = 0; i < 10000; i += 1000) await local.bulkDocs(Array.from({length: 1000}, (_, n) =>
    ({_id: "k" + String(i + n).padStart(6, "0"), name: "a name", n: i + n, tags: ["a", "b"], at: {x: 1.5}})));
  await local.info();
  const cpu = process.cpuUsage(), begin = process.hrtime.bigint();
  const done = await (from ? local.replicate.from(from) : local.replicate.to(to));
  const wall = Number(process.hrtime.bigint() - begin) / 1e9, spent = process.cpuUsage(cpu);
  console.log(JSON.stringify({wall, cpu: (spent.user + spent.system) / 1e6, count: done.docs_written}));
  await local.destroy();
});
"""


@dataclass
class Server:
    name: str
    port: int
    pid: int

    def ask(self, method: str, path: str, body: Any = None, connection: HTTPConnection | None = None) -> Any:
        used = connection or HTTPConnection("127.0.0.1", self.port, timeout=600)
        used.request(method, path, None if body is None else json.dumps(body), HEADERS)
        answer = used.getresponse()
        data = answer.read()
        if connection is None:
            used.close()
        if answer.status >= 300:
            raise SystemExit(f"{self.name}: {method} {path}: {answer.status} {data[:200]!r}")
        return json.loads(data)

    def cpu_s(self) -> float:
        """What all threads of the process have used."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def memory_mb(self) -> float:
        status = Path(f"/proc/{self.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+)", status)
        assert found is not None
        return int(found[1]) / 1e3


def document(number: int) -> dict[str, Any]:
    return {"_id": f"k{number:06d}", "name": "a name", "n": number, "tags": ["a", "b"], "at": {"x": 1.5}}


# ---------------------------------------------------------------------------------------------------------------
# Servers


@contextmanager
def started(name: str, command: list[str], pattern: str, folder: Path) -> Iterator[Server]:
    """A server, when it has said a line with the pattern, whose group is its port."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=folder) as process:
        assert process.stdout is not None
        try:
            for said in process.stdout:
                found = re.search(pattern, said)
                if found is not None:
                    yield Server(name, int(found[1]), process.pid)
                    return
            raise SystemExit(f"{name} has not started")
        finally:
            process.terminate()


def ours(folder: Path) -> Any:
    # `-P` is not given: the package of this working copy is served.
    command = [
        *(sys.executable, "-m", "reactdb.cli", "serve", str(folder / "bench.db"), "--couchdb"),
        *("--http-port", "0", "--durability", "soft", "--max-connections", "30000", "--max-streams", "30000"),
    ]
    return started("reactdb", command, r":(\d+)/", Path.cwd())


def theirs(program: str, folder: Path) -> Any:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    inside = folder / "pouchdb-server"
    inside.mkdir()
    return started("pouchdb-server", [program, "--port", str(port), "--in-memory"], r":(\d+)/\s*$", inside)


def recorded(server: Server) -> Any:
    command = [sys.executable, "-m", "benchmarks.recorded_answers", str(server.port)]
    return started("recorded answers", command, r"(\d+)", Path.cwd())


# ---------------------------------------------------------------------------------------------------------------
# What is measured


def in_turns(
    servers: Iterable[Server], work: Callable[[Server, int], object], count: int, rounds: int = ROUNDS
) -> None:
    """Print per unit of work wall and CPU time of each, and how many there are in a second."""
    taken: dict[str, list[tuple[float, float]]] = {server.name: [] for server in servers}
    for number in range(rounds):
        for server in servers:
            cpu, begin = server.cpu_s(), time.perf_counter()
            work(server, number)
            taken[server.name].append((time.perf_counter() - begin, server.cpu_s() - cpu))
    for name, times in taken.items():
        wall, cpu = (statistics.median(one) / count for one in zip(*times, strict=True))
        print(f"  {name:<44} {1 / wall:10,.0f} a second {cpu * 1e6:10.1f} µs CPU of the server each")


def edits(servers: list[Server], count: int) -> None:
    print("edits, each in a request of its own, by the revisions before")
    for before in (10, 1_000):
        revs = {}
        for server in servers:
            server.ask("PUT", f"/edits-{before}")
            rev = server.ask("PUT", f"/edits-{before}/a", {"n": 0})["rev"]
            for number in range(before):
                rev = server.ask("PUT", f"/edits-{before}/a", {"_rev": rev, "n": number})["rev"]
            revs[server.name] = rev

        def edit(server: Server, _: int, before: int = before, revs: dict[str, str] = revs) -> None:
            connection = HTTPConnection("127.0.0.1", server.port)
            for number in range(count):
                body = {"_rev": revs[server.name], "n": number}
                revs[server.name] = server.ask("PUT", f"/edits-{before}/a", body, connection)["rev"]
            connection.close()

        print(f" {before:,}")
        in_turns(servers, edit, count)


def bulk(servers: list[Server], count: int) -> None:
    print(f"bulk_docs of {count:,}")

    def write(server: Server, number: int) -> None:
        name = "/bulk" if number == 0 else f"/bulk-{number}"
        server.ask("PUT", name)
        for start in range(0, count, 1_000):
            docs = [document(one) for one in range(start, min(start + 1_000, count))]
            rows = server.ask("POST", f"{name}/_bulk_docs", {"docs": docs})
            if not all("rev" in row for row in rows):
                raise SystemExit(f"{server.name}: documents were not written")

    in_turns(servers, write, count, rounds=3)


def lists(servers: list[Server], count: int) -> None:
    print(f"lists of {count:,}")
    revs = {
        server.name: [
            {"id": row["id"], "rev": row["value"]["rev"]}
            for row in server.ask("GET", "/bulk/_all_docs")["rows"]
        ]
        for server in servers
    }

    def pages(server: Server, _: int) -> None:
        for start in range(0, count, 100):
            docs = revs[server.name][start : start + 100]
            server.ask("POST", "/bulk/_bulk_get?revs=true&latest=true", {"docs": docs})

    def listing(path: str) -> Callable[[Server, int], None]:
        def read(server: Server, _: int) -> None:
            found = server.ask("GET", path)
            if len(found.get("results", found.get("rows"))) != count:
                raise SystemExit(f"{server.name}: {path} is not complete")

        return read

    works: dict[str, Callable[[Server, int], None]] = {
        "_changes": listing("/bulk/_changes"),
        "_changes with documents": listing("/bulk/_changes?include_docs=true"),
        "_all_docs with documents": listing("/bulk/_all_docs?include_docs=true"),
        "_bulk_get, 100 at a time": pages,
    }
    for name, work in works.items():
        print(f" {name}")
        in_turns(servers, work, count)


def replications(servers: list[Server], count: int) -> None:
    if shutil.which("node") is None or not (POUCHDB / "node_modules" / "pouchdb-core").exists():
        print("pull, push: left out, because Node or PouchDB is missing: `npm ci` in tests/pouchdb")
        return
    with recorded(servers[0]) as replay:
        print(f"pull of {count:,} by PouchDB")
        _replicate(
            [*servers, replay], lambda server, _: {"from": f"http://127.0.0.1:{server.port}/bulk"}, count
        )
    print("push of 10,000 by PouchDB")
    for server in servers:
        for number in range(ROUNDS + 1):
            server.ask("PUT", f"/push-{number}")
    _replicate(
        servers, lambda server, number: {"to": f"http://127.0.0.1:{server.port}/push-{number}"}, 10_000
    )


def _replicate(servers: list[Server], job: Callable[[Server, int], dict[str, str]], count: int) -> None:
    with subprocess.Popen(
        ["node", "-e", REPLICATE], cwd=POUCHDB, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as node:
        assert node.stdin is not None
        assert node.stdout is not None
        taken: dict[str, list[tuple[float, float, float]]] = {server.name: [] for server in servers}
        for number in range(ROUNDS + 1):
            for server in servers:
                cpu = server.cpu_s()
                node.stdin.write(json.dumps(job(server, number)) + "\n")
                node.stdin.flush()
                done = json.loads(node.stdout.readline())
                if done["count"] != count:
                    raise SystemExit(f"{server.name}: only {done['count']} documents were replicated")
                if number:
                    # The first round warms up.
                    taken[server.name].append((done["wall"], done["cpu"], server.cpu_s() - cpu))
        node.kill()
    for name, times in taken.items():
        wall, client, cpu = (statistics.median(one) for one in zip(*times, strict=True))
        print(f"  {name:<44} {wall:6.2f} s; CPU of PouchDB {client:5.2f} s, of the server {cpu:5.2f} s")


# ---------------------------------------------------------------------------------------------------------------
# Waiting


def opened(server: Server, path: str, body: Any = None) -> socket.socket:
    """A connection on which a feed was asked for."""
    found = socket.create_connection(("127.0.0.1", server.port))
    data = b"" if body is None else json.dumps(body).encode()
    method = "GET" if body is None else "POST"
    found.sendall(
        f"{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n".encode()
        + data
    )
    return found


def latency(servers: list[Server], count: int) -> None:
    print("from a write to the row of a long poll")
    for server in servers:
        server.ask("PUT", "/polls")
        since = server.ask("GET", "/polls/_changes")["last_seq"]
        connection = HTTPConnection("127.0.0.1", server.port)
        times = []
        for number in range(count):
            feed = opened(server, f"/polls/_changes?feed=longpoll&since={since}&heartbeat=60000")
            # Until it waits.
            time.sleep(0.01)
            begin = time.perf_counter()
            server.ask("PUT", f"/polls/a{number}", {}, connection)
            received = b""
            while b'"last_seq"' not in received:
                received += feed.recv(65_536)
                if b'"id"' in received and len(times) == number:
                    times.append((time.perf_counter() - begin) * 1e3)
            found = re.search(rb'"last_seq":"?([^",}]+)', received)
            assert found is not None
            since = found[1].decode()
            feed.close()
        times.sort()
        print(f"  {server.name:<44} p50 {times[count // 2]:6.2f} ms, p99 {times[count * 99 // 100]:6.2f} ms")


def listeners(server: Server, sizes: tuple[int, int], count: int) -> None:
    print("an edit while others wait, CPU of the server")
    feeds = {
        "long polls of other documents": ("longpoll", "_doc_ids", lambda n: {"doc_ids": [f"other-{n}"]}),
        "feeds of other documents": ("continuous", "_doc_ids", lambda n: {"doc_ids": [f"other-{n}"]}),
        "long polls of other values": ("longpoll", "_selector", lambda n: {"selector": {"room": f"r{n}"}}),
        "feeds of other values": ("continuous", "_selector", lambda n: {"selector": {"room": f"r{n}"}}),
    }
    for place, (name, (kind, filter, body)) in enumerate(feeds.items()):
        with ExitStack() as stack:
            path, held = f"/waiting-{place}", 0
            server.ask("PUT", path)
            rev = server.ask("PUT", f"{path}/a", {"room": "mine"})["rev"]
            for size in sizes:
                query = f"feed={kind}&filter={filter}&since=now&heartbeat=60000"
                while held < size:
                    some = [
                        stack.enter_context(opened(server, f"{path}/_changes?{query}", body(held + one)))
                        for one in range(min(100, size - held))
                    ]
                    held += len(some)
                    for feed in some:
                        feed.recv(4_096)
                spent = []
                # After the others: one that is not used is closed by the server after some seconds.
                connection = HTTPConnection("127.0.0.1", server.port)
                for _ in range(ROUNDS):
                    cpu = server.cpu_s()
                    for _ in range(count):
                        rev = server.ask("PUT", f"{path}/a", {"_rev": rev, "room": "mine"}, connection)["rev"]
                    spent.append((server.cpu_s() - cpu) / count * 1e6)
                connection.close()
                print(f"  {size:6,} {name:<37} {statistics.median(spent):8.0f} µs an edit")


def stalled(server: Server, count: int, documents: int) -> None:
    print(f"{documents:,} documents of 2 kB for clients that read nothing: memory of the server")
    server.ask("PUT", "/stalled")
    for start in range(0, documents, 1_000):
        docs = [{"_id": f"s{start + one}", "text": "x" * 2_000} for one in range(1_000)]
        server.ask("POST", "/stalled/_bulk_docs", {"docs": docs})
    for kind in ("normal", "continuous"):
        before = server.memory_mb()
        with ExitStack() as stack:
            path = f"/stalled/_changes?feed={kind}&include_docs=true&heartbeat=60000"
            for _ in range(count):
                stack.enter_context(opened(server, path))
            seen = -1.0
            while seen != (seen := server.cpu_s()):
                time.sleep(1)
            print(f"  {count:,} {kind:<38} {server.memory_mb() - before:8.1f} MB more")


def more_files() -> int:
    """How many connections there may be at a time, as far as that can be raised."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.couchdb_over_http", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--quick", action="store_true", help="a hundredth of the size: not a measurement")
    parser.add_argument("--pouchdb-server", metavar="PATH", default=shutil.which("pouchdb-server"))
    parser.add_argument("--only", metavar="NAME", nargs="+", help="such as: edits pull latency")
    options = parser.parse_args()
    part = 100 if options.quick else 1
    count = 10_000 // part
    names = ["edits", "bulk_docs", "lists", "pull", "latency", "listeners", "stalled"]
    wanted = [name for name in names if options.only is None or name in options.only]
    files = more_files()
    waiting = min(count, files - 500)
    print(line(describe()))
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        servers = [stack.enter_context(ours(Path(name)))]
        if options.pouchdb_server is None:
            print(
                "pouchdb-server is left out, because it is not there: `npm install -g pouchdb-server`, or --pouchdb-server PATH"
            )
        else:
            servers.append(stack.enter_context(theirs(options.pouchdb_server, Path(name))))
        works: dict[str, Callable[[], None]] = {
            "edits": lambda: edits(servers, 500 // part),
            "bulk_docs": lambda: bulk(servers, count),
            "lists": lambda: lists(servers, count),
            "pull": lambda: replications(servers, count),
            "latency": lambda: latency(servers, 500 // part),
            "listeners": lambda: listeners(servers[0], (max(1, waiting // 100), waiting), 500 // part),
            "stalled": lambda: stalled(servers[0], 1_000 // part, 5_000 // min(part, 5)),
        }
        if {"lists", "pull"} & set(wanted) and "bulk_docs" not in wanted:
            wanted.insert(0, "bulk_docs")
        for wish in wanted:
            works[wish]()


if __name__ == "__main__":
    main()
