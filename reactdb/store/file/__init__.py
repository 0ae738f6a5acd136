"""The SQLite file itself. To be read in this order:

sqlite             the one SQLite module, connections, and its errors in our words
identity           the file behind a path, and the files that this process must not open
files              the files of a database; making and removing one
locks              whether locks on this file can be trusted, and who holds one
pages              SQLite's file format, read without SQLite after damage
wal_check          does the write-ahead log beside a file belong to it
names              has the file one name, and is the log of that name the only one
open_checks        all checks before a connection may write, in order
immutable          reading a file in a folder without write access
wal_index, guard   is the file still the one that was opened, and is its log whole
file_events        the reports of the system that a file was written
copying            whether a process is making a backup of the file
flush              whether the log is on the disk, and the repair after a failed flush
external_writers   checks for the traces of another program
fork               how a child of fork() treats its parent's files
"""
