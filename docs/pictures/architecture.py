"""architecture.svg: the way of a write to its feeds."""

from __future__ import annotations

from docs.pictures.svg import AMBER, CARD, SOFT, TEAL, arrow, box, code, picture, text


def draw() -> str:
    parts: list[str] = []
    # The writer.
    parts += [box(24, 96, 176, 92), text(112, 122, "your program writes", anchor="middle")]
    parts += [
        code(112, 148, "games.insert(", size=12, anchor="middle"),
        code(112, 166, '{"score": 12})', size=12, anchor="middle"),
    ]
    # The file.
    parts += [box(252, 60, 180, 164, fill="#e6f4f2", stroke=TEAL)]
    parts += [text(342, 86, "one SQLite file", anchor="middle", more='font-weight="600"')]
    for number, (words, colour) in enumerate([("4  Ann 50", SOFT), ("5  Bob 40", SOFT), ("6  Cem 12", TEAL)]):
        y = 100 + 32 * number
        parts += [
            box(272, y, 140, 26, fill=CARD, stroke=colour),
            code(284, y + 18, words, colour=colour, size=12),
        ]
    parts += [text(342, 214, "the change log", colour=SOFT, size=12, anchor="middle")]
    parts += [arrow((200, 142), (250, 142))]
    # The router.
    parts += [box(488, 96, 150, 92), text(563, 122, "router", anchor="middle", more='font-weight="600"')]
    parts += [text(563, 145, "hashes the values", colour=SOFT, size=12, anchor="middle")]
    parts += [text(563, 162, "of the change", colour=SOFT, size=12, anchor="middle")]
    parts += [arrow((432, 142), (486, 142)), text(459, 132, "commit", colour=SOFT, size=11, anchor="middle")]
    # The feeds.
    feeds = [
        ("score > 10", "your function is called", TEAL),
        ("the three best", "a list in a window moves", TEAL),
        ("1,000 other feeds", "cost nothing", SOFT),
    ]
    for number, (query, effect, colour) in enumerate(feeds):
        y = 34 + 74 * number
        parts += [box(694, y, 202, 58, fill=CARD if colour == SOFT else "#e6f4f2", stroke=colour)]
        parts += [code(708, y + 24, query, colour=colour, size=12), text(708, y + 44, effect, size=13)]
        if colour == TEAL:
            parts += [arrow((638, 142), (666, 142), (666, y + 29), (692, y + 29))]
    # What reads the log by itself.
    others = [
        (252, "another process", "follows the log, 1 ms later"),
        (488, "a durable consumer", "continues after a crash"),
        (724, "the past", "db.at(4): the file as it was"),
    ]
    for x, name, effect in others:
        parts += [box(x, 290, 212, 58, fill=CARD, stroke=AMBER)]
        parts += [
            text(x + 12, 314, name, colour=AMBER, more='font-weight="600"'),
            text(x + 12, 334, effect, size=12),
        ]
    parts += [arrow((342, 224), (342, 288), dashed=True)]
    parts += [
        arrow((342, 256), (594, 256), (594, 288), dashed=True),
        arrow((594, 256), (830, 256), (830, 288), dashed=True),
    ]
    parts += [
        text(24, 316, "The log is read", colour=SOFT, size=12),
        text(24, 333, "from the same file:", colour=SOFT, size=12),
    ]
    title = "A write goes to the log; the router finds its feeds; other processes, consumers and the past read the log"
    return picture(960, 372, title, *parts)
