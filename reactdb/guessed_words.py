"""Guessed words: the names that users of other databases type first, and what to write here instead.

    db.create_collection   AttributeError: a database has no `create_collection`: write db.table_create("todos")
    todos.find             AttributeError: a table has no `find`: write filter(...) ...
    t.changes(include_inital=True)
                           InvalidOption: changes() has no option `include_inital`: the nearest is `include_initial`

To add a word, add a line to a table below. If a word becomes a real name of its class, remove its line: Python calls
`__getattr__` only for missing names, so the line has no effect any more.

Rule of this file: it is imported when a name or an option is wrong, and never before. It makes errors, and does not
raise them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from reactdb.errors import InvalidOption, TableNotFound, format_value

Words = Mapping[str, str]


def several(names: str, instead: str) -> dict[str, str]:
    """The same answer for each of some names."""
    return dict.fromkeys(names.split(), instead)


FIND: Final = (
    'write filter(row["score"] > 10), filter(done=True) or get(key); then .run(), .first() or a loop reads it'
)
WATCH: Final = "write changes().subscribe(callback), or `for change in table.changes():`"
UPSERT: Final = "write upsert(document): it merges by key; to replace the whole document, insert(document, conflict='replace')"
TRANSACTION: Final = "write `with db.transaction():`; inside another one it is a savepoint"

SELECTION: Final[Words] = {
    **several("find find_all search query select_where scan where filter_by find_by", FIND),
    **several("find_one get_first find_first", 'write filter(row["score"] > 10).first(), or get(key).run()'),
    **several("get_or_none one_or_none scalar_one_or_none", "write first(): a document or None"),
    **several(
        "get_or_create", "write first(), and insert(...) where it is None, in one `with db.transaction():`"
    ),
    **several(
        "all fetch fetchall fetch_all to_list tolist list rows read execute get_documents collect load",
        "write run(): the list",
    ),
    **several("fetchone fetch_one scalar single", "write first(), or one() where there must be exactly one"),
    **several("is_empty empty any", "write exists(): True or False"),
    **several("len length size count_documents estimated_document_count", "write count().run()"),
    **several(
        "sort sort_by sorted orderBy order orderby sort_values",
        'write order_by("score"), or order_by(desc("score"))',
    ),
    **several("reverse reversed desc", 'write order_by(desc("score"))'),
    **several("head take top first_n", "write limit(n)"),
    **several("tail last", 'write order_by(desc("id")).limit(n), or [-1] for the last one'),
    **several("offset drop_first", "write skip(n)"),
    **several("slice iloc", "write [start:stop]"),
    **several(
        "select only values values_list fields project projection columns get_field",
        'write pluck("id", "name"), or ["name"] for the values of one field',
    ),
    **several("exclude defer omit drop_columns", 'write without("password")'),
    **several("group_by groupby groupBy", 'write group("team").count()'),
    **several("mean average", 'write avg("score")'),
    **several("unique drop_duplicates", 'write distinct("team")'),
    **several("insert_one create add put_item append push post", "write insert(document)"),
    **several(
        "insert_all insert_multiple bulk_create bulk_insert add_all bulk_write executemany",
        "write insert_many(documents), or insert(documents)",
    ),
    **several(
        "save put set set_item setdefault store write update_or_create insert_or_replace replace_into update_or_insert",
        UPSERT,
    ),
    **several("update_one update_by_id", 'write get(key).update({"score": 5})'),
    **several("update_many update_all update_where bulk_update", 'write filter(...).update({"score": 5})'),
    **several("replace_one find_one_and_replace", "write get(key).replace(document)"),
    **several(
        "find_one_and_update find_one_and_delete",
        "write get(key).update(patch, return_changes=True), or get(key).delete(return_changes=True)",
    ),
    **several("increment incr inc", 'write update({"n": row["n"] + 1})'),
    **several("remove delete_one delete_by_id discard pop", "write get(key).delete()"),
    **several("delete_many delete_where delete_all remove_all", "write filter(...).delete()"),
    **several(
        "truncate clear empty_table flush", "write delete(): it deletes every document of the selection"
    ),
    **several("drop drop_table", 'write db.table_drop("todos")'),
    **several("rename rename_table", 'write db.table_rename("todos", "tasks")'),
    **several("create_index ensure_index add_index", 'write index_create("score")'),
    **several("create_unique_index", 'write index_create("email", unique=True)'),
    **several("expire expire_after ttl set_ttl", 'write set_expiry(timedelta(hours=1), "at")'),
    **several("drop_index remove_index", 'write index_drop("score")'),
    **several("indexes list_indexes index_information get_indexes", "write index_list()"),
    **several(
        "watch subscribe on_change on on_snapshot onSnapshot listen observe_changes signal signals stream feed follow",
        WATCH,
    ),
    **several("to_df to_dataframe df", "write to_pandas(), to_polars() or to_arrow()"),
    **several(
        "join inner_join eq_join left_join lookup",
        "there are no joins: get the documents of the other table with get_all(*keys), in one `with db.transaction():`",
    ),
    **several(
        "describe info stats",
        "write explain() for the way a selection is read, and db.stats() for figures of the file",
    ),
    **several("agg annotate", 'write aggregate(n=r.count(), total=r.sum("score")), also after group("team")'),
    **several("undo undo_stack", "write db.undo_stack(): it is of all tables"),
    **several("observe", 'write db.observe(lambda db: db["todos"].count().run()), or live()'),
    **several("for_each forEach each", "write a loop over the selection, or changes().subscribe(callback)"),
    **several("like ilike contains matches regex", 'write filter(row["name"].match("(?i)^a"))'),
    **several(
        "session query_set objects", "a selection is used directly: filter(...), get(key), insert(document)"
    ),
    **several("commit", "each write is a commit; for several writes in one, `with db.transaction():`"),
    **several("database db", "keep the database from reactdb.connect(path) in a variable"),
}

TABLE_ONLY: Final[Words] = several(
    "table collection", "this is the table already: filter(...), get(key), insert(document)"
)

DATABASE: Final[Words] = {
    **several(
        "tables table_names list_tables collections list_collection_names collection_names keys",
        "write table_list(), or `for name in db`",
    ),
    **several("has_table table_exists", 'write "todos" in db'),
    **several("create_table create_collection make_table add_table", 'write table_create("todos")'),
    **several("get_table get_collection collection open_table", 'write db["todos"], or db.table("todos")'),
    **several("drop_table drop_collection delete_table remove_table drop", 'write table_drop("todos")'),
    **several("rename_table rename_collection rename", 'write table_rename("todos", "tasks")'),
    **several(
        "drop_database delete_database delete remove destroy",
        "write reactdb.delete_database(path), when it is closed",
    ),
    **several("truncate purge clear", 'write db["todos"].delete() for each table'),
    **several(
        "atomic begin begin_nested savepoint start_transaction start_session transact batch write session",
        TRANSACTION,
    ),
    **several(
        "commit rollback",
        "each write is a commit; `with db.transaction():` makes one of several, and an exception in it rolls it back",
    ),
    **several(
        "watch subscribe on_change on listen stream feed signals",
        'write db.changes().subscribe(callback) for all tables, or db["todos"].changes()',
    ),
    **several(
        "execute query sql run cursor", 'there is no SQL: write db["todos"].filter(row["score"] > 10).run()'
    ),
    **several(
        "insert insert_one insert_many save put add", 'a table takes documents: db["todos"].insert(document)'
    ),
    **several(
        "find get filter select find_one",
        'a table has documents: db["todos"].filter(done=True), db["todos"].get(key)',
    ),
    **several(
        "history oplog audit events", "write log(): every change, oldest first; or table.get(key).history()"
    ),
    **several("snapshot as_of time_travel", "write at(seq): the database as of that change"),
    **several("vacuum", "write compact(keep, vacuum=True)"),
    **several("undo redo", 'write stack = db.undo_stack(origin="ui"), then stack.undo() or stack.redo()'),
    **several("dump export save_as backup_to", "write backup(path)"),
    **several("migration migrations upgrade", "write migrate([first_step, second_step])"),
    **several("disconnect dispose shutdown quit", "write close(), or `with reactdb.connect(path) as db:`"),
    **several("connect open reconnect", "a database is open already; reactdb.connect(path) opens one"),
    **several("create_index", 'write db["todos"].index_create("score")'),
    **several("info status health", "write stats()"),
    **several("retain", "write set_retention(retention)"),
    **several("hold_changes", "write hold(changes)"),
    **several("undo redo", "write stack = db.undo_stack(); then stack.undo() and stack.redo()"),
    **several(
        "live", 'a selection is followed: db["todos"].live(), or db.observe(function) for several reads'
    ),
    **several("transaction_origin writer", "write connect(path, origin=name), or transaction(origin=name)"),
    **several("queue", "write consumer(name, table): a durable position, with acknowledgements"),
}

FEED: Final[Words] = {
    **several(
        "listen on on_change on_next add_listener watch observe connect start",
        "write subscribe(callback), or `for change in feed:`",
    ),
    **several(
        "unsubscribe stop close cancel dispose",
        "subscribe(...) returns an object with dispose(); a cursor has close()",
    ),
    **several("next get poll read", "write `with feed.cursor() as cursor:` and cursor.next(timeout=1)"),
    **several("sort order orderby", "an order belongs before changes(): order_by(...).limit(n).changes()"),
    **several("where find", 'write filter(row["new_val"]["score"] > 10)'),
    **several("select", 'write pluck("new_val")'),
    **several("live to_list", "live() belongs before changes(): selection.live()"),
    **several("by_commit batches", "write changes(batches=True)"),
    **several("tells_a_whole_list", "write is_list"),
    **several(
        "include_initial include_types squash since", "this is an option: changes(include_initial=True, ...)"
    ),
    **several("position seq offset", "write token: it is the position, for since="),
}

EXPRESSION: Final[Words] = {
    **several("in_ isin one_of in_list any_of", "write is_in([1, 2, 3])"),
    **several("starts_with startsWith", 'write startswith("text")'),
    **several("ends_with endsWith", 'write endswith("text")'),
    **several("includes has", 'write contains("text"), or contains(value) for a list'),
    **several(
        "like ilike regex regexp search matches icontains", 'write match("(?i)text"): a regular expression'
    ),
    **several("to_upper toupper uppercase", "write upper()"),
    **several("to_lower tolower lowercase casefold", "write lower()"),
    **several("length size", "write len()"),
    **several("is_null isnull is_none isna", 'write ~row.has_fields("field")'),
    **several("exists is_not_null notnull not_null notna", 'write row.has_fields("field")'),
    **several("equals equal", "write eq(value), or =="),
    **several("not_equals", "write ne(value), or !="),
    **several("desc descending", 'write desc("field"), with `from reactdb import desc`'),
    **several("asc ascending", 'write asc("field"), with `from reactdb import asc`'),
    **several("between", 'write (row["field"] >= low) & (row["field"] < high)'),
    **several("push add_to_list", "write append(value)"),
    **several("mean", "write avg()"),
    **several("get", 'write row["field"].default(value)'),
    **several("if_else when where iff case", "write branch(test, value, otherwise)"),
    **several("absolute", "write abs()"),
    **several("replace strip concat", "write a Python function: update(lambda document: {...})"),
    **several("cast astype", 'write coerce_to("number")'),
    **several("run", "an expression is computed for each document: filter(...).run(), map(...).run()"),
}

MODULE: Final[Words] = {
    **several("remove delete drop_database", "write reactdb.delete_database(path)"),
    **several("open create Client Connection DB Store load connect_db", "write reactdb.connect(path)"),
    **several("MongoClient pymongo", "write reactdb.mongodb(db)"),
    **several("TinyDB", "write reactdb.connect(path)"),
    **several("RethinkDB", "write reactdb.rethinkdb(db)"),
    **several(
        "Document Model Field Schema",
        "a document is a dict; for a type of your own, db.table(name, type=Todo)",
    ),
    **several(
        "AsyncClient AsyncConnection AsyncMongoClient async_connect connect_async",
        "write await reactdb.aconnect(path)",
    ),
    **several("Query where F Q col field", 'write row["field"], with `from reactdb import row`'),
    **several(
        "filter find insert select execute",
        'this is a method of a table: reactdb.connect(path)["todos"]',
    ),
    **several("now", "write reactdb.r.now()"),
    **several("ASCENDING", 'write reactdb.asc("field")'),
    **several("DESCENDING", 'write reactdb.desc("field")'),
    **several("set_aside", "write dead_letters: the key of db.consumers()"),
    **several("Consumer DurableConsumer", "write db.consumer(name, table)"),
    **several("dumps loads", "write reactdb.json.dumps(value) and reactdb.json.loads(text)"),
    **several(
        "count sum avg", 'write reactdb.r.count() and so on in aggregate(n=r.count(), total=r.sum("score"))'
    ),
    **several("live observe", "write db.observe(function), or selection.live()"),
    **several(
        "min max", "write minval and maxval for the ends of between(...), and table.min(field) for a document"
    ),
}

LIVE: Final[Words] = {
    **several(
        "on_change on_update watch listen on observe add_listener onSnapshot", "write subscribe(callback)"
    ),
    **several(
        "unsubscribe stop dispose cancel disconnect",
        "write close(); what subscribe(...) returns has dispose()",
    ),
    **several(
        "refresh reload update_now fetch run execute", "it is current already, after each commit: read it"
    ),
    **several("loading is_loading ready is_ready status", 'write state == "loading"'),
    **several(
        "on_error on_state on_completed", "this is an option: subscribe(callback, on_error=..., on_state=...)"
    ),
    **several("errors exception failure", "write error"),
    **several(
        "insert upsert update delete",
        'a live result only shows: write to the table, db["todos"].insert(document)',
    ),
}

LIVE_LIST: Final[Words] = {
    **LIVE,
    **several(
        "value items data rows result results to_list documents",
        "it is a list: use list(live), live[0] or len(live)",
    ),
    **several(
        "append remove pop clear extend",
        'a live result only shows: write to the table, db["todos"].insert(document)',
    ),
    **several(
        "filter find where order_by sort limit map",
        "follow another selection: live.selection = todos.filter(done=True)",
    ),
    **several("first get", "write live[0], where it is not empty"),
}

LIVE_VALUE: Final[Words] = {
    **LIVE,
    **several("data result get current latest", "write value"),
}

# For a selection that is no table.
OF_TABLES: Final = several(
    "upsert insert insert_many index_create index_drop index_list index_wait set_expiry",
    'this is a method of a table: write db["todos"] and its name',
)

KINDS: Final[Mapping[str, tuple[str, Words]]] = {
    "database": ("a database", DATABASE),
    "table": ("a table", {**SELECTION, **TABLE_ONLY}),
    "selection": ("a selection", {**SELECTION, **OF_TABLES}),
    "document": ("the selection of one document", {**SELECTION, **OF_TABLES}),
    "feed": ("a feed", FEED),
    "live list": ("a LiveList", LIVE_LIST),
    "live value": ("a LiveValue", LIVE_VALUE),
    "observation": ("an Observation", LIVE_VALUE),
    "expression": ("an expression", EXPRESSION),
    "module": ("module 'reactdb'", MODULE),
}
"""Kinds of owners: their name in a sentence, and their words."""

DESCENDING: Final = 'write order_by(desc("score")), with `from reactdb import desc`'

OPTIONS: Final[Mapping[str, Words]] = {
    "order_by": {
        **several("reverse descending desc", DESCENDING),
        **several(
            "ascending asc direction order", f"ascending is the default; for the other direction {DESCENDING}"
        ),
        **several("by key field", 'write order_by("score")'),
        **several("limit", "write order_by(...).limit(n)"),
    },
    "insert": {
        **several(
            "upsert replace overwrite on_conflict",
            "write upsert(document), or insert(document, conflict='replace')",
        ),
        **several("ignore", "write insert(document, conflict=lambda key, old, new: old)"),
    },
    "update": {
        **several("upsert", "write table.upsert(document)"),
        **several("where", "write table.filter(...).update(patch)"),
    },
    "delete": {**several("where", "write table.filter(...).delete()")},
    "changes": {
        **several("initial snapshot", "write changes(include_initial=True)"),
        **several("from_seq start after resume_after start_after", "write changes(since=token)"),
        **several("debounce throttle interval", "write changes(squash=seconds)"),
        **several("callback on_next", "write changes().subscribe(callback)"),
        **several("batch", "write changes(batches=True)"),
    },
    "table_create": {
        **several("type schema model", "write table_create(name), and then db.table(name, type=...)"),
        **several("if_not_exists", "write table_create(name, exist_ok=True)"),
        **several("pk key id", "write table_create(name, primary_key=field)"),
    },
    "connect": {
        **several("readonly mode", "write connect(path, read_only=True)"),
        **several("timeout", "write connect(path, busy_timeout=seconds)"),
        **several("host port", "reactdb has no server to connect to: connect(path) opens a file"),
    },
    "min": {**several("field key by", 'write min("score")')},
    "max": {**several("field key by", 'write max("score")')},
    "subscribe": {**several("callback on_event", "write subscribe(callback)")},
}
"""For a method, wrong options and what to write."""

POSITIONALS: Final[Words] = {
    "count": 'count() counts the selection: write filter(row["score"] > 10).count().run()',
    "first": "first() takes no condition: write filter(...).first()",
    "one": "one() takes no condition: write filter(...).one()",
    "exists": "exists() takes no condition: write filter(...).exists()",
    "aggregate": 'aggregates have names: write aggregate(n=r.count(), total=r.sum("score"))',
    "delete": "delete() takes no condition: write get(key).delete(), or filter(...).delete()",
    "update": "update takes one patch: write get(key).update(patch), or filter(...).update(patch)",
    "replace": "replace takes one document: write get(key).replace(document)",
    "insert": "insert takes one document or a list: write insert([first, second])",
    "upsert": "upsert takes one document or a list: write upsert([first, second])",
    "limit": "limit takes one number: write skip(n).limit(m), or [n:n + m]",
    "changes": "the options of changes() have names: write changes(include_initial=True)",
}
"""For a method, the answer to too many arguments."""

DOCUMENT_METHODS: Final = {
    "insert": "document",
    "upsert": "document",
    "replace": "document",
    "update": "patch",
}


def missing_name(owner: object, kind: str, name: str, names: Iterable[str] = ()) -> AttributeError:
    """The error for a name that `owner` does not have.

    Args:
        kind: One of KINDS.
        names: The names that it has, of which the nearest is shown; nothing is shown for a name with `_` before it.
    """
    title, words = KINDS[kind]
    plain = f"{type(owner).__name__!r} object has no attribute {name!r}"
    if name.startswith("_"):
        return AttributeError(plain, name=name, obj=owner)
    instead = words.get(name) or nearest(name, names)
    if instead is None and kind == "expression":
        instead = f"write [{name!r}] for a field of that name"
    # Without `obj`, because Python would look for a near name once more, and would show its own guess after ours.
    return AttributeError(f"{title} has no `{name}`: {instead}" if instead else plain, name=name)


def nearest(name: str, names: Iterable[str]) -> str | None:
    """A phrase with the public name that is most like a wrong one; None where none is like it."""
    # Imported here because only mistakes need it.
    from difflib import get_close_matches

    known = [one for one in names if not one.startswith("_")]
    found = get_close_matches(name, known, 1, 0.7)
    return f"the nearest is `{found[0]}`" if found else None


def missing_table(name: str, names: Iterable[str], advice: str = "") -> TableNotFound:
    """The error for a table that none of some files has.

    Args:
        names: The tables that they have, of which the nearest is shown.
        advice: A further sentence, shown if no name is near.
    """
    near = nearest(name, names)
    return TableNotFound(
        name, f" {advice}" if advice and near is None else "" if near is None else f" T{near[1:]}."
    )


def wrong_call(
    name: str, parameters: list[str], given: int, options: Mapping[str, Any], sentence: str
) -> InvalidOption:
    """The error for arguments that a method does not take.

    Args:
        name: The method's.
        parameters: The names of its parameters.
        given: How many arguments had no name.
        options: Those that had one.
        sentence: Python's sentence, for all other mistakes.
    """
    unknown = {word: value for word, value in options.items() if word not in parameters}
    if not unknown:
        return InvalidOption(POSITIONALS.get(name, sentence) if given > 0 else sentence)
    word = next(iter(unknown))
    instead = OPTIONS.get(name, {}).get(word)
    if instead is None and name in DOCUMENT_METHODS and not given:
        return InvalidOption(
            f"{name} takes a {DOCUMENT_METHODS[name]}, as a dict: write {name}({format_value(unknown, 200)})"
        )
    if instead is None:
        instead = nearest(word, parameters) or f"it has {', '.join(parameters) or 'none'}"
    return InvalidOption(f"{name}() has no option `{word}`: {instead}")
