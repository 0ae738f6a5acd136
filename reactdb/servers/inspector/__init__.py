"""The inspector: one page that shows a database at work, and the data for it. It needs the extra `server`.

application     inspector(db): the ASGI application, for a program's own server
server          InspectorServer: the same on a port of its own, for `reactdb open`
gate            the checks of each request: the host, the page that sends it, the token
routes          the paths and their functions; errors as answers
parameters      the parameters and bodies of requests
overview        the file and its tables
row_pages       pages of a table's documents: now and in the past, filtered and ordered
past_tables     tables as of an earlier seq
log_pages       pages of the log, and the history of a document
change_stream   the changes while they happen
shown_changes   a change as JSON
edits           inserts, replacements, deletions and undo
page_files      the files of the folder `page`

Rule of this folder: it shows and edits what a program could; it adds nothing to the file.
"""
