"""`$changes` in process: what it tells since a version, in pages, filtered, and when history is gone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reactdb
from reactdb.dialects.aidbox import AidboxError
from reactdb.dialects.aidbox.parameters import parse_changes
from reactdb.session import session_of
from tests.support.scaling import examples


@pytest.fixture
def db() -> Any:
    with reactdb.connect(":memory:") as database:
        database.table_create("Patient")
        yield database


@pytest.fixture
def patients(db: Any) -> Any:
    return reactdb.aidbox(db)["Patient"]


def told(answer: dict[str, Any] | None) -> list[tuple[str, str]]:
    return [] if answer is None else [(one["event"], one["resource"]["id"]) for one in answer["changes"]]


class TestVersions:
    def test_an_empty_type_has_the_version_at_which_it_was_made(self, patients):
        assert {"version": 1} == patients.changes()
        assert patients.changes(1) is None

    def test_every_change_raises_it(self, db, patients):
        patients.create({"id": "a"})
        patients.put("a", {"n": 1})
        patients.delete("a")

        assert {"version": 4} == patients.changes()
        assert [("created", "a"), ("updated", "a"), ("deleted", "a")] == told(patients.changes(1))

    def test_a_write_that_changes_nothing_does_not(self, patients):
        before = patients.put("a", {"n": 1})

        assert before == patients.put("a", {"n": 1})
        assert {"version": 2} == patients.changes()

    def test_other_types_do_not(self, db, patients):
        patients.create({"id": "a"})
        reactdb.aidbox(db)["Device"].create({"id": "d"})

        assert patients.changes(2) is None
        assert 2 == patients.version()

    def test_a_resource_has_its_own_on_the_same_scale(self, patients):
        patients.create({"id": "a"})
        patients.create({"id": "b"})

        assert {"version": 2} == patients.changes(id="a")
        assert {"version": 2, "changes": [{"event": "created", "resource": {"id": "a"}}]} == patients.changes(
            1, id="a"
        )
        assert patients.changes(2, id="a") is None

    def test_one_that_is_made_again_is_created_again(self, patients):
        patients.create({"id": "a", "n": 1})
        patients.delete("a")
        patients.create({"id": "a", "n": 2})

        assert ["created", "deleted", "created"] == [event for event, _ in told(patients.changes(0))]
        assert ["created", "deleted", "created"] == [event for event, _ in told(patients.changes(0, id="a"))]

    def test_an_upper_version_is_included_and_a_lower_one_is_not(self, patients):
        for id in "abc":
            patients.create({"id": id})

        assert {"version": 3, "changes": [{"event": "created", "resource": {"id": "b"}}]} == patients.changes(
            "2,3"
        )
        assert patients.changes((2, 3)) == patients.changes("2,3")
        assert patients.changes("3,3") is None
        assert patients.changes("3,2") is None
        assert 4 == patients.changes("1,99")["version"]

    def test_one_beyond_the_newest_has_nothing_after_it(self, patients):
        assert patients.changes(1_000) is None

    @pytest.mark.parametrize("version", ["x", "-1", "1,", ",1", "1,2,3", "1.5", ""])
    def test_what_is_no_version_is_refused(self, patients, version):
        with pytest.raises(AidboxError, match="version is a number") as refused:
            patients.changes(version)
        assert 400 == refused.value.status

    def test_what_is_not_there_is_said_so(self, db, patients):
        for ask in (
            lambda: reactdb.aidbox(db)["Nothing"].changes(),
            lambda: patients.changes(id="nobody"),
            lambda: patients.changes(1, id="nobody"),
        ):
            with pytest.raises(AidboxError) as refused:
                ask()
            assert 404 == refused.value.status


class TestOpening:
    def test_it_takes_an_open_database(self):
        with pytest.raises(reactdb.InvalidOption, match="aidbox takes an open Database"):
            reactdb.aidbox("clinic.db")


class TestWhatIsTold:
    def test_a_deleted_resource_is_told_with_its_last_state(self, patients):
        patients.create({"id": "a", "name": "Ann"})
        patients.delete("a")

        assert {"event": "deleted", "resource": {"id": "a", "name": "Ann"}} == patients.changes(2)["changes"][
            0
        ]

    def test_resources_can_be_left_out(self, patients):
        patients.create({"id": "a", "name": "Ann"})

        told = patients.changes(1, omit_resources=True)["changes"]
        assert [{"event": "created", "resource": {"id": "a", "resourceType": "Patient"}}] == told

    def test_fhir_format_has_type_meta_references_and_typed_values(self, db):
        observations = reactdb.aidbox(db)["Observation"]
        observations.create(
            {
                "id": "o",
                "subject": {"resourceType": "Patient", "id": "a", "display": "Ann"},
                "value": {"Quantity": {"value": 3.5, "unit": "kg"}},
                "class": {"code": "AMB"},
                "performer": [{"uri": "http://example.org/x"}],
                "component": [{"value": {"string": "x"}}],
            }
        )

        (change,) = observations.changes(1, fhir=True)["changes"]
        resource = change["resource"]
        assert ("Observation", "o") == (resource["resourceType"], resource["id"])
        assert resource["meta"]["versionId"] == str(observations.version("o"))
        assert {"reference": "Patient/a", "display": "Ann"} == resource["subject"]
        assert {"value": 3.5, "unit": "kg"} == resource["valueQuantity"]
        assert {"code": "AMB"} == resource["class"]
        assert [{"reference": "http://example.org/x"}] == resource["performer"]
        assert [{"valueString": "x"}] == resource["component"]

    def test_documents_that_were_written_natively_are_resources(self, db, patients):
        db.table("Patient").insert([{"id": 5, "active": True}, {"id": "x", "at": 1.5}])

        assert [("created", "5"), ("created", "x")] == told(patients.changes(1))
        assert {"id": "5", "active": True} == {
            name: value for name, value in patients.read("5").items() if name in ("id", "active")
        }
        patients.put("5", {"active": False})
        assert [{"id": 5, "active": False}] == list(db.table("Patient").get_all(5))

    def test_a_table_with_another_primary_key_shows_it_as_id(self, db):
        db.table_create("Device", primary_key="serial").insert({"serial": "s1", "on": True})
        devices = reactdb.aidbox(db)["Device"]

        assert [{"event": "created", "resource": {"id": "s1", "on": True}}] == devices.changes(0)["changes"]
        with pytest.raises(AidboxError, match="shown as `id`"):
            devices.create({"id": "s2", "serial": "s3"})


class TestDotExpressions:
    @pytest.mark.parametrize(
        ("where", "passes"),
        [
            ({".name.0.family": "Wood"}, True),
            ({".name.-1.family": "Wood"}, True),
            ({".name.1.family": "Wood"}, False),
            ({".name.family": "Wood"}, False),
            ({".active": "true"}, True),
            ({".active": True}, True),
            ({".active": "True"}, False),
            ({".n": 5}, True),
            ({".n": "5.0"}, False),
            ({".x": "1.50"}, False),
            ({".x": "1.5"}, True),
            ({".nothing": "null"}, False),
            ({".missing": ""}, False),
            ({".name.0": '{"given": ["A"], "family": "Wood"}'}, True),
            ({".map.0": "zero"}, True),
            ({".id": "a"}, True),
            ({".n": 5, ".active": False}, False),
        ],
    )
    def test_what_passes(self, patients, where, passes):
        patients.create(
            {
                "id": "a",
                "name": [{"family": "Wood", "given": ["A"]}],
                "active": True,
                "n": 5,
                "x": 1.5,
                "nothing": None,
                "map": {"0": "zero"},
            }
        )

        assert passes == bool(patients.changes(1, where=where)["changes"])
        assert passes == bool(patients.search(where)["entry"])

    def test_where_all_are_rejected_the_version_moves_nevertheless(self, patients):
        patients.create({"id": "a"})

        assert {"version": 2, "changes": []} == patients.changes(1, where={".n": 1})
        assert patients.changes(2, where={".n": 1}) is None

    @pytest.mark.parametrize("name", [".", ".a..b", ".a.", ".a$contains", ".a::int"])
    def test_what_is_none_is_refused(self, name):
        with pytest.raises(AidboxError) as refused:
            parse_changes([(name, "x")])
        assert 400 == refused.value.status

    def test_an_unknown_parameter_is_refused(self):
        with pytest.raises(AidboxError, match="there is no parameter _sort"):
            parse_changes([("_sort", "x")])

    VALUES = st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-9, 9)
        | st.sampled_from([0.5, 2.0, "a", "0", "true", "null", ""]),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["a", "b", "0", "-1"]), inner, max_size=3)
        ),
        max_leaves=8,
    )

    @settings(max_examples=examples(200), deadline=None)
    @given(
        resource=st.dictionaries(st.sampled_from(["a", "b"]), VALUES, max_size=2),
        path=st.lists(st.sampled_from(["a", "b", "0", "1", "-1"]), min_size=1, max_size=3),
        text=st.sampled_from(["a", "0", "true", "false", "5", "0.5", "2.0", "2", "", "null", "[]", "{}"]),
    )
    def test_they_agree_with_a_naive_evaluation(self, resource, path, text):
        from reactdb.dialects.aidbox.dot_expressions import DotExpression

        assert naive(resource, path, text) == DotExpression(tuple(path), text).passes(resource)


def naive(value: Any, path: list[str], text: str) -> bool:
    """As the sentences of the manual say it, step by step."""
    for step in path:
        if isinstance(value, dict):
            if step not in value:
                return False
            value = value[step]
        elif isinstance(value, list):
            try:
                value = value[int(step)]
            except (ValueError, IndexError):
                return False
        else:
            return False
    if value is None:
        return False
    if isinstance(value, bool):
        return text == str(value).lower()
    if isinstance(value, (str, int, float)):
        return text == str(value)
    return (value == [] and text == "[]") or (value == {} and text == "{}")


class TestPages:
    def write(self, db: Any, sizes: list[int]) -> list[str]:
        """Commits of these sizes; the ids in order."""
        ids = iter(range(10_000))
        found = []
        for size in sizes:
            some = [f"p{next(ids):04}" for _ in range(size)]
            db.table("Patient").insert([{"id": id, "n": int(id[1:])} for id in some])
            found += some
        return found

    def test_a_page_does_not_cut_a_commit_apart(self, db, patients):
        ids = self.write(db, [2, 3, 1])

        first = patients.changes(1, count=1)
        assert ids[:2] == [id for _, id in told(first)]
        assert 3 == first["version"]
        assert ids[2:5] == [id for _, id in told(patients.changes(first["version"], count=1))]
        assert ids[2:5] == [id for _, id in told(patients.changes(1, count=1, page=2))]

    def test_unless_that_is_asked_for(self, db, patients):
        ids = self.write(db, [2, 3])

        page = patients.changes(1, count=3, cut_commits=True)
        assert ids[:3] == [id for _, id in told(page)]
        # Who goes on from here sees the commit from its beginning.
        assert 3 == page["version"]
        assert ids[3:] == [id for _, id in told(patients.changes(1, count=3, page=2, cut_commits=True))]

    def test_all_can_be_counted(self, db, patients):
        self.write(db, [2, 3])

        assert 5 == patients.changes(1, count=2, total="accurate")["total"]
        assert 1 == patients.changes(1, where={".n": 4}, total="estimate")["total"]
        assert "total" not in patients.changes(1, count=2, total="none")
        # Counting all does not move where the page ends.
        assert (
            patients.changes(1, count=2)["version"]
            == patients.changes(1, count=2, total="accurate")["version"]
        )

    def test_a_count_of_0_counts_and_moves_nobody_on(self, db, patients):
        """As a search with it does. A poller that went on from a later version would miss what was only counted."""
        self.write(db, [2, 3])

        assert {"version": 1, "changes": [], "total": 5} == patients.changes(1, count=0)
        assert {"version": 3, "changes": [], "total": 3} == patients.changes(3, count=0, total="none", page=2)
        assert 1 == patients.changes(1, count=0, where={".n": 4})["total"]
        assert patients.changes(6, count=0) is None

    def test_a_search_with_a_count_of_0_has_the_total_and_no_entries(self, db, patients):
        self.write(db, [2, 3])

        wanted = {"resourceType": "Bundle", "type": "searchset", "total": 5, "link": [], "entry": []}
        assert wanted == patients.search(count=0)
        assert wanted == patients.search(count=0, total="none", page=3)
        assert 1 == patients.search({".n": 4}, count=0)["total"]

    @pytest.mark.parametrize("count", [-1, 10_001, "x"])
    def test_other_counts_are_refused_with_the_bounds_by_search_and_changes(self, patients, count):
        for ask in (patients.search, lambda count: patients.changes(1, count=count)):
            with pytest.raises(AidboxError, match="_count is a number from 0 to 10000"):
                ask(count=count)

    def test_a_page_behind_the_last_is_empty(self, db, patients):
        self.write(db, [2])

        assert {"version": 3, "changes": []} == patients.changes(1, count=5, page=7)

    @settings(max_examples=examples(40), deadline=None)
    @given(
        sizes=st.lists(st.integers(1, 4), max_size=8),
        counts=st.lists(st.integers(1, 5), min_size=1, max_size=4),
        where=st.sampled_from([None, {".even": "true"}]),
        cuts=st.booleans(),
    )
    def test_pages_of_a_pinned_range_are_one_read(self, sizes, counts, where, cuts):
        with reactdb.connect(":memory:") as db:
            db.table_create("Patient")
            number = 0
            for size in sizes:
                db.table("Patient").insert(
                    [{"id": f"{number + n:03}", "even": (number + n) % 2 == 0} for n in range(size)]
                )
                number += size
            patients = reactdb.aidbox(db)["Patient"]
            upper = patients.version()
            whole = told(patients.changes((1, upper), where=where))

            by_page: list[Any] = []
            for page in range(1, number + 2):
                by_page += told(
                    patients.changes((1, upper), where=where, count=counts[0], page=page, cut_commits=cuts)
                )
            assert whole == by_page

            by_version: list[Any] = []
            version, turn = 1, 0
            while version < upper:
                found = patients.changes((version, upper), where=where, count=counts[turn % len(counts)])
                by_version += told(found)
                assert version < found["version"]
                version, turn = found["version"], turn + 1
            assert whole == by_version


class TestHistoryThatIsGone:
    def test_it_is_refused_and_names_the_oldest_version(self, tmp_path):
        with reactdb.connect(tmp_path / "a.db") as db:
            patients = reactdb.aidbox(db)["Patient"]
            patients.create({"id": "a"})
            patients.put("a", {"n": 1})
            patients.put("a", {"n": 2})
            db.compact(keep=0)

            with pytest.raises(AidboxError, match="are no longer kept") as refused:
                patients.changes(1)
            assert 410 == refused.value.status
            oldest = refused.value.details["oldest"]
            with pytest.raises(AidboxError):
                patients.changes(1, id="a")
            assert patients.changes(oldest) is None
            assert {"version": patients.version()} == patients.changes()
            patients.put("a", {"n": 3})
            assert [("updated", "a")] == told(patients.changes(oldest))
            assert 3 == patients.read("a")["n"]

    def test_a_type_that_is_rarely_changed_loses_only_its_own_history(self, tmp_path):
        """The log is of the whole file: what other types lose is no reason to read this one anew."""
        with reactdb.connect(tmp_path / "a.db") as db:
            box = reactdb.aidbox(db)
            box["Patient"].create({"id": "a"})
            box["Patient"].create({"id": "b"})
            box["Patient"].delete("b")
            version = box["Patient"].version()
            for n in range(300):
                box["Device"].put("d", {"n": n})
            db.compact(keep=5)
            box["Patient"].put("a", {"n": 1})
            db.compact(keep=3)

            assert [("updated", "a")] == told(box["Patient"].changes(version))
            assert [("updated", "a")] == told(box["Patient"].changes(version, id="a"))
            with pytest.raises(AidboxError) as refused:
                box["Patient"].changes(version - 1)
            assert version == refused.value.details["oldest"]
            with pytest.raises(AidboxError):
                box["Device"].changes(version)

    def test_a_file_that_does_not_say_what_was_lost_is_taken_to_have_lost_all(self, tmp_path):
        """One that an older version has compacted."""
        with reactdb.connect(tmp_path / "a.db") as db:
            box = reactdb.aidbox(db)
            box["Patient"].create({"id": "a"})
            version = box["Patient"].version()
            for n in range(300):
                box["Device"].put("d", {"n": n})
            db.compact(keep=0)
            connection = session_of(db).engine.writer.connection
            connection.execute("UPDATE marks SET newest = NULL")
            connection.commit()
            box["Patient"].put("a", {"n": 1})

            with pytest.raises(AidboxError) as refused:
                box["Patient"].changes(version)
            assert db.seq - 1 == refused.value.details["oldest"]

    @settings(max_examples=examples(60), deadline=None)
    @given(data=st.data())
    def test_an_answer_is_whole_or_refused_whatever_was_removed(self, data):
        with reactdb.connect(":memory:") as db:
            box = reactdb.aidbox(db)
            log: dict[str, list[tuple[int, str, str]]] = {"A": [], "B": []}
            for type in log:
                box[type].create({"id": "0"})
                log[type].append((box[type].version(), "created", "0"))
            for _ in range(data.draw(st.integers(0, 25))):
                type = data.draw(st.sampled_from(["A", "B", "B", "B"]))
                id = data.draw(st.sampled_from("012"))
                step = data.draw(st.sampled_from(["put", "put", "delete", "compact", "jump"]))
                before = box[type].version()
                if step == "put":
                    box[type].put(id, {"n": data.draw(st.integers(0, 9))})
                elif step == "delete" and any(
                    id == one["resource"]["id"] for one in box[type].search()["entry"]
                ):
                    box[type].delete(id)
                elif step == "compact":
                    db.compact(keep=data.draw(st.sampled_from([0, 1, 2, 5])))
                elif step == "jump":
                    # Into another block of marks.
                    db.table("B").insert([{"id": f"x{n}"} for n in range(40)], conflict="replace")
                    db.table("B").get_all(*[f"x{n}" for n in range(40)]).delete()
                    log["B"] = [(box["B"].version(), "", "")]
                if step in ("put", "delete") and box[type].version() != before:
                    (change,) = box[type].changes(before)["changes"]
                    log[type].append((box[type].version(), change["event"], id))
            for name, changes in log.items():
                for since in range(changes[0][0], db.seq + 1):
                    try:
                        found = told(box[name].changes(since))
                    except AidboxError as refused:
                        oldest = refused.details["oldest"]
                    else:
                        assert [(event, id) for version, event, id in changes if version > since] == found
                        continue
                    assert since < oldest <= box[name].version()
