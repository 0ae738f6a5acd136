"""Arrow: documents as columns of Arrow, and columns as documents, strictly.

    decoding      many encoded documents at once, as dicts or straight as columns of Python values
    arrays        Python values as Arrow arrays, strictly: a value that does not fit is a `Misfit`
    inference     one type for every field of some documents
    variant       VARIANT: any value as two byte strings, with its types
    types         the columns of a type
    documents     columns of encoded documents, and the treatment of those that do not fit
    keys          many primary keys at once, from their bytes
    widening      the columns of a table that grows; what they do not take, by its path
    casting       rows of an older schema in a wider one
    rows          columns as documents, for rows that are inserted

Rule of this package: values in, arrays out, and the reverse. It knows no table, no file and no Spark, and only `pyarrow` is
imported.
"""
