"""Revision trees against a naive model: a graph of revisions that is the union of all that was told."""

from __future__ import annotations

from itertools import permutations

from hypothesis import given, settings
from hypothesis import strategies as st

from reactdb.dialects.couchdb.trees import Leaf, Path, Rev, graft, missing_revisions, rank_leaves
from tests.support.scaling import examples

Node = tuple[int, str]


class NaiveTree:
    """Every revision with its parent, where one was told."""

    def __init__(self) -> None:
        self.parents: dict[Node, Node | None] = {}
        self.deleted: dict[Node, bool] = {}

    def add(self, leaf: Leaf) -> None:
        nodes = [(rev.generation, rev.hash) for rev in leaf.path.revs()]
        for node, parent in zip(nodes, [*nodes[1:], None], strict=True):
            self.parents[node] = self.parents.get(node) or parent
        self.deleted.setdefault(nodes[0], leaf.is_deleted)

    def leaves(self) -> dict[Node, tuple[list[Node], bool]]:
        inner = {parent for parent in self.parents.values() if parent is not None}
        return {node: (self.path(node), self.deleted[node]) for node in self.parents if node not in inner}

    def path(self, node: Node) -> list[Node]:
        found = [node]
        while (parent := self.parents[found[-1]]) is not None:
            found.append(parent)
        return found

    def winner(self) -> Node:
        return max(self.leaves(), key=lambda node: (not self.deleted[node], node[0], hash_bytes(node[1])))


def hash_bytes(hash: str) -> bytes:
    """What CouchDB keeps of a hash."""
    is_hex = len(hash) == 32 and set(hash) <= set("0123456789abcdef")
    return int(hash, 16).to_bytes(16, "big") if is_hex else hash.encode()


@st.composite
def grafts(draw: st.DrawFn, most: int = 5) -> list[Leaf]:
    """Parts of one tree: paths from some of its revisions, which may end anywhere."""
    parents: list[tuple[Node, Node | None]] = [((1, "a"), None)]
    for number in range(draw(st.integers(1, 9))):
        if draw(st.booleans()) or draw(st.booleans()):
            parent = draw(st.sampled_from([node for node, _ in parents]))
            letter = draw(st.sampled_from(("9", "A", "a", "z", "0" * 31, "7" * 31, "f" * 31)))
            parents.append(((parent[0] + 1, letter + str(number)), parent))
        else:
            parents.append(((draw(st.integers(1, 3)), f"r{number}"), None))
    parent_of = dict(parents)
    found = []
    dead = {node: draw(st.booleans()) for node in parent_of}
    for _ in range(draw(st.integers(1, most))):
        node: Node | None = draw(st.sampled_from(sorted(parent_of)))
        assert node is not None
        start, ids, first = node[0], [], node
        depth = draw(st.integers(1, 9))
        while node is not None and len(ids) < depth:
            ids.append(node[1])
            node = parent_of[node]
        found.append(Leaf(Path(start, tuple(ids)), dead[first], str(first)))
    return found


def told(leaves: list[Leaf]) -> dict[Node, tuple[list[Node], bool]]:
    return {
        tuple(leaf.path.rev): ([tuple(rev) for rev in leaf.path.revs()], leaf.is_deleted) for leaf in leaves
    }


def grown(parts: list[Leaf]) -> list[Leaf]:
    leaves: list[Leaf] = []
    for part in parts:
        found = graft(leaves, part)
        leaves = leaves if found is None else found
    return leaves


@settings(max_examples=examples(300), deadline=None, derandomize=True)
@given(grafts())
def test_grafts_give_what_the_naive_tree_has_in_any_order(parts: list[Leaf]) -> None:
    naive = NaiveTree()
    for part in parts:
        naive.add(part)
    for order in permutations(parts):
        leaves = grown(list(order))
        assert told(leaves) == naive.leaves()
        assert tuple(rank_leaves(leaves)[0].path.rev) == naive.winner()
        assert all(leaf.content == str(tuple(leaf.path.rev)) for leaf in leaves)


@settings(max_examples=examples(200), deadline=None, derandomize=True)
@given(grafts())
def test_a_graft_that_is_made_twice_changes_nothing(parts: list[Leaf]) -> None:
    leaves = grown(parts)
    assert all(graft(leaves, part) is None for part in parts)


@settings(max_examples=examples(200), deadline=None, derandomize=True)
@given(grafts(), st.integers(1, 4), st.sampled_from(["a", "9", "z1"]))
def test_what_is_missing_agrees_with_the_naive_tree(parts: list[Leaf], generation: int, name: str) -> None:
    naive = NaiveTree()
    for part in parts:
        naive.add(part)
    leaves = grown(parts)
    asked = [Rev(*node) for node in naive.parents] + [Rev(generation, name)]
    assert missing_revisions(leaves, asked) == [
        rev for rev in dict.fromkeys(asked) if tuple(rev) not in naive.parents
    ]
