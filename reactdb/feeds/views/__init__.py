"""Views: the results of feeds, kept up to date from change to change: selections, points, windows, aggregates,
unions.

base            the protocol of a view: seed, advance, report
axes            by which properties of documents a change finds the views that it concerns
source          where a view's documents come from: a part of a table, or of one of its indexes
select          a table or a part of it, through filters and maps; one document; every table as it is
window          an ordered result, with or without a skip and a limit
accumulators    count, sum, avg, min and max of values that come and go
aggregate       one value of many, or one for each group
distinct        the different values of a result
union           several views as one
"""
