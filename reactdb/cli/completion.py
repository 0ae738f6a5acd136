"""`reactdb completion`: the script with which a shell completes commands, options, files and tables."""

from __future__ import annotations

from typing import Final

import click
from click.shell_completion import get_completion_class

SHELLS: Final = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print the script for completion in a shell.

    \b
    bash, in ~/.bashrc:    eval "$(reactdb completion bash)"
    zsh, in ~/.zshrc:      eval "$(reactdb completion zsh)"
    fish:                  reactdb completion fish > ~/.config/fish/completions/reactdb.fish

    Then the Tab key completes commands, options, files and the tables of a file.
    """
    from reactdb.cli import main

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(main, {}, "reactdb", "_REACTDB_COMPLETE").source())
