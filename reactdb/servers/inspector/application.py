"""InspectorApplication: the ASGI application of the inspector: `inspector(db)`.

    app.mount("/inspector", reactdb.servers.http.inspector(db))      inside of a Starlette or FastAPI program

Each request passes the gate before it is routed. Every answer, a refusal too, has the headers of `gate.HEADERS`.

Rule of this file: it puts the gate before HTTPApplication. The meaning of a path is in `routes`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from typing import Any, Final

from starlette.applications import Starlette
from starlette.types import Message, Receive, Scope, Send

from reactdb.database import Database, check_flag
from reactdb.servers.http.application import HTTPApplication, mountable
from reactdb.servers.http.limits import HTTPLimits
from reactdb.servers.http.request_parts import RequestRefused, parameters_of, parts_of
from reactdb.servers.inspector.gate import HEADERS, Gate, Refusal
from reactdb.servers.inspector.routes import READING, InspectorService, InspectorSpeaker
from reactdb.servers.inspector.row_pages import IDLE_S

__all__ = ["InspectorApplication", "inspector"]

LIMITS: Final = HTTPLimits(body_bytes=32 * 1024 * 1024, requests=4, feeds=100, request_s=30.0)


def inspector(
    db: Database,
    *,
    write: bool = False,
    token: str | None = None,
    hosts: Iterable[str] = (),
    origins: Iterable[str] = (),
) -> Starlette:
    """A page that shows the database at work, as an ASGI application: tables, documents, the log, feeds, and every moment of the
    past. It works under any path, and sends no request to another server.

    Without a token everybody who reaches the application sees all data: mount it where the program asks for a login.

    Args:
        db: The application does not close it.
        write: Documents can be edited, with the origin "inspector", and edits undone. False: no request writes.
        token: A text that a browser gives once, as `./?token=T`, and then has as a cookie; programs send it as
            `Authorization: Bearer T`. It has at least 16 letters, digits and `_ . ~ -`. None: no login.
        hosts: The accepted names in the header `Host`, beside those of the loopback, such as `db.example.org`.
        origins: The origins under which the page itself is reached, where a proxy changes them, such as
            `https://db.example.org`.

    Raises:
        InvalidOption: An option is wrong.
        MissingExtra: The packages of the extra `server` are not installed.
    """
    return mountable(InspectorApplication(db, write=write, token=token, hosts=hosts, origins=origins))


class InspectorApplication(HTTPApplication):
    """See the head of this file."""

    def __init__(
        self,
        db: Database,
        *,
        write: bool = False,
        token: str | None = None,
        hosts: Iterable[str] = (),
        origins: Iterable[str] = (),
        **options: Any,
    ) -> None:
        """`options`: `limits` and `workers` of HTTPApplication; the others: see `inspector`."""
        check_flag("write", write)
        self._gate = Gate(token, hosts, origins)
        self._service = InspectorService(db, can_write=write)
        options.setdefault("limits", LIMITS)
        self._sweep: asyncio.TimerHandle | None = None
        super().__init__(InspectorSpeaker(self._service), origins=(), hosts=("*",), **options)

    def make_one_time_token(self) -> str:
        """A token for one login: see Gate."""
        return self._gate.make_one_time_token()

    def close(self) -> None:
        if self._sweep is not None:
            self._sweep.cancel()
        super().close()
        self._service.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            # Before it is accepted: the browser sees that it failed.
            await receive()
            await send({"type": "websocket.close", "code": 1008})
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                others = [
                    one for one in message["headers"] if one[0].decode("latin-1").lower() not in HEADERS
                ]
                message["headers"] = [
                    *others,
                    *((name.encode(), value.encode()) for name, value in HEADERS.items()),
                ]
            await send(message)

        refusal = self._admit(scope)
        if refusal is None:
            self._sweep_later()
            await super().__call__(scope, receive, send_with_headers)
        elif isinstance(refusal, Refusal):
            body = json.dumps({"error": refusal.sentence}, ensure_ascii=False).encode()
            await answer(send_with_headers, refusal.status, body, {"content-type": "application/json"})
        else:
            await answer(send_with_headers, 303, b"", refusal)

    def _sweep_later(self) -> None:
        """Some time after the last request, end each live list whose rows no page requests."""
        if self._sweep is not None:
            self._sweep.cancel()
        self._sweep = asyncio.get_running_loop().call_later(
            IDLE_S + 1.0, self._workers.submit, self._service.rows.end_idle
        )

    def _admit(self, scope: Scope) -> Refusal | dict[str, str] | None:
        """What is wrong with the request; or the headers of a redirect to the page, with its cookie; or None."""
        headers: dict[str, list[str]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
        gate, scheme = self._gate, scope.get("scheme", "http")
        refusal = gate.check_page(scheme, headers)
        if refusal is not None:
            return refusal
        mounted_at = scope.get("root_path", "").rstrip("/")
        try:
            # The same parts that the router uses.
            parts = parts_of(scope.get("raw_path") or scope["path"].encode(), mounted_at)
            parameters = parameters_of(scope.get("query_string", b""))
        except RequestRefused as refused:
            return Refusal(refused.status, refused.sentence)
        cookie = gate.cookie_name(headers["host"][0], mounted_at)
        if not parts and scope["method"] in READING and gate.has_token:
            given = [value for name, value in parameters if name == "token"]
            # A program's server may log the URL.
            scope["query_string"] = b""
            if len(given) == 1 and gate.use_token(given[0]):
                return {"set-cookie": gate.cookie(cookie, mounted_at, scheme == "https"), "location": "./"}
        is_data = len(parts) > 1 or (len(parts) == 1 and parts[0] == "api")
        is_write = scope["method"] not in READING
        return gate.check_user(headers, cookie, is_data=is_data, is_write=is_write)


async def answer(send: Send, status: int, body: bytes, headers: dict[str, str]) -> None:
    headers = {**headers, "content-length": str(len(body))}
    raw = [(name.encode(), value.encode("latin-1", "replace")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": body, "more_body": False})
