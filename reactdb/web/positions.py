"""Positions: the id of a message, which the browser sends back when it returns.

    one feed        its token
    several feeds   their tokens by name, as in the query of a URL: `todos=1ad9.c6ac.7&users=1ad9.c6ac.7`

There are two words beside tokens. `new` means that no token leads to the rest: the client begins anew, after a `reset`. `end`
means that the feed has ended for good, and that the client does not come back.

Rule of this file: text only. Each id is ASCII without spaces, because browsers send it in a header.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import parse_qsl, urlencode

NEW: Final = "new"
END: Final = "end"


def join(tokens: Mapping[str | None, str | None]) -> str:
    """The id for the tokens of all feeds; None for a token: there is none."""
    texts = {name: NEW if token is None else token for name, token in tokens.items()}
    return texts[None] if None in texts else urlencode([(name or "", text) for name, text in texts.items()])


def split(text: str | None, names: Iterable[str | None]) -> dict[str | None, str | None]:
    """The token of each feed; NEW where an id has none for it. Without an id: None for all.

    It raises nothing: the text comes from outside, and a wrong token is found out when the feed is opened.
    """
    if not text:
        return dict.fromkeys(names)
    try:
        tokens: dict[str, str] = dict(parse_qsl(text, max_num_fields=1_000))
    except ValueError:
        tokens = {}
    return {name: text if name is None else tokens.get(name, NEW) for name in names}
