"""Tools that examine and rescue a file.

doctor     whether a file agrees with itself
figures    its tables, and the room that it takes
salvage    the documents that can still be read from the raw pages of a damaged file
"""
