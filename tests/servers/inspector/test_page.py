"""The inspector's page in a real browser: what a reader sees while the database moves."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

import reactdb
from reactdb.servers.inspector.server import InspectorServer
from reactdb.servers.server import in_thread
from tests.servers.inspector.watched_page import FIRST_ROW, WatchedPage, watched_page
from tests.support.chromium import needs_chromium, open_chromium

pytestmark = needs_chromium
TOKEN = "a-token-of-the-tests-of-the-page"
DOCUMENTS = 100_000
MARKUP = "<img src=x onerror='window.hacked = true'>"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with open_chromium() as opened:
        yield opened


@pytest.fixture(scope="module")
def parts() -> Iterator[tuple[reactdb.Database, str]]:
    """100,000 documents, whose keys are their places, and the page that reads them."""
    with reactdb.connect(":memory:") as db:
        table = db.table_create("parts")
        for start in range(0, DOCUMENTS, 10_000):
            table.insert(
                [
                    {"id": key_at(i), "stock": i % 31, "name": f"part {i}"}
                    for i in range(start, start + 10_000)
                ]
            )
        server = InspectorServer(db, token=TOKEN)
        with in_thread(server):
            yield db, f"{server.url}?token={TOKEN}"


@pytest.fixture
def db() -> Iterator[reactdb.Database]:
    with reactdb.connect(":memory:") as database:
        yield database


@pytest.fixture
def url(db: reactdb.Database) -> Iterator[str]:
    """The page of `db`, with the right to write."""
    server = InspectorServer(db, token=TOKEN, write=True)
    with in_thread(server):
        yield f"{server.url}?token={TOKEN}"


def key_at(place: int) -> str:
    return f"p{place:06}"


def go_to_row(page: WatchedPage, number: int) -> None:
    page.press("g")
    page.type(str(number))
    page.press("Enter")
    page.wait_for_row(number)


# ---------------------------------------------------------------------------------------------------------------
# Rows that stay


def test_the_first_visible_row_keeps_its_pixel_while_1_000_documents_come_and_go_above_it(
    browser: Any, parts: tuple[reactdb.Database, str]
) -> None:
    db, url = parts
    table = db.table("parts")

    def write() -> None:
        # Every other write moves all rows below it.
        for i in range(1000):
            place = (i * 7919) % 40_000
            if i % 2:
                table.get(key_at(50_000 + i % 40)).update({"stock": i})
            elif i % 3:
                table.insert({"id": f"{key_at(place)}+{i}", "stock": i})
            else:
                table.get(key_at(place)).delete()

    with watched_page(browser, url) as page:
        go_to_row(page, 50_000)
        page.tab.evaluate("document.querySelector('.grid').scrollTop -= 137")
        page.wait_for_row(49_990)
        before = page.first_row()
        # Looked at in each frame.
        page.tab.evaluate(
            f"""() => {{
              const first = {FIRST_ROW};
              window.seen = new Set();
              const look = () => {{
                const row = first();
                seen.add(`${{row?.key}} ${{row?.y}}`);
                window.looking = requestAnimationFrame(look);
              }};
              look();
            }}"""
        )
        writer = threading.Thread(target=write)
        writer.start()
        writer.join()
        keys = [row["id"] for row in table.order_by(index="id").run()]
        place = keys.index(before["key"]) + 1
        assert place != before["row"]
        page.wait(f"(place) => ({FIRST_ROW})()?.row === place", place)
        page.tab.evaluate("cancelAnimationFrame(looking)")
        assert page.tab.evaluate("[...seen]") == [f"{before['key']} {before['y']}"]
        shown = [(number, key) for number, key, _ in page.visible_rows()]
        assert shown == [(number, keys[number - 1]) for number, _ in shown]
        assert len(shown) > 10
        assert page.errors == []


def test_an_ordered_and_filtered_table_shows_the_query_after_the_writes(
    browser: Any, db: reactdb.Database, url: str
) -> None:
    table = db.table_create("games")
    table.insert([{"id": f"g{i:03}", "score": i * 37 % 211} for i in range(200)])
    condition = "score >= 50"
    with watched_page(browser, f"{url}#table=games&where={condition}&order=score&desc=1") as page:
        page.wait_for_row(1)
        for i in range(100):
            table.get(f"g{i:03}").update({"score": i * 91 % 233})
        table.get("g150").delete()
        table.insert({"id": "new", "score": 500})
        expected = [
            row["id"]
            for row in table.order_by(reactdb.desc("score"), "id").filter(reactdb.row["score"] >= 50).run()
        ]
        page.wait(
            "(count) => document.querySelector('.summary').textContent.startsWith(`${count} of 200`)",
            len(expected),
        )
        page.press("g")
        page.type("1")
        page.press("Enter")
        page.wait("() => document.querySelector('.grid').scrollTop === 0")
        page.wait_for_row(1)
        scores = {row["id"]: row["score"] for row in table.run()}
        shown = page.visible_rows()
        assert [scores[key] for _, key, _ in shown] == [scores[key] for key in expected[: len(shown)]]
        assert shown[0][1] == "new"


def test_a_cell_that_changes_is_marked_and_not_by_its_colour_alone(
    browser: Any, db: reactdb.Database, url: str
) -> None:
    table = db.table_create("games")
    table.insert([{"id": "a", "score": 1, "name": "x"}, {"id": "b", "score": 1, "name": "y"}])
    with watched_page(browser, f"{url}#table=games", reduced_motion="reduce") as page:
        page.wait_for_row(2)
        page.wait_for_text("#connection", "Live")
        table.get("b").update({"score": 2})
        marked = page.tab.wait_for_selector(".cell.changed")
        assert marked.inner_text() == "2"
        assert marked.evaluate("(cell) => getComputedStyle(cell, '::after').width") == "5px"
        page.wait("() => !document.querySelector('.cell.changed')")


# ---------------------------------------------------------------------------------------------------------------
# Documents are text


def test_markup_in_keys_names_and_values_is_text_in_every_view(browser: Any, db: reactdb.Database) -> None:
    with db.transaction(origin=MARKUP):
        db.table_create("notes").insert(
            [{"id": MARKUP, MARKUP: MARKUP, "nested": {MARKUP: [MARKUP]}}, {"id": "plain"}]
        )
        db.table("notes").get(MARKUP).update({"more": MARKUP})
    db.table("notes").index_create("more")
    consumer = db.consumer("mail", db.table("notes"))
    server = InspectorServer(db, token=TOKEN)
    feed = db.table("notes").filter(reactdb.row["more"] == MARKUP).changes()
    with (
        feed.subscribe(lambda event: None),
        in_thread(server),
        watched_page(browser, f"{server.url}?token={TOKEN}") as page,
    ):
        page.wait_for_row(1)
        page.tab.click(".grid-body .t-key >> nth=0")
        page.wait_for_text("#panel h2", MARKUP)
        page.wait_for_text("#panel .fields", MARKUP)
        page.tab.click("#panel summary >> nth=0")
        page.wait_for_text("#panel .diff", MARKUP)
        page.press("Escape", "/")
        page.type(f'more = "{MARKUP}"')
        page.press("Enter")
        page.wait_for_text(".summary", "1 of 2")
        page.press("Escape", "Escape", "l")
        page.wait_for_text(".t-what", MARKUP)
        page.wait_for_text(".t-origin", MARKUP)
        page.press("f")
        page.wait_for_text(".t-code", "onerror")
        page.press("c")
        page.wait_for_text(".grid-body", "mail")
        page.press("s")
        page.wait_for_text(".figures", "more")
        page.press(",")
        page.wait_for_text("#past", "before now")
        page.press("n", "?")
        page.wait_for_text("#help", "Search")
        assert page.tab.evaluate("window.hacked") is None
        assert page.tab.evaluate("[...document.images].map((image) => image.getAttribute('src'))") == [
            "./icon.svg"
        ]
        assert page.violations() == []
        assert page.foreign == []
        assert page.errors == []
        assert "token" not in page.tab.url
    del consumer


def test_an_integer_keeps_its_digits_also_in_the_editor(browser: Any, db: reactdb.Database, url: str) -> None:
    big = 2**53 + 1
    db.table_create("t").insert({"id": 1, "big": big})
    with watched_page(browser, url) as page:
        page.wait_for_row(1)
        page.tab.click(".grid-body .t-key")
        page.wait_for_text("#panel .fields", str(big))
        page.press("e")
        page.tab.locator("#panel textarea").fill(
            page.tab.input_value("#panel textarea").replace("}", ', "more": true}')
        )
        page.press("Control+Enter")
        page.wait_for_text("#toast", "Saved")
    assert db.table("t").get(1).run() == {"id": 1, "big": big, "more": True}


# ---------------------------------------------------------------------------------------------------------------
# Keys, light and dark, narrow windows


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_by_keys_alone_a_reader_opens_row_5_000_and_steps_back_in_time(
    browser: Any, parts: tuple[reactdb.Database, str], scheme: str
) -> None:
    db, url = parts
    table = db.table("parts")
    number = 5000
    keys = [row["id"] for row in table.order_by(index="id").limit(number).run()]
    key = keys[-1]
    table.get(key).update({"name": "before"})
    table.get(key).update({"name": "after"})
    with watched_page(browser, url, color_scheme=scheme) as page:
        page.press("l", "t", "Enter")
        page.wait_for_row(1)
        go_to_row(page, number)
        assert page.tab.evaluate("document.activeElement.closest('[role=row]').ariaRowIndex") == str(
            number + 1
        )
        assert page.tab.evaluate("document.querySelectorAll('.grid [tabindex=\"0\"]').length") == 1
        assert page.tab.get_attribute("[role=grid]", "aria-rowcount") == str(table.count().run() + 1)
        page.press("ArrowRight", "Enter")
        page.wait_for_text("#panel h2", key)
        page.wait_for_text("#panel .fields", "after")
        page.press(",")
        page.wait_for_text("#past", "1 change before now")
        page.wait_for_text("#panel .fields", "before")
        assert page.tab.evaluate("document.activeElement.closest('[role=row]').ariaRowIndex") == str(
            number + 1
        )
        page.press("n")
        page.wait_for_text("#panel .fields", "after")
        assert not page.tab.is_visible("#past")
        page.press("Escape")
        assert not page.tab.is_visible("#panel")
        page.press("ArrowDown", "Home", "PageUp", "Control+End")
        page.wait_for_row(table.count().run())
        back = page.tab.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (back == "rgb(255, 255, 255)") == (scheme == "light")


def test_a_title_orders_by_keys_and_says_so(browser: Any, db: reactdb.Database, url: str) -> None:
    db.table_create("t").insert([{"id": "a", "n": 1}, {"id": "b", "n": 3}, {"id": "c", "n": 2}])
    with watched_page(browser, url) as page:
        page.wait_for_row(3)
        go_to_row(page, 1)
        page.press("ArrowUp", "End", "Enter")
        page.wait("() => document.querySelector('[aria-sort=ascending] .label')?.textContent === 'n'")
        page.press("Enter")
        page.wait("() => document.querySelector('[aria-sort=descending] .label')?.textContent === 'n'")
        page.wait(
            "() => document.querySelector('.grid-body .grid-row:not(.away)[aria-rowindex=\"2\"] .t-key')?.textContent === 'b'"
        )
        assert page.tab.evaluate("document.activeElement.ariaSort") == "descending"
        assert "order=n" in page.tab.url


def test_a_window_of_400_pixels_needs_no_scrolling_to_the_side(
    browser: Any, db: reactdb.Database, url: str
) -> None:
    db.table_create("t").insert({"id": "a", **{f"field{i}": "x" * 40 for i in range(12)}})
    with watched_page(browser, url, viewport={"width": 400, "height": 700}) as page:
        page.wait_for_row(1)
        page.press(",")
        page.wait_for_text("#past", "before now")
        for select in ("#past", "#panel .fields"):
            page.tab.wait_for_selector(select)
            assert page.tab.evaluate("document.scrollingElement.scrollWidth") == 400
            outside = page.tab.evaluate(
                "[...document.querySelectorAll('#top > *, #timeline > *, #past > *, #panel button')]"
                ".filter((one) => one.offsetWidth && one.getBoundingClientRect().right > 400).map((one) => one.outerHTML)"
            )
            assert outside == []
            if select == "#past":
                page.press("n")
                page.wait_for_row(1)
                page.tab.click(".grid-body .t-key")


# ---------------------------------------------------------------------------------------------------------------
# Time


def test_dragging_asks_one_question_at_a_time_and_ends_at_the_moment_chosen(
    browser: Any, db: reactdb.Database, url: str
) -> None:
    table = db.table_create("games")
    for i in range(300):
        table.insert({"id": f"g{i:03}", "score": i})
    begin = db.seq - 200
    with watched_page(browser, f"{url}#table=games") as page:
        page.wait_for_row(1)
        page.wait_for_text("#connection", "Live")
        open_now: set[Any] = set()
        most = asked = 0

        def began(request: Any) -> None:
            nonlocal most, asked
            if "at=" in request.url:
                open_now.add(request)
                asked += 1
                most = max(most, len(open_now))

        page.tab.on("request", began)
        page.tab.on("requestfinished", lambda request: open_now.discard(request))
        page.tab.on("requestfailed", lambda request: open_now.discard(request))
        page.tab.evaluate(
            """async (target) => {
              const slider = document.getElementById('slider');
              for (let seq = Number(slider.max) - 1; seq >= target; seq--) {
                slider.value = String(seq);
                slider.dispatchEvent(new Event('input', {bubbles: true}));
                if (seq % 4 === 0) await new Promise(requestAnimationFrame);
              }
            }""",
            begin,
        )
        page.wait_for_text(".summary", "100 documents")
        page.wait_for_text("[data-table=games]", "100")
        assert most == 1
        assert asked < 200
        assert db.at(begin).table("games").count().run() == 100
        assert page.errors == []


def test_a_past_moment_stays_while_the_database_moves_on(
    browser: Any, db: reactdb.Database, url: str
) -> None:
    table = db.table_create("games")
    table.insert([{"id": "a", "score": 1}])
    table.get("a").update({"score": 2})
    with watched_page(browser, f"{url}#table=games") as page:
        page.wait_for_row(1)
        page.press(",")
        page.wait_for_text(".grid-body .t-number", "1")
        table.insert({"id": "later", "score": 7})
        page.wait_for_text("#past", "2 changes before now")
        page.wait("() => location.hash.includes('at=')")
        assert [key for _, key, _ in page.visible_rows()] == ["a"]
        page.tab.reload()
        page.wait_for_text("#past", "2 changes before now")
        page.wait_for_text(".grid-body .t-number", "1")
        page.press("n")
        page.wait_for_row(2)
        page.wait_for_text(".grid-body .t-number", "7")


def test_a_reader_goes_through_the_steps_of_one_document_back_and_on(
    browser: Any, db: reactdb.Database, url: str
) -> None:
    table = db.table_create("games")
    seqs = []
    for score in (11, 22, 33):
        table.insert({"id": "a", "score": score}, conflict="replace")
        seqs.append(db.seq)
        table.insert({"id": f"other{score}"})
    with watched_page(browser, f"{url}#table=games&key=a") as page:
        page.wait_for_text("#panel .fields", "33")
        for score in (33, 22, 11):
            page.press("Shift+Comma")
            page.wait_for_text("#panel .fields", "22" if score == 33 else "11")
        # A moment later the address has it too.
        page.wait("(seq) => new URLSearchParams(location.hash.slice(1)).get('at') === String(seq)", seqs[0])
        page.tab.reload()
        page.wait_for_text("#panel .fields", "11")
        for score in (22, 33):
            page.press("Shift+Period")
            page.wait_for_text("#panel .fields", str(score))
        assert page.tab.is_visible("#past")
        page.press("Shift+Period")
        page.wait("() => document.getElementById('past').hidden")


# ---------------------------------------------------------------------------------------------------------------
# The log


def test_a_reader_of_the_log_is_not_moved_by_newer_changes(
    browser: Any, db: reactdb.Database, url: str
) -> None:
    table = db.table_create("games")
    with db.transaction(origin="import"):
        table.insert([{"id": f"g{i:03}", "score": i} for i in range(300)])
    with watched_page(browser, f"{url}#view=log") as page:
        page.wait_for_text("#connection", "Live")
        page.wait_for_row(5)
        table.get("g001").update({"score": 1000})
        page.wait_for_text(".t-what", "1000")
        page.tab.evaluate("document.querySelector('.grid').scrollTop = 900")
        page.wait_for_text(".summary", "waiting")
        before = page.first_row()
        for i in range(50):
            table.get(f"g{i:03}").update({"score": i + 2000})
        page.wait_for_text(".pill", "50 newer changes")
        assert page.first_row() == before
        page.tab.click(".pill")
        page.wait_for_text(".t-what", "2049")
        assert page.first_row()["row"] == 1


def test_the_log_is_filtered_by_table_kind_and_origin_and_paused(
    browser: Any, db: reactdb.Database, url: str
) -> None:
    games, others = db.table_create("games"), db.table_create("others")
    others.insert({"id": "o"})
    games.insert({"id": "a", "score": 1})
    with db.transaction(origin="desk"):
        games.get("a").update({"score": 2})
    with watched_page(browser, f"{url}#view=log") as page:
        page.wait_for_text("#connection", "Live")
        page.tab.select_option("select >> nth=0", "games")
        kinds = page.tab.eval_on_selector_all(
            "select >> nth=1 >> option", "options => options.map((each) => each.value)"
        )
        assert kinds == ["", "insert", "update", "replace", "delete"]
        page.tab.select_option("select >> nth=1", "update")
        page.wait_for_row(1)
        page.wait("() => document.querySelectorAll('.grid-body .grid-row:not(.away)').length === 1")
        page.tab.fill("#origin-filter", "desk")
        page.press("Enter")
        page.wait("() => document.querySelector('.t-origin').textContent === 'desk'")
        with db.transaction(origin="desk"):
            games.get("a").update({"score": 3})
            others.get("o").update({"score": 3})
        games.get("a").update({"score": 4})
        page.wait("() => document.querySelectorAll('.grid-body .grid-row:not(.away)').length === 2")
        page.tab.click("h1")
        page.press("p")
        page.wait_for_text(".summary", "paused")
        with db.transaction(origin="desk"):
            games.get("a").update({"score": 5})
        page.wait_for_text(".pill", "1 newer change")
        assert len(page.visible_rows()) == 2
        page.press("p")
        page.wait("() => document.querySelectorAll('.grid-body .grid-row:not(.away)').length === 3")


# ---------------------------------------------------------------------------------------------------------------
# Writing


def edit_first_document(page: WatchedPage, rows: int) -> None:
    """Open the editor of the document in the first row. `rows`: how many there are."""
    page.wait_for_text("#mode", "writable")
    page.wait_for_row(rows)
    page.press("g")
    page.type("1")
    page.press("Enter", "Enter")
    page.wait_for_text("#panel .fields", "a")
    page.press("e")


def test_an_edit_a_conflict_an_insert_a_deletion_and_their_undo(
    browser: Any, db: reactdb.Database, url: str
) -> None:
    table = db.table_create("games")
    table.insert([{"id": "a", "score": 1}, {"id": "b", "score": 2}])
    with watched_page(browser, f"{url}#table=games") as page:
        edit_first_document(page, 2)
        page.tab.fill("#panel textarea", '{"id": "a", "score": ')
        page.press("Control+Enter")
        page.wait_for_text("#edit-problem", "This is not JSON")
        page.tab.fill("#panel textarea", '{"id": "other", "score": 5}')
        page.press("Control+Enter")
        page.wait(
            "() => /^(?!This is not JSON).{20,}/.test(document.getElementById('edit-problem').innerText)"
        )
        page.tab.fill("#panel textarea", '{"id": "a", "score": 5}')
        with db.transaction(origin="desk"):
            table.get("a").update({"score": 9})
        page.press("Control+Enter")
        page.wait_for_text("#edit-problem", "changed by desk")
        assert table.get("a").run() == {"id": "a", "score": 9}
        page.tab.click("text=Load the newest version")
        page.wait("() => /9/.test(document.querySelector('#panel textarea').value)")
        page.tab.fill("#panel textarea", '{"id": "a", "score": 6}')
        page.press("Control+Enter")
        page.wait_for_text("#panel .fields", "6")
        assert table.get("a").run() == {"id": "a", "score": 6}
        page.press("i")
        page.tab.fill("#panel textarea", '{"id": "c", "score": 3}')
        page.press("Control+Enter")
        page.wait_for_text("#panel h2", "c")
        page.wait_for_row(3)
        page.tab.locator("#panel h2").focus()
        page.wait("() => !document.querySelector('#panel .actions button:nth-child(2)').disabled")
        page.press("Delete")
        page.wait_for_text("#ask", "Delete this document?")
        page.tab.click("#ask .danger")
        page.wait_for_text("#panel .note", "deleted")
        assert table.get("c").run() is None
        page.tab.locator("#panel h2").focus()
        page.press("Control+z")
        page.wait_for_text("#panel .fields", "3")
        page.press("Control+z")
        page.wait_for_text("#panel .note", "deleted")
        page.press("Control+z")
        page.wait_for_text(".grid-body", "9")
        page.press("Control+Shift+z")
        page.wait_for_text(".grid-body", "6")
        assert list(table.order_by(index="id").run()) == [{"id": "a", "score": 6}, {"id": "b", "score": 2}]
        # The browser writes the conflict into its console itself.
        assert [error for error in page.errors if "409" not in error and "400" not in error] == []


# The answers about a document wait in the page until `window.release()`.
HOLD_ANSWERS = """() => {
  const { fetch } = window;
  window.held = [];
  let isHeld = true;
  window.fetch = async (...given) => {
    const answer = await fetch(...given);
    if (isHeld && String(given[0]).includes("api/document?")) await new Promise((go) => window.held.push(go));
    return answer;
  };
  window.release = () => { isHeld = false; window.held.forEach((go) => go()); };
}"""


def test_the_newest_version_is_loaded_while_an_older_one_is_on_its_way(
    browser: Any, db: reactdb.Database, url: str
) -> None:
    table = db.table_create("games")
    table.insert({"id": "a", "score": 1})
    with watched_page(browser, f"{url}#table=games") as page:
        edit_first_document(page, 1)
        table.get("a").update({"score": 7})
        page.tab.fill("#panel textarea", '{"id": "a", "score": 5}')
        page.press("Control+Enter")
        page.wait_for_text("#edit-problem", "changed")
        page.tab.evaluate(HOLD_ANSWERS)
        table.get("a").update({"score": 8})
        page.wait("() => window.held.length === 1")
        table.get("a").update({"score": 9})

        page.tab.click("text=Load the newest version")
        page.tab.evaluate("() => window.release()")

        page.wait("() => /[0-9]/.exec(document.querySelector('#panel textarea').value)?.[0] === '9'")


def test_a_page_that_only_reads_says_so_and_has_no_way_to_write(
    browser: Any, parts: tuple[reactdb.Database, str]
) -> None:
    db, url = parts
    with watched_page(browser, url) as page:
        page.wait_for_row(1)
        page.wait_for_text("#mode", "read-only")
        page.tab.click(".grid-body .t-key >> nth=0")
        page.wait_for_text("#panel .fields", "part")
        seq = db.seq
        page.press("e", "i", "Delete", "Control+z")
        assert page.tab.query_selector_all("textarea, dialog[open]") == []
        assert [
            button.inner_text()
            for button in page.tab.query_selector_all("#panel .actions button, .toolbar button:visible")
        ] == []
        assert db.seq == seq


def test_a_wrong_condition_is_said_beside_the_search(
    browser: Any, parts: tuple[reactdb.Database, str]
) -> None:
    with watched_page(browser, parts[1]) as page:
        page.wait_for_row(1)
        page.press("/")
        page.type("stock = 99")
        page.press("Enter")
        page.wait_for_text(".empty", "No document matches")
        page.tab.fill("#search", "stock >")
        page.press("Enter")
        page.wait_for_text("#search-problem", "condition: position")
        assert not page.tab.is_visible(".empty")
        page.tab.fill("#search", "stock = 3 and name = 'part 3'")
        page.press("Enter")
        page.wait_for_text(".summary", "1 of")
        assert not page.tab.is_visible("#search-problem")


def test_a_number_as_a_key_is_shown_as_a_number_and_a_text_as_itself(
    browser: Any, db: reactdb.Database, url: str
) -> None:
    db.table_create("games").insert([{"id": 1}, {"id": "1"}, {"id": "=1"}, {"id": "=a"}])
    with watched_page(browser, f"{url}#table=games") as page:
        page.wait_for_row(4)
        cells = page.tab.eval_on_selector_all(
            ".grid-body .t-key",
            "cells => cells.map((each) => [each.textContent, each.classList.contains('t-number')])",
        )
        assert sorted(cells) == [["1", False], ["1", True], ["=1", False], ["=a", False]]
        page.tab.click(".grid-body .t-key.t-number")
        page.wait_for_text("#panel h2", "1")
        page.wait_for_text("#panel .fields", "number")


def test_a_document_that_is_not_inserted_yet_is_not_called_deleted(
    browser: Any, db: reactdb.Database, url: str
) -> None:
    games = db.table_create("games")
    games.insert({"id": "a"})
    before = db.seq
    games.insert({"id": "b"})
    with_b = db.seq
    games.get("b").delete()
    with watched_page(browser, f"{url}#table=games&key=b") as page:
        page.wait_for_text("#panel .note", "This document is deleted")
        for moment, text in ((before, "It did not exist at this moment."), (with_b, ""), (db.seq - 1, "")):
            page.tab.evaluate(
                "(seq) => { const slider = document.getElementById('slider'); slider.value = String(seq);"
                " slider.dispatchEvent(new Event('input', {bubbles: true})); }",
                moment,
            )
            page.wait_for_text("#past", f"change {moment}")
            if text:
                page.wait_for_text("#panel .note", text)
            else:
                page.wait_for_text("#panel .fields", "b")


def test_the_log_in_a_narrow_window_shows_what_has_changed_without_scrolling(
    browser: Any, db: reactdb.Database, url: str
) -> None:
    db.table_create("games").insert({"id": "a"})
    with watched_page(browser, f"{url}#view=log", viewport={"width": 400, "height": 700}) as page:
        page.wait_for_row(1)
        titles = page.tab.eval_on_selector_all(
            ".head .label", "titles => titles.map((each) => each.textContent)"
        )
        assert titles[:3] == ["Kind", "Key", "What changed"]


def test_the_editor_of_a_long_document_leaves_its_buttons_in_the_window(
    browser: Any, db: reactdb.Database, url: str
) -> None:
    db.table_create("games").insert({"id": "a", "lines": list(range(200))})
    with watched_page(browser, f"{url}#table=games&key=a", viewport={"width": 1000, "height": 600}) as page:
        page.wait_for_text("#panel .fields", "lines")
        page.tab.click("#panel button:has-text('Edit')")
        page.tab.fill("#panel textarea", "{} }")
        page.tab.click("#panel button:has-text('Save')")
        page.wait_for_text("#edit-problem", "This is not JSON")
        box = page.tab.query_selector("#panel button:has-text('Save')").bounding_box()
        line_of_time = page.tab.query_selector("#timeline").bounding_box()
        assert box["y"] + box["height"] <= line_of_time["y"]
