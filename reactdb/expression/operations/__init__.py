"""Operations of expressions, one module for each family. A module registers its operations when it is imported.

logic       comparisons, and, or, not, branch, default
numbers     arithmetic
strings     text
times       dates and times
types       types and conversions
arrays      lists
objects     objects and their fields
sequences   what works on a sequence of values

Rule of this folder: an operation is a function of values. How a tree of operations is built and evaluated is in
`reactdb.expression`.
"""
