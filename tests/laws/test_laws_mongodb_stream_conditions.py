"""Laws of images and `$match`: a condition is tested as soon as its fields are there, and on a finished event says the same."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reactdb.dialects.mongodb import MongoError
from reactdb.dialects.mongodb.names import MongoNamespace
from reactdb.dialects.mongodb.scopes import StreamScope
from reactdb.dialects.mongodb.stream_stages import StreamPipeline
from tests.laws.test_laws_mongodb_routing import told
from tests.laws.test_laws_mongodb_streams import A, B, Shop
from tests.support.scaling import examples

pytestmark = pytest.mark.examples

PRE, POST = "fullDocumentBeforeChange", "fullDocument"
SHOP = StreamScope(MongoNamespace("shop"))
# Conditions, and the images that they depend on. What divides is an error where that is 0 or a text.
EVENT_CONDITIONS = [
    {"ns.coll": "a"},
    {"ns": {"$ne": {"db": "shop", "coll": "b"}}},
    {"operationType": {"$in": ["insert", "update"]}},
    {"operationType": {"$not": {"$eq": "fullDocument"}}, "ns.coll": "a"},
    {"updateDescription.updatedFields.v": {"$gte": 1}},
    {"$expr": {"$eq": ["$ns.coll", "a"]}},
    {"$expr": {"$let": {"vars": {"x": "$documentKey._id"}, "in": {"$gt": ["$$x", 0]}}}},
    {"$expr": {"$gte": [{"$divide": [1, "$updateDescription.updatedFields.v"]}, 0.5]}},
    {"$expr": {"$gte": [{"$divide": [1, "$documentKey._id"]}, 0.5]}},
    {"$or": [{"ns.coll": "a"}, {"operationType": "delete"}]},
    {"$expr": {"$eq": [{"$getField": {"field": "coll", "input": "$ns"}}, "a"]}},
    {"$comment": "fullDocument"},
]
POST_CONDITIONS = [
    {"fullDocument.v": {"$gte": 1}},
    {"fullDocument": None},
    {"$expr": {"$eq": ["$fullDocument.v", "$documentKey._id"]}},
    {"$expr": {"$gte": [{"$divide": [1, "$fullDocument.v"]}, 0.5]}},
    {"$or": [{"fullDocument.v": 1}, {"ns.coll": "a"}]},
]
PRE_CONDITIONS = [
    {"fullDocumentBeforeChange.v": {"$lt": 2}},
    {"fullDocumentBeforeChange.v": {"$exists": False}},
    {"$expr": {"$ne": ["$fullDocumentBeforeChange.v", 0]}},
    {"$or": [{"ns.coll": "a"}, {"$nor": [{"fullDocumentBeforeChange.v": 1}]}]},
]
BOTH_CONDITIONS = [
    {"$expr": {"$lt": ["$fullDocumentBeforeChange.v", "$fullDocument.v"]}},
    {"$expr": {"$ne": ["$$ROOT.fullDocument.v", 1]}},
    {"$expr": {"$eq": [{"$type": {"$getField": "fullDocument"}}, "object"]}},
    {"$expr": {"$let": {"vars": {"CURRENT": "$$ROOT"}, "in": {"$eq": ["$fullDocument.v", 1]}}}},
    {"$jsonSchema": {"properties": {"fullDocument": {"bsonType": "object"}}}},
]
CONDITIONS = st.sampled_from(
    [
        (condition, frozenset(needs))
        for conditions, needs in (
            (EVENT_CONDITIONS, ()),
            (POST_CONDITIONS, (POST,)),
            (PRE_CONDITIONS, (PRE,)),
            (BOTH_CONDITIONS, (PRE, POST)),
        )
        for condition in conditions
    ]
)
# Also as a conjunct of `$and`, or denied twice.
WRAPPED = st.builds(
    lambda wrap, one: (wrap(one[0]), one[1]),
    st.sampled_from([lambda one: one, lambda one: {"$and": [one]}, lambda one: {"$nor": [{"$nor": [one]}]}]),
    CONDITIONS,
)
WRITES = st.tuples(
    st.sampled_from(["insert", "update", "update", "replace", "delete"]),
    st.sampled_from([A, B]),
    st.integers(0, 2),
    st.integers(0, 2),
)
STEPS = st.one_of(
    WRITES, WRITES, WRITES, st.tuples(st.just("images"), st.sampled_from([A, B]), st.booleans())
)


class ImagesShop(Shop):
    """Collections that keep images now and then."""

    def _images(self, namespace, is_on):
        self.spaces.modify(namespace, {"changeStreamPreAndPostImages": {"enabled": is_on}})

    def stream(self, options, *stages):
        return self.streams.open(SHOP, [{"$changeStream": options}, *stages])


def answer(stages, event):
    """Whether an event passes, or the code of the error that it is."""
    try:
        return StreamPipeline(stages).apply(event) is not None
    except MongoError as error:
        return error.code


def is_missing(image, event, options):
    kinds = ("update",) if image == POST else ("update", "replace", "delete")
    return options[image] == "required" and event["operationType"] in kinds and event.get(image) is None


def possible(event, parts, stages, options):
    """What can become of an event: True, it is given; False, it is not; or the code of an error."""
    answers = [(answer([{"$match": match}], event), needs) for match, needs in parts]
    lookups = [image for image in (PRE, POST) if options[image] not in ("off", "default")]
    lacks = [image for image in lookups if is_missing(image, event, options)]
    whole = answer(stages, event)
    if all(type(one) is bool for one, _ in answers):
        for place, image in enumerate(lookups):
            if not all(one for one, needs in answers if needs.isdisjoint(lookups[place:])):
                return {False}
            if image in lacks:
                return {47}
        return {whole}
    # A condition that is an error is none where the event is not given because of another one, which may be tested before.
    return {
        whole,
        *({47} if lacks else ()),
        *({False} if any(one is False for one, _ in answers) else ()),
    } - ({True} if lacks else set())


@given(
    st.lists(STEPS, min_size=1, max_size=12),
    st.lists(WRAPPED, min_size=1, max_size=4),
    st.lists(st.booleans(), min_size=4, max_size=4),
    st.sampled_from(["default", "updateLookup", "whenAvailable", "required"]),
    st.sampled_from(["off", "whenAvailable", "required"]),
)
@settings(max_examples=examples(300), deadline=None)
def test_conditions_say_of_an_event_what_they_say_of_it_when_it_is_finished(
    story, parts, together, post, pre
):
    """Whatever is a condition of its own `$match`, or one of several, and whichever images there are."""
    options = {POST: post, PRE: pre}
    matches = []
    for (condition, _), joins in zip(parts, together, strict=False):
        if joins and matches:
            matches[-1].append(condition)
        else:
            matches.append([condition])
    stages = [{"$match": {"$and": several} if len(several) > 1 else several[0]} for several in matches]
    shop = ImagesShop(":memory:")
    try:
        start = shop.open(SHOP, {}).token
        shop.do(("create", A))
        shop.do(("create", B))
        for step in story:
            shop.do(step)
        lenient = {name: mode.replace("required", "whenAvailable") for name, mode in options.items()}
        finished = shop.stream({**lenient, "startAfter": start}).batch().events
        events, code = told(shop.stream({**options, "startAfter": start}, *stages))
    finally:
        shop.close()

    for event in finished:
        can = possible(event, parts, stages, options)
        if events and events[0] == repr(event):
            assert True in can
            events.pop(0)
        elif not events and code is not None and code in can:
            return
        else:
            assert False in can
    assert ([], None) == (events, code)
