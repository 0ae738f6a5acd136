"""The names that a program sees: one for each thing, and none that only our own code needs."""

from __future__ import annotations

import pytest

import reactdb

ERRORS = {name for name in reactdb.__all__ if name in reactdb.errors.__all__}


@pytest.mark.parametrize(
    ("owner", "gone"),
    [
        (reactdb, "remove"),
        (reactdb.Database, "retain"),
        (reactdb.Database, "hold_changes"),
        (reactdb.Database, "session"),
        (reactdb.Selection, "session"),
        (reactdb.Selection, "query"),
        (reactdb.Table, "session"),
        (reactdb.Feed, "by_commit"),
        (reactdb.Feed, "tells_a_whole_list"),
    ],
)
def test_a_thing_has_no_second_name(owner, gone):
    assert not hasattr(owner, gone)


def test_the_top_level_has_the_errors_that_programs_catch():
    assert {
        "Conflict",
        "CorruptDatabase",
        "DatabaseBusy",
        "DuplicateKey",
        "FeedOverflow",
        "HistoryDiverged",
        "HistoryLost",
        "InvalidDocument",
        "InvalidOption",
        "OutcomeUnknown",
        "ReactDBError",
        "TableNotFound",
        "TransactionOwned",
        "UnsupportedFeed",
        "UsageError",
    } == ERRORS


def test_retention_is_set_and_history_is_held(tmp_path):
    with reactdb.connect(tmp_path / "a.db", retention=100) as db:
        assert 100 == db.stats()["history"]["retention"]
        db.set_retention(50)
        db.hold(7)

        assert (50, 7) == (db.stats()["history"]["retention"], db.stats()["hold"])


def test_a_database_is_deleted_by_its_path(tmp_path):
    path = tmp_path / "a.db"
    reactdb.connect(path).close()

    reactdb.delete_database(path)

    assert [] == list(tmp_path.iterdir())


def test_a_feed_counts_what_it_has_delivered(games):
    feed = games.changes()
    feed.subscribe()
    games.insert({"id": 1})

    assert 1 == feed.stats()["delivered"]


def test_a_feed_says_whether_its_events_make_a_list(games):
    assert games.order_by("id").limit(3).changes(include_initial=True, include_offsets=True).is_list
    assert not games.changes().is_list


def test_a_user_completes_public_names_only() -> None:
    assert sorted(
        {*reactdb.__all__, "errors", "json", "notebook", "qt", "spark", "testing", "textual", "web"}
    ) == dir(reactdb)
