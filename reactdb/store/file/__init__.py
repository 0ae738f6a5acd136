"""The SQLite file itself. To be read in this order:

sqlite             the one SQLite module, connections, and its errors in our words
identity           which file a path stands for, and which files this process must not open
files              what lies beside what; making and removing a database
locks              can locks on this file be trusted, and who has one
pages              SQLite's file format, read without SQLite, for what it cannot read
wal_check          does the write-ahead log beside a file belong to it
names              has the file one name, and is the log of that name the only one
opening            all that is checked before a connection may write, in order
immutable          reading a file where nothing can be made beside it
wal_index, guard   is the file still the one that was opened, and is its log whole
flush              is the log on the disk, and what to do when a flush has failed
external_writers   what another program may have done to the file
fork               what a child of fork() does with the files of its parent
"""
