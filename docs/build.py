"""python -m docs.build: the pages of `docs/` as a site, with search, light and dark, and every link checked.

    python -m docs.build            to build/site
    python -m docs.build FOLDER     to another folder

It needs the extra `site`: `python -m pip install -e ".[site]"`. Nothing is fetched, neither now nor by the finished pages.

The builder is Zensical. Its authors also made Material for MkDocs, but MkDocs is no longer maintained, and Material only gets
repairs. Both built these pages in about 3 s. Links are checked by `problems_of` below, which reads the finished pages, so it
does not depend on the builder.

The navigation is `docs/index.md`: its headings are the sections, its links are the pages, in the same order. So a page that the
index names, as a test demands, is also in the navigation.

A page that links to a file outside `docs/` (an example, the changelog) finds a page of that file on the site.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

ROOT: Final = Path(__file__).resolve().parent.parent
DOCS: Final = ROOT / "docs"
FENCED: Final = re.compile(r"^```.*?^```[ \t]*$", re.MULTILINE | re.DOTALL)
LINK: Final = re.compile(r"(!?\[[^\]\n]*(?:\n[^\]\n]*)?\])\(([^)\s]+)\)")
LANGUAGES: Final = {".py": "python", ".js": "javascript", ".html": "html", ".md": "markdown", ".toml": "toml"}


STYLE: Final = """/* A name in the first column of a table stays in one line; a wide table scrolls by itself. */
.md-typeset td:first-child code { white-space: nowrap; word-break: keep-all; }
"""


def version() -> str:
    found = re.search(
        r'^__version__ = "(.+)"', (ROOT / "reactdb/__init__.py").read_text("utf-8"), re.MULTILINE
    )
    assert found is not None
    return found[1]


# ---------------------------------------------------------------------------------------------------------------
# The pages that the builder reads


def copy_pages(to: Path) -> None:
    """All pages and pictures of `docs/`, and a page for each other file of the project that they link to."""
    waiting = {path for path in DOCS.rglob("*") if path.suffix in {".md", ".svg", ".png", ".gif", ".webp"}}
    done: set[Path] = set()
    while waiting:
        source = waiting.pop()
        done.add(source)
        target = to / place_of(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.suffix == ".md" or source.is_dir():
            text = page_of(source)
            linked = {path for path in linked_files(text, source) if DOCS not in path.parents}
            waiting |= linked - done
            # The changelog has every word, and is rarely the page that a reader searches.
            front = "---\nsearch:\n  exclude: true\n---\n\n" if source == ROOT / "CHANGELOG.md" else ""
            target.write_text(front + with_links_of_the_site(text, source), encoding="utf-8")
        elif target.suffix == ".md":
            target.write_text(page_of(source), encoding="utf-8")
        else:
            shutil.copy(source, target)


def place_of(source: Path) -> Path:
    """Where the page of a file or folder of the project is, below the folder that the builder reads."""
    if DOCS in source.parents:
        return source.relative_to(DOCS)
    path = source.relative_to(ROOT)
    if source.is_dir():
        return path / "index.md"
    if source.name == "README.md":
        return path.with_name("index.md") if path.parent.parts else Path("readme.md")
    if source.suffix == ".md" or source.suffix not in LANGUAGES:
        return path.with_name(path.name.lower())
    return path.parent / f"{path.name.replace('.', '-')}.md"


def page_of(source: Path) -> str:
    """The text of a page. A folder of an example is its README and its files."""
    if source.is_dir() or (source.name == "README.md" and source.parent.parent == ROOT / "examples"):
        folder = source if source.is_dir() else source.parent
        files = sorted(
            path for path in folder.rglob("*") if path.suffix in LANGUAGES and path.name != "README.md"
        )
        readme = folder / "README.md"
        text = readme.read_text("utf-8") if readme.exists() else ""
        if not text.startswith("# "):
            text = f"# {folder.name}\n\n{text}"
        return "\n".join([text, *(listing_of(file, folder) for file in files)])
    if source.suffix != ".md":
        return f"# {source.name}\n\n{listing_of(source, source.parent)}"
    return source.read_text("utf-8")


def listing_of(file: Path, folder: Path) -> str:
    name = file.relative_to(folder).as_posix()
    # Four backticks, because a file may hold three.
    return f'````{LANGUAGES[file.suffix]} title="{name}"\n{file.read_text("utf-8").rstrip()}\n````\n'


def linked_files(text: str, source: Path) -> set[Path]:
    base = source if source.is_dir() else source.parent
    found = (urlsplit(link) for _, link in LINK.findall(FENCED.sub("", text)))
    files = {(base / part.path).resolve() for part in found if part.path and not part.scheme}
    return {file for file in files if file.exists()}


def with_links_of_the_site(text: str, source: Path) -> str:
    """Links to pages at their places on the site; `file=` of a code block becomes its title."""
    base = source if source.is_dir() else source.parent
    here = place_of(source).parent

    def moved(found: re.Match[str]) -> str:
        path, hash_, anchor = found[2].partition("#")
        target = (base / path).resolve()
        if not path or ":" in path or not target.exists():
            return found[0]
        return f"{found[1]}({os.path.relpath(place_of(target), here)}{hash_}{anchor})"

    pieces, end = [], 0
    for block in FENCED.finditer(text):
        pieces += [LINK.sub(moved, text[end : block.start()])]
        pieces += [re.sub(r"\A```(\w+) file=(\S+)", r'```\1 title="\2"', block[0])]
        end = block.end()
    return "".join([*pieces, LINK.sub(moved, text[end:])])


# ---------------------------------------------------------------------------------------------------------------
# The navigation and the settings


def navigation() -> list[dict[str, Any]]:
    """Sections of `docs/index.md` from its headings, with the pages that each links to first."""
    root: list[dict[str, Any]] = [{"Start": "index.md"}]
    levels, seen = {1: root}, {DOCS / "index.md"}
    heading_or_link = re.compile(rf"^(#+) +(.+)$|{LINK.pattern}", re.MULTILINE)
    for found in heading_or_link.finditer(FENCED.sub("", (DOCS / "index.md").read_text("utf-8"))):
        if found[1]:
            depth = len(found[1])
            if depth > 1:
                levels = {key: value for key, value in levels.items() if key < depth}
                levels[depth] = []
                levels[max(key for key in levels if key < depth)].append({found[2]: levels[depth]})
            continue
        target = (DOCS / found[4].partition("#")[0]).resolve()
        # The first link counts. Links in front of the first section are doors, and doors lead into sections.
        if max(levels) > 1 and target not in seen and target.exists() and not found[3].startswith("!"):
            seen.add(target)
            title = title_of(target)
            levels[max(levels)].append({title: place_of(target).as_posix()})
    return without_empty(root)


def without_empty(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    kept = []
    for entry in entries:
        ((name, content),) = entry.items()
        content = without_empty(content) if isinstance(content, list) else content
        if content:
            kept.append({name: content})
    return kept


def title_of(page: Path) -> str:
    found = re.search(r"^# (.+)$", page_of(page), re.MULTILINE)
    return found[1].replace("`", "") if found else page.stem


def settings(pages: Path, site: Path) -> dict[str, Any]:
    """What Zensical reads. Written as JSON within TOML's rules by `toml`."""
    name = version()
    return {
        "project": {
            "site_name": "reactdb",
            "site_description": "The embedded database that a Python process can subscribe to.",
            "copyright": f"For reactdb {name}. Licence: Apache-2.0.",
            "docs_dir": pages.name,
            "site_dir": str(site),
            "nav": navigation(),
            "extra_css": ["site.css"],
            "theme": {
                "language": "en",
                # The reader's own fonts: others would be fetched.
                "font": False,
                "features": [
                    "content.code.copy",
                    "navigation.footer",
                    "navigation.path",
                    "navigation.tabs",
                    "navigation.top",
                    "search.highlight",
                    "toc.follow",
                ],
                "palette": [
                    {
                        "media": f"(prefers-color-scheme: {scheme})",
                        "scheme": palette,
                        "primary": "teal",
                        "accent": "teal",
                        "toggle": {"icon": f"lucide/{icon}", "name": f"Switch to {other}"},
                    }
                    for scheme, palette, icon, other in (
                        ("light", "default", "sun", "dark"),
                        ("dark", "slate", "moon", "light"),
                    )
                ],
            },
            "markdown_extensions": {
                "attr_list": {},
                "md_in_html": {},
                "sane_lists": {},
                "tables": {},
                # The same anchors as code hosts make, so that a link is right in both places.
                "toc": {
                    "permalink": True,
                    "slugify": {"object": "pymdownx.slugs.slugify", "kwds": {"case": "lower"}},
                },
                "pymdownx": {
                    "highlight": {"pygments_lang_class": True},
                    "superfences": {},
                },
            },
            "plugins": {"search": {}},
        }
    }


def toml(tables: dict[str, Any], path: str = "") -> str:
    """The settings as TOML: a table for each dict, JSON's spelling for texts and numbers, which TOML shares."""
    plain = {key: value for key, value in tables.items() if not isinstance(value, dict)}
    lines = [f"[{path}]"] if path else []
    lines += [f"{key} = {value_of(value)}" for key, value in plain.items()]
    inner = [
        toml(value, f"{path}.{key}" if path else key)
        for key, value in tables.items()
        if isinstance(value, dict)
    ]
    return "\n".join([*lines, "", *inner])


def value_of(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(value_of, value))}]"
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(key)} = {value_of(one)}" for key, one in value.items()) + " }"
    return json.dumps(value, ensure_ascii=False)


# ---------------------------------------------------------------------------------------------------------------
# The finished site


class Page(HTMLParser):
    """The anchors of a finished page, and what it links to and loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: set[str] = set()
        self.loaded: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if given.get(name)}
        if tag == "a" and "href" in given:
            self.links.add(given["href"])
        elif tag in {"script", "img", "source", "iframe"} and given.get("src"):
            self.loaded.add(given["src"])
        elif tag == "link" and given.get("rel") in {
            "stylesheet",
            "icon",
            "preconnect",
            "preload",
            "modulepreload",
        }:
            self.loaded.add(given.get("href", ""))


def problems_of(site: Path) -> Iterator[str]:
    """Links and anchors that lead nowhere, and files that a page would fetch from another host."""
    pages = {path: Page(path.read_text("utf-8")) for path in sorted(site.rglob("*.html"))}
    if not pages:
        yield "there is no page"
    for path, page in pages.items():
        name = path.relative_to(site).as_posix()
        for link in sorted(page.links | page.loaded):
            parts = urlsplit(link)
            if parts.scheme in {"mailto", "data", "javascript"}:
                continue
            if parts.scheme or parts.netloc:
                if link in page.loaded:
                    yield f"{name} loads {link}"
                continue
            # The page for unknown addresses has links from the top of the server.
            base = site if parts.path.startswith("/") else path.parent
            target = (base / unquote(parts.path).lstrip("/")).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.exists():
                yield f"{name} links to {link}, which does not exist"
            elif (
                parts.fragment
                and target in pages
                and unquote(parts.fragment) not in pages[target].anchors | {""}
            ):
                yield f"{name} links to {link}, but that page has no such heading"
    for style in sorted(site.rglob("*.css")):
        for link in re.findall(r"(?:@import|url\()\s*['\"]?(https?://[^'\")]+)", style.read_text("utf-8")):
            yield f"{style.relative_to(site)} loads {link}"


def build(site: Path) -> list[str]:
    """Builds the site into an empty or new folder, and gives what is wrong with it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        copy_pages(folder / "pages")
        (folder / "pages" / "site.css").write_text(STYLE, encoding="utf-8")
        (folder / "zensical.toml").write_text(
            toml(settings(folder / "pages", folder / "site")), encoding="utf-8"
        )
        done = subprocess.run(
            [sys.executable, "-m", "zensical", "build", "--clean"],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            return [f"Zensical failed:\n{done.stdout}{done.stderr}"]
        if site.exists():
            shutil.rmtree(site)
        shutil.copytree(folder / "site", site)
    return list(problems_of(site))


def main() -> None:
    parser = argparse.ArgumentParser(description="Build the pages of docs/ as a site, and check its links.")
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "build" / "site")
    site = parser.parse_args().folder.resolve()
    if site.exists() and not (site / "index.html").exists() and any(site.iterdir()):
        sys.exit(f"{site} holds something else than a site: name another folder")
    problems = build(site)
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        sys.exit(1)
    print(f"{sum(1 for _ in site.rglob('*.html'))} pages in {site}")


if __name__ == "__main__":
    main()
