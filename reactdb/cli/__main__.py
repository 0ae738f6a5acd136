"""`python -m reactdb.cli`: the command where its script is not on the path."""

from reactdb.cli import main

main(prog_name="reactdb")
