"""Arrow: documents as columns of Arrow, and columns as documents, strictly.

    decoding      many encoded documents at once, as dicts or straight as columns of Python values
    arrays        Python values as Arrow arrays, strictly: a value that does not fit is a `Misfit`
    inference     one type for every field of some documents
    types         Arrow's own types for `arrays` and `inference`; `reactdb.spark.columns` has Spark's
    rows          columns as documents, for rows that are inserted

Rule of this package: values in, arrays out, and the reverse. It knows no table, no file and no Spark, and only `pyarrow` is
imported.
"""
