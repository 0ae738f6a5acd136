"""Tools that examine and rescue a file.

doctor     does a file agree with itself
figures    what is in it, and how much room it takes
salvage    the documents that can still be read from the raw pages of a damaged file
"""
