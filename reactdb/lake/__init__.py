"""Lake: files of a fleet, how far each has been read, and folders of Parquet that grow by whole parts.

    fleet         the files of a path, each pinned to one state
    reach         the newest and the read position of each file
    parts         a folder of Parquet that grows by whole parts
    target        a table of a lake, as the exporter writes it

Rule of this package: it stands on the store's read side and never on feeds, and it knows no Spark.
"""
