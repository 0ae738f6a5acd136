"""Fuzzing: bytes that a stranger made up are given to everything that reads bytes from outside.

    target.py               what a target is, and when a run of it has failed
    generating.py           random values and random changes, which all targets share
    stored_bytes.py         targets: the codec, the format of keys, tokens of feeds and change streams
    texts.py                targets: JSON, conditions, Mango, multipart, paths and parameters
    bson_documents.py       target: BSON
    http_requests.py        target: whole HTTP requests, to CouchDB's and Aidbox's dialects
    mongodb_messages.py     target: MongoDB's wire messages
    rethinkdb_messages.py   target: RethinkDB's queries
    campaign.py             runs one target for some time, guided by coverage where Atheris is installed

    python -m tests.fuzz --minutes 10              all targets, one after the other
    python -m tests.fuzz --minutes 10 --target mango

The input of a target is what the outside sends: a request, a message, a text. So each file of `corpus/` can be read, and stays
what it is when a generator changes. `test_fuzz.py` runs all of them, and some hundred generated inputs from fixed seeds.

Rule of this package: whatever an input is, the answer is a value, one of reactdb's errors,
or the dialect's own refusal. Anything
else is a failure: another exception, a logged error, a closed connection, a run that takes seconds, memory that runs out.
"""
