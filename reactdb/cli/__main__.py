"""`python -m reactdb.cli`: runs the command if its script is not on the path."""

from reactdb.cli import main

main(prog_name="reactdb")
