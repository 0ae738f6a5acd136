"""Follow a question: be told whenever its answer changes, on the thread that changes it.

Run: python examples/follow_a_table/main.py
"""

from __future__ import annotations

from typing import Any

import reactdb
from reactdb import row


def tell(event: dict[str, Any]) -> None:
    old, new = event["old_val"], event["new_val"]
    if old is None:
        print(f"  {new['name']} came in, {new['degrees']} degrees")
    elif new is None:
        print(f"  {old['name']} is fine again")
    else:
        print(f"  {new['name']}: {old['degrees']} -> {new['degrees']} degrees")


with reactdb.connect(":memory:") as db:
    rooms = db.table_create("rooms")
    rooms.insert([{"id": 1, "name": "cellar", "degrees": 14}, {"id": 2, "name": "attic", "degrees": 24}])

    # The feed is of the answer, not of the table: a room that becomes too warm comes in, one that cools down goes out.
    rooms.filter(row["degrees"] > 25).changes().subscribe(tell)

    print("It gets warmer.")
    rooms.update({"degrees": row["degrees"] + 2})
    print("And warmer, in the attic.")
    rooms.get(2).update({"degrees": 31})
    print("Somebody opens a window.")
    rooms.get(2).update({"degrees": 22})
