"""Views: the results of feeds, kept up to date from change to change: selections, points, windows, aggregates,
unions.

base            the protocol of a view: seed, advance, report
axes            the properties of documents by which a change finds its views
source          the documents of a view: a part of a table, or of an index
select          a table or a part of it, through filters and maps; one document; every table as it is
window          an ordered result, with or without a skip and a limit
accumulators    count, sum, avg, min and max of values that are added and removed
aggregate       a value computed from many, or for each group
group_list      the list of groups of an aggregate, filtered, ordered and cut
distinct        the different values of a result
union           several views as one
"""
