"""The rule of histories: whether a file still has a position that was read, and every change after it."""

from __future__ import annotations

import pytest

pytest.importorskip("pyarrow")

from reactdb.errors import HistoryDiverged, HistoryLost
from reactdb.lake.file_states import FileState, check_history, check_position
from reactdb.lake.parts import DatabasePosition
from reactdb.store.epochs import Epoch

# The log begins after seq 10. Epoch b has the changes 21 to 30, and c those after it.
EPOCHS = (Epoch("a", 0), Epoch("b", 20), Epoch("c", 30))
FILE = FileState("/data/a.db", "d", "c", 40, 10, 4_096, {}, EPOCHS)


def read_up_to(epoch: str, seq: int) -> DatabasePosition:
    return DatabasePosition("/data/a.db", epoch, seq)


@pytest.mark.parametrize(("epoch", "seq"), [("a", 10), ("a", 20), ("b", 20), ("b", 30), ("c", 30), ("c", 40)])
def test_a_position_in_the_history_is_kept(epoch: str, seq: int):
    check_position(FILE, read_up_to(epoch, seq))


@pytest.mark.parametrize(
    ("epoch", "seq", "words"),
    [
        ("a", 21, "/data/a.db was read up to seq 21, and its history went on from seq 20 without it"),
        ("c", 41, "/data/a.db was read up to seq 41, and ends at seq 40 now: an older copy"),
        ("b", 41, "/data/a.db was read up to seq 41, and ends at seq 40 now: an older copy"),
        (
            "x",
            35,
            "/data/a.db was read up to seq 35 in a part of its history (epoch x) that it does not have",
        ),
    ],
)
def test_a_position_outside_of_the_history_is_refused(epoch: str, seq: int, words: str):
    with pytest.raises(HistoryDiverged) as caught:
        check_position(FILE, read_up_to(epoch, seq))

    assert str(caught.value).startswith(words)


@pytest.mark.parametrize("epoch", ["a", "removed with its changes"])
def test_changes_that_compaction_has_removed_are_lost(epoch: str):
    with pytest.raises(HistoryLost, match=r"^/data/a\.db: changes since seq 9 are gone; .* starts at seq 11"):
        check_position(FILE, read_up_to(epoch, 9))


def test_a_batch_that_is_read_again_needs_the_changes_from_its_beginning():
    check_history(FILE, "b", 25, True, 30, since=10)
    with pytest.raises(HistoryLost) as caught:
        check_history(FILE, "b", 25, True, 30, since=9)

    assert (9, 11) == (caught.value.since, caught.value.oldest)
