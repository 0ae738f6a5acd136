"""Documents: how queries read them and how writes change them. Each module may import those after it.

write         what insert, update, replace and delete do to documents, inside one write transaction
computed_values
              the values of expressions in documents that are inserted
read          the result of a query, from one snapshot
extent        how many documents a query can concern, known before it is run
hints         messages about parts of a query that its author probably did not mean
counts        how many documents a query has, from the entries of an index or from keys
index_values  the different values of an index, for distinct and for the counts of groups
access_path   by which index or range of keys a query reads
aggregates    the values of aggregates, of documents that come in parts
steps         what each step of a query does to one element, and to a sequence of elements

Rule of this folder: it works on a snapshot or a transaction of the store, and knows neither SQL nor feeds.
"""
