"""A to-do list that is the same in every tab, at once. The page comes back by itself after the server was killed.

Run: python examples/fastapi_live_page/program.py, and open http://127.0.0.1:8000 in two tabs.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

try:
    import uvicorn
    from fastapi import Body, FastAPI, Request, Response
    from fastapi.responses import FileResponse
except ImportError:
    sys.exit("This example needs FastAPI and uvicorn: python -m pip install fastapi uvicorn 'reactdb[web]'")

import reactdb
import reactdb.web

PAGE = Path(__file__).with_name("page.html")


def make_app(path: str) -> FastAPI:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with await reactdb.aconnect(path) as db:
            app.state.todos = await db.table_create("todos", exist_ok=True)
            yield

    app = FastAPI(lifespan=lifespan)

    @app.get("/")
    async def page() -> FileResponse:
        return FileResponse(PAGE)

    @app.get("/live")
    async def live(request: Request) -> Response:
        return reactdb.web.sse(app.state.todos, request)

    @app.post("/todos", status_code=201)
    async def add(text: str = Body(embed=True)) -> None:
        await app.state.todos.insert({"text": text, "done": False})

    @app.put("/todos/{key}")
    async def tick(key: str, done: bool = Body(embed=True)) -> None:
        await app.state.todos.get(key).update({"done": done})

    @app.delete("/todos/{key}")
    async def remove(key: str) -> None:
        await app.state.todos.get(key).delete()

    return app


if __name__ == "__main__":
    path, port = [*sys.argv[1:], *("todos.db", "8000")[len(sys.argv) - 1 :]]
    uvicorn.run(make_app(path), port=int(port), log_level="warning")
