"""A program for RethinkDB's driver alone, running without RethinkDB: only the line that connects differs.

With a server it would say `connection = r.connect("localhost", 28015)`.

Run: python examples/rethinkdb_chat/main.py
"""

from __future__ import annotations

from typing import Any

import reactdb

try:
    import rethinkdb
except ImportError:
    raise SystemExit(
        "This example needs RethinkDB's driver: pip install 'reactdb[rethinkdb]',"
        " or in a checkout: python -m pip install -e '.[rethinkdb]'"
    ) from None

r = rethinkdb.RethinkDB()


def prepare(connection: Any) -> None:
    r.table_create("messages").run(connection)
    r.table("messages").index_create("sent").run(connection)
    r.table("messages").index_wait().run(connection)


def say(connection: Any, number: int, room: str, text: str) -> None:
    r.table("messages").insert({"id": number, "room": room, "text": text, "sent": number}).run(connection)


def main() -> None:
    with reactdb.connect(":memory:") as db:
        connection = reactdb.rethinkdb(db)  # the one line

        prepare(connection)
        say(connection, 1, "lobby", "hello")
        room = r.table("messages").filter({"room": "lobby"}).changes(include_initial=True).run(connection)
        newest = r.table("messages").order_by(index=r.desc("sent")).limit(2).changes().run(connection)
        say(connection, 2, "kitchen", "who took my cup?")
        say(connection, 3, "lobby", "anybody there?")

        for _ in range(2):
            print("lobby: ", room.next(wait=1)["new_val"]["text"])
        for _ in range(2):
            change = newest.next(wait=1)
            left = change["old_val"]["text"] if change["old_val"] else "nothing"
            print(f"newest: {change['new_val']['text']!r} came, {left!r} went")
        connection.close()

        # The same table, natively.
        print("native:", db.table("messages").count().run(), "messages")


if __name__ == "__main__":
    main()
