"""The undo stack: steps, groups, conflicts, lost history, and what a button hears."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import reactdb
from reactdb import Conflict, HistoryLost, InvalidOption, UsageError, row
from reactdb.errors import DatabaseClosed
from reactdb.session import session_of


@pytest.fixture
def db(tmp_path: Path) -> Any:
    with reactdb.connect(tmp_path / "undo.db", durability="soft", origin="ui") as database:
        yield database


@pytest.fixture
def todos(db: reactdb.Database) -> reactdb.Table:
    return db.table_create("todos")


def write_as(db: reactdb.Database, origin: str, write: Any) -> None:
    with db.transaction(origin=origin):
        write()


class TestSteps:
    def test_an_undo_is_one_commit_with_an_origin_of_its_own(self, db, todos):
        stack = db.undo_stack()
        todos.insert([{"id": 1, "done": False}, {"id": 2, "done": False}])
        todos.update({"done": True})
        assert {"label": None, "restored": 2, "skipped": []} == stack.undo()
        assert [False, False] == todos.order_by().map(row["done"]).run()
        entries = list(db.log())[-2:]
        assert [("ui:undo", entries[0].seq)] * 2 == [(entry.origin, entry.commit) for entry in entries]
        stack.redo()
        assert [True, True] == todos.order_by().map(row["done"]).run()
        assert list(db.log())[-1].origin == "ui:redo"

    def test_undo_without_a_step_does_nothing(self, db, todos):
        stack = db.undo_stack()
        seq = db.seq
        assert (stack.undo(), stack.redo(), db.seq) == (None, None, seq)

    def test_an_undone_delete_brings_the_document_back_with_its_bytes(self, db, todos):
        todos.insert({"id": 1, "b": 1, "a": [2.0, {"deep": None}]})
        stack = db.undo_stack()
        todos.get(1).delete()
        stack.undo()
        assert str({"id": 1, "b": 1, "a": [2.0, {"deep": None}]}) == str(todos.get(1).run())

    def test_commits_before_the_stack_and_of_other_origins_are_no_steps(self, db, todos):
        todos.insert({"id": 1})
        stack = db.undo_stack()
        write_as(db, "import", lambda: todos.insert({"id": 2}))
        assert not stack.can_undo
        assert stack.undo() is None

    def test_a_new_step_ends_the_redo_and_the_write_of_another_origin_does_not(self, db, todos):
        stack = db.undo_stack()
        todos.insert({"id": 1})
        stack.undo()
        write_as(db, "import", lambda: todos.insert({"id": 2}))
        assert stack.can_redo
        todos.insert({"id": 3})
        assert not stack.can_redo

    def test_the_steps_of_another_process_with_the_same_origin_count(self, db, todos):
        stack = db.undo_stack()
        with reactdb.connect(db.path, origin="ui") as other:
            other.table("todos").insert({"id": 1})
        stack.undo()
        assert todos.run() == []

    def test_beyond_the_limit_the_oldest_step_is_forgotten(self, db, todos):
        stack = db.undo_stack(limit=2)
        for number in range(4):
            todos.insert({"id": number})
        while stack.can_undo:
            stack.undo()
        assert todos.order_by().map(row["id"]).run() == [0, 1]

    def test_a_thousand_undos_and_redos_keep_the_number_of_steps(self, db, todos):
        stack = db.undo_stack()
        todos.insert({"id": 1})
        todos.get(1).update({"a": 1})
        for _ in range(200):
            stack.undo()
            stack.redo()
        assert len(stack) == 2
        assert todos.run() == [{"id": 1, "a": 1}]
        stack.undo()
        stack.undo()
        assert todos.run() == []

    def test_clear_forgets_all_steps(self, db, todos):
        stack = db.undo_stack()
        todos.insert({"id": 1})
        stack.clear()
        assert stack.undo() is None

    def test_feeds_that_skip_the_origin_hear_of_the_undo(self, db, todos):
        stack = db.undo_stack()
        events = []
        todos.changes(skip_origin="ui").subscribe(events.append)
        todos.insert({"id": 1})
        stack.undo()
        assert events == [{"old_val": {"id": 1}, "new_val": None}]

    def test_tables_that_follow_others_are_no_part_of_a_step(self, db, todos):
        todos.insert({"id": 1, "points": 2})
        with db.materialize(todos.sum("points"), into="total"):
            stack = db.undo_stack()
            todos.get(1).update({"points": 5})
            stack.undo()
            assert db.table("total").run()[0]["sum"] == 2
            assert not stack.can_undo

    def test_a_table_that_was_dropped_is_a_conflict_that_names_it(self, db, todos):
        stack = db.undo_stack()
        todos.insert({"id": 1})
        db.table_drop("todos")
        with pytest.raises(Conflict, match="todos/1"):
            stack.undo()
        assert stack.undo(skip_conflicts=True) == {
            "label": None, "restored": 0, "skipped": [{"table": "todos", "key": 1}],
        }  # fmt: skip


class TestGroups:
    def test_the_commits_of_a_group_are_one_step_with_its_label(self, db, todos):
        stack = db.undo_stack()
        with stack.group("Add three"):
            for number in range(3):
                todos.insert({"id": number})
        assert stack.undo_label == "Add three"
        assert stack.undo()["label"] == "Add three"
        assert todos.run() == []
        assert (stack.undo_label, stack.redo_label) == (None, "Add three")

    def test_a_group_inside_a_group_belongs_to_the_outer_one(self, db, todos):
        stack = db.undo_stack()
        with stack.group("outer"):
            todos.insert({"id": 1})
            with stack.group("inner"):
                todos.insert({"id": 2})
            todos.insert({"id": 3})
        stack.undo()
        assert todos.run() == []

    def test_an_empty_group_is_no_step(self, db, todos):
        stack = db.undo_stack()
        with stack.group("nothing"):
            pass
        assert not stack.can_undo

    def test_a_group_that_raises_keeps_the_commits_before_the_error_as_a_step(self, db, todos):
        stack = db.undo_stack()
        with pytest.raises(ValueError, match="late"), stack.group("half"):
            todos.insert({"id": 1})
            raise ValueError("late")
        stack.undo()
        assert todos.run() == []

    def test_a_group_is_split_at_the_write_of_another_origin_to_its_document(self, db, todos):
        stack = db.undo_stack()
        with stack.group("Drag"):
            todos.insert({"id": 1, "x": 0})
            write_as(db, "sync", lambda: todos.get(1).update({"x": 5}))
            todos.get(1).update({"x": 6})
        stack.undo()
        assert todos.run() == [{"id": 1, "x": 5}]
        with pytest.raises(Conflict):
            stack.undo()
        assert todos.run() == [{"id": 1, "x": 5}]


class TestConflicts:
    def test_the_write_of_another_origin_is_not_taken_back(self, db, todos):
        todos.insert([{"id": 1, "x": 0}, {"id": 2, "x": 0}])
        stack = db.undo_stack()
        todos.update({"x": 1})
        write_as(db, "sync", lambda: todos.get(1).update({"x": 2}))
        seq = db.seq
        with pytest.raises(Conflict) as error:
            stack.undo()
        assert str(error.value) == (
            "undo: changed by another writer since: todos/1; nothing was written; undo(skip_conflicts=True) leaves it out"
        )
        assert error.value.documents == [{"table": "todos", "key": 1, "document": {"id": 1, "x": 2}}]
        assert (db.seq, stack.can_undo) == (seq, True)
        assert stack.undo(skip_conflicts=True)["skipped"] == [{"table": "todos", "key": 1}]
        assert todos.order_by().run() == [{"id": 1, "x": 2}, {"id": 2, "x": 0}]

    def test_a_value_that_came_back_by_another_origin_is_that_origins(self, db, todos):
        todos.insert({"id": 1, "x": 0})
        stack = db.undo_stack()
        todos.update({"x": 1})
        write_as(db, "sync", lambda: todos.update({"x": 2}))
        write_as(db, "sync", lambda: todos.update({"x": 1}))
        with pytest.raises(Conflict):
            stack.undo()

    def test_an_insert_over_a_deleted_document_is_not_taken_back(self, db, todos):
        todos.insert({"id": 1, "x": 0})
        stack = db.undo_stack()
        todos.get(1).delete()
        write_as(db, "sync", lambda: todos.insert({"id": 1, "x": 9}))
        with pytest.raises(Conflict):
            stack.undo()
        assert todos.run() == [{"id": 1, "x": 9}]

    def test_of_two_stacks_that_undo_the_same_step_one_does(self, db, todos):
        first, second = db.undo_stack(), db.undo_stack()
        todos.insert({"id": 1})
        first.undo()
        with pytest.raises(Conflict):
            second.undo()

    def test_a_value_that_another_document_has_by_now_is_a_conflict(self, db, todos):
        todos.index_create("email", unique=True)
        todos.insert([{"id": 1, "email": "a"}, {"id": 2, "email": "b"}])
        stack = db.undo_stack()
        with stack.group("both"):
            todos.get(1).update({"email": "new"})
            todos.get(2).update({"email": "newer"})
        write_as(db, "sync", lambda: todos.insert({"id": 3, "email": "a"}))
        with pytest.raises(
            Conflict, match="undo: another document has its value of a unique index: todos/1;"
        ):
            stack.undo()
        assert todos.get(2).run()["email"] == "newer"
        assert stack.undo(skip_conflicts=True)["skipped"] == [{"table": "todos", "key": 1}]
        assert todos.order_by().map(row["email"]).run() == ["new", "b", "a"]
        assert not stack.can_undo

    def test_a_swap_under_a_unique_index_is_undone_and_redone(self, db, todos):
        todos.index_create("place", unique=True)
        todos.insert([{"id": 1, "place": 1}, {"id": 2, "place": 2}])
        stack = db.undo_stack()
        with db.transaction():
            todos.get(1).update({"place": 2})
            todos.get(2).update({"place": 1})
        stack.undo()
        assert todos.order_by().map(row["place"]).run() == [1, 2]
        stack.redo()
        assert todos.order_by().map(row["place"]).run() == [2, 1]

    def test_inside_a_transaction_it_is_refused(self, db, todos):
        stack = db.undo_stack()
        todos.insert({"id": 1})
        with db.transaction() as transaction:
            with pytest.raises(UsageError, match="cannot be part of a transaction"):
                stack.undo()
            with pytest.raises(UsageError, match="longer than a transaction"):
                transaction.undo_stack()
        assert stack.can_undo

    def test_a_look_that_began_before_an_undo_does_not_take_it_for_lost(self, tmp_path, monkeypatch):
        with reactdb.connect(tmp_path / "look.db", origin="ui") as db:
            todos = db.table_create("todos")
            stack = db.undo_stack()
            todos.insert({"id": 1})
            engine = session_of(db).engine
            begin = engine.fresh_snapshot

            @contextmanager
            def begin_before_an_undo():
                with begin() as snapshot:
                    monkeypatch.undo()
                    undoing = threading.Thread(target=stack.undo)
                    undoing.start()
                    undoing.join()
                    yield snapshot

            monkeypatch.setattr(engine, "fresh_snapshot", begin_before_an_undo)
            stack.state()

            assert todos.count().run() == 0
            assert (stack.can_undo, stack.can_redo) == (False, True)
            stack.redo()
            assert todos.get(1).run() == {"id": 1}

    @pytest.mark.parametrize("is_memory", [False, True])
    def test_threads_that_undo_at_once_undo_one_step_each(self, tmp_path, is_memory):
        db = reactdb.connect(":memory:" if is_memory else tmp_path / "threads.db", origin="ui")
        todos = db.table_create("todos")
        stack = db.undo_stack()
        for number in range(20):
            todos.insert({"id": number})
        errors = []

        def work() -> None:
            try:
                for _ in range(5):
                    assert stack.can_undo
                    stack.undo()
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
        assert (todos.run(), stack.can_undo, len(list(db.log(table="todos")))) == ([], False, 40)
        db.close()

    def test_an_undo_that_fails_at_its_commit_leaves_the_step(self, db, todos, monkeypatch):
        stack = db.undo_stack()
        todos.insert({"id": 1})
        session = db._session
        transact = session.transact

        def fail(work: Any, **options: Any) -> Any:
            def one(transaction: Any) -> Any:
                work(transaction)
                raise OSError("no commit")

            return transact(one, **options)

        monkeypatch.setattr(session, "transact", fail)
        with pytest.raises(OSError, match="no commit"):
            stack.undo()
        monkeypatch.undo()
        assert (stack.can_undo, stack.can_redo) == (True, False)
        todos.insert({"id": 2})
        stack.undo()
        stack.undo()
        assert todos.run() == []


class TestLostHistory:
    def test_after_history_was_removed_the_stack_says_so(self, db, todos):
        stack = db.undo_stack()
        todos.insert({"id": 1, "x": 0})
        todos.update({"x": 1})
        assert stack.can_undo
        db.compact(keep=0)
        assert not stack.can_undo
        with pytest.raises(HistoryLost, match="undo: changes since seq"):
            stack.undo()
        assert isinstance(stack.error, HistoryLost)
        todos.update({"x": 2})
        assert stack.error is None
        stack.undo()
        assert todos.run() == [{"id": 1, "x": 1}]

    def test_commits_that_were_removed_before_the_stack_saw_them_are_lost(self, db, todos):
        stack = db.undo_stack()
        todos.insert({"id": 1, "x": 0})
        todos.update({"x": 1})
        db.compact(keep=0)
        with pytest.raises(HistoryLost):
            stack.undo()
        assert todos.run() == [{"id": 1, "x": 1}]


class TestSubscribers:
    def test_a_subscriber_hears_of_each_change_of_the_state_once(self, db, todos):
        stack = db.undo_stack()
        states = []
        end = stack.subscribe(lambda stack: states.append((stack.can_undo, stack.can_redo)))
        todos.insert({"id": 1})
        todos.insert({"id": 2})
        write_as(db, "sync", lambda: todos.insert({"id": 3}))
        stack.undo()
        stack.undo()
        stack.clear()
        assert states == [(True, False), (True, True), (False, True), (False, False)]
        end()
        todos.insert({"id": 4})
        assert len(states) == 4
        assert db.subscriptions() == []

    def test_a_subscriber_may_undo(self, db, todos):
        stack = db.undo_stack()
        stack.subscribe(lambda stack: stack.undo())
        todos.insert({"id": 1})
        assert todos.run() == []
        assert not stack.can_undo

    def test_an_async_function_is_refused(self, db, todos):
        async def draw(stack: reactdb.UndoStack) -> None:
            raise AssertionError("nobody awaits this")

        with pytest.raises(InvalidOption, match="async function, which nobody would await"):
            db.undo_stack().subscribe(draw)

    def test_an_exception_of_a_subscriber_is_logged(self, db, todos, caplog):
        stack = db.undo_stack()

        def fail(stack: Any) -> None:
            raise ValueError("no button")

        stack.subscribe(fail)
        todos.insert({"id": 1})
        assert "no button" in caplog.text
        assert stack.can_undo


class TestRefusals:
    def test_without_an_origin_there_is_no_stack(self):
        with reactdb.connect(":memory:") as db, pytest.raises(InvalidOption, match=r"undo_stack\(origin=\)"):
            db.undo_stack()

    @pytest.mark.parametrize("limit", [0, -1, True, 1.5, "many"])
    def test_a_limit_is_a_whole_number_from_1(self, db, limit):
        with pytest.raises(InvalidOption, match="limit is a whole number from 1"):
            db.undo_stack(limit=limit)

    def test_options_have_their_types(self, db):
        stack = db.undo_stack()
        with pytest.raises(InvalidOption, match="skip_conflicts"):
            stack.undo(skip_conflicts="yes")
        with pytest.raises(InvalidOption, match="label is a text"), stack.group(3):
            pass
        with pytest.raises(InvalidOption, match="callback is a function"):
            stack.subscribe("button")

    def test_after_close_it_says_so(self, tmp_path):
        db = reactdb.connect(tmp_path / "closed.db", origin="ui")
        stack = db.undo_stack()
        db.close()
        with pytest.raises(DatabaseClosed):
            stack.undo()
        with pytest.raises(DatabaseClosed):
            _ = stack.can_undo

    def test_the_past_has_none(self, db):
        with pytest.raises(AttributeError, match="the past"):
            db.at(0).undo_stack()


class TestExpect:
    """`update(patch, expect=)`, and of replace and delete."""

    def test_a_write_goes_through_while_the_document_is_as_expected(self, todos):
        todos.insert({"id": 1, "version": 3})
        assert todos.get(1).update({"version": 4}, expect={"version": 3})["replaced"] == 1
        assert todos.get(1).replace({"id": 1, "version": 5}, expect=row["version"] < 5)["replaced"] == 1
        assert todos.get(1).delete(expect={"version": 5})["deleted"] == 1

    @pytest.mark.parametrize("operation", ["update", "replace", "delete"])
    def test_another_version_is_a_conflict_and_nothing_is_written(self, db, todos, operation):
        todos.insert([{"id": 1, "version": 4}, {"id": 2, "version": 3}])
        seq = db.seq
        write = getattr(todos, operation)
        arguments = (
            [] if operation == "delete" else [{"id": 1, "version": 4} if operation == "replace" else {"a": 1}]
        )
        with pytest.raises(Conflict) as error:
            write(*arguments, expect={"version": 3})
        assert str(error.value) == f"{operation}: not as `expect` says: todos/1; nothing was written"
        assert error.value.documents == [{"table": "todos", "key": 1, "document": {"id": 1, "version": 4}}]
        assert db.seq == seq

    def test_a_missing_document_is_not_as_expected(self, todos):
        with pytest.raises(Conflict) as error:
            todos.get(7).update({"a": 1}, expect={})
        assert error.value.documents == [{"table": "todos", "key": 7, "document": None}]

    def test_one_of_several_writers_wins(self, db, todos):
        todos.insert({"id": 1, "version": 0, "by": None})
        wins = []

        def work(name: int) -> None:
            try:
                todos.get(1).update({"version": 1, "by": name}, expect={"version": 0})
                wins.append(name)
            except Conflict:
                pass

        threads = [threading.Thread(target=work, args=(name,)) for name in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [todos.get(1).run()["by"]] == wins

    @pytest.mark.parametrize("expect", [3, "version", True, len])
    def test_expect_is_a_dict_or_a_condition(self, todos, expect):
        with pytest.raises(InvalidOption, match="expect is a dict"):
            todos.update({"a": 1}, expect=expect)


def test_a_subscriber_whose_turn_comes_after_the_database_was_closed_is_not_called(caplog):
    class Later:
        """A scheduler whose thread has not had its turn yet."""

        def __init__(self):
            self.actions = []

        def schedule(self, action, state=None):
            self.actions.append(action)

    later, calls = Later(), []
    with reactdb.connect(":memory:", origin="ui") as db:
        todos = db.table_create("todos")
        db.undo_stack().subscribe(calls.append, scheduler=later)
        todos.insert({"id": 1})

    for action in later.actions:
        action(later, None)

    assert [] == calls
    assert "" == caplog.text
