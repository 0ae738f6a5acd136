"""The server of a collection of TanStack DB: one stream, and three routes that write.

Run: python examples/tanstack_db/program.py
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

try:
    import uvicorn
    from fastapi import FastAPI, Request, Response
    from fastapi.staticfiles import StaticFiles
except ImportError:
    sys.exit("This example needs FastAPI and uvicorn: python -m pip install fastapi uvicorn 'reactdb[web]'")

import reactdb
import reactdb.web


def make_app(path: str, pages: Path) -> FastAPI:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with await reactdb.aconnect(path) as db:
            app.state.todos = await db.table_create("todos", exist_ok=True)
            yield

    app = FastAPI(lifespan=lifespan)

    @app.get("/live")
    async def live(request: Request) -> Response:
        return reactdb.web.sse(app.state.todos, request)

    @app.post("/todos")
    async def add(todo: dict[str, Any]) -> dict[str, bool]:
        return {"changed": (await app.state.todos.insert(todo))["inserted"] == 1}

    @app.put("/todos/{key}")
    async def change(key: str, fields: dict[str, Any]) -> dict[str, bool]:
        return {"changed": (await app.state.todos.get(key).update(fields))["replaced"] == 1}

    @app.delete("/todos/{key}")
    async def remove(key: str) -> dict[str, bool]:
        return {"changed": (await app.state.todos.get(key).delete())["deleted"] == 1}

    app.mount("/", StaticFiles(directory=pages, html=True))
    return app


if __name__ == "__main__":
    path, port, pages = [
        *sys.argv[1:],
        *("todos.db", "8000", str(Path(__file__).parent))[len(sys.argv) - 1 :],
    ]
    uvicorn.run(make_app(path, Path(pages)), port=int(port), log_level="warning")
