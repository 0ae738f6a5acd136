"""MongoError: what a reply says of a refusal."""

from __future__ import annotations

from reactdb.dialects.mongodb.errors import MongoError, code_name


def test_a_code_has_the_name_of_the_table_and_all_others_are_locations() -> None:
    assert code_name(11000) == "DuplicateKey"
    assert code_name(40324) == "Location40324"


def test_a_reply_has_the_code_its_name_the_details_and_the_labels() -> None:
    error = MongoError(112, "conflict", labels=["TransientTransactionError"], keyValue={"a": 1})
    assert error.reply() == {
        "ok": 0.0,
        "errmsg": "conflict",
        "code": 112,
        "codeName": "WriteConflict",
        "keyValue": {"a": 1},
        "errorLabels": ["TransientTransactionError"],
    }


def test_a_lost_history_says_on_every_command_that_it_cannot_be_resumed() -> None:
    for code in (280, 286):
        assert MongoError(code, "gone").labels == ("NonResumableChangeStreamError",)
    assert MongoError(260, "none").labels == ()
