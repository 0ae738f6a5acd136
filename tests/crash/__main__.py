"""`python -m tests.crash`: the long crash tests. One line a scenario and a summary; the exit code is 1 if anything was lost.

python -m tests.crash --kills 2000              processes that are killed
python -m tests.crash --auto-kills 2000         the same under `retention="auto"`, with little room
python -m tests.crash --prove                   the same with stores that are broken: each must be noticed
python -m tests.crash --power-images 20000      power cuts
python -m tests.crash --worker-kills 2000       processes that share a durable consumer
python -m tests.crash --keeper-kills 2000       processes that keep materialized views
python -m tests.crash --blob-kills 1000         processes that put blobs, and documents with them
python -m tests.crash --tree-kills 1000         processes that write CouchDB's revisions
python -m tests.crash --sync-kills 200          processes that synchronise two files over HTTP
python -m tests.crash --unique-kills 1000       processes that write the same values under a unique index
"""

from __future__ import annotations

import argparse
import sys


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.crash", description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=0, metavar="N", help="kill so many processes")
    parser.add_argument(
        "--auto-kills",
        type=int,
        default=0,
        metavar="N",
        help='kill so many processes under retention="auto"',
    )
    parser.add_argument(
        "--prove", action="store_true", help="kill processes with a broken store: each must be noticed"
    )
    parser.add_argument(
        "--power-images", type=int, default=0, metavar="N", help="look at so many images of power cuts"
    )
    parser.add_argument(
        "--worker-kills", type=int, default=0, metavar="N", help="kill so many workers of durable consumers"
    )
    parser.add_argument(
        "--keeper-kills", type=int, default=0, metavar="N", help="kill so many keepers of materialized views"
    )
    parser.add_argument(
        "--blob-kills", type=int, default=0, metavar="N", help="kill so many processes that put blobs"
    )
    parser.add_argument(
        "--tree-kills", type=int, default=0, metavar="N", help="kill so many processes that write revisions"
    )
    parser.add_argument(
        "--sync-kills", type=int, default=0, metavar="N", help="kill so many processes that synchronise"
    )
    parser.add_argument(
        "--unique-kills", type=int, default=0, metavar="N", help="kill so many processes with a unique index"
    )
    parser.add_argument("--seed", type=int, default=1, help="of all random choices (default: 1)")
    parser.add_argument("--jobs", type=int, default=1, help="processes that test at once (default: 1)")
    options = parser.parse_args(arguments)
    wanted = (
        options.kills,
        options.auto_kills,
        options.power_images,
        options.worker_kills,
        options.keeper_kills,
        options.blob_kills,
        options.tree_kills,
        options.sync_kills,
        options.unique_kills,
    )
    if not (options.prove or any(wanted)):
        parser.error(
            "say what to do: --kills N, --auto-kills N, --prove, --power-images N, --worker-kills N, --keeper-kills N,"
            " --blob-kills N, --tree-kills N, --sync-kills N or --unique-kills N"
        )
    status = 0
    # Each is imported where it is wanted: they need different things of the machine.
    if options.kills:
        from . import kills

        status |= kills.run(options.kills, seed=options.seed, jobs=options.jobs)
    if options.auto_kills:
        from . import kills

        status |= kills.run(options.auto_kills, seed=options.seed, jobs=options.jobs, is_auto=True)
    if options.prove:
        from . import kills

        status |= kills.prove(seed=options.seed)
        from .keepers import Keepers
        from .workers import Workers

        status |= Workers.prove(seed=options.seed)
        status |= Keepers.prove(seed=options.seed)
    if options.power_images:
        from . import power

        status |= power.run(options.power_images, seed=options.seed, jobs=options.jobs)
    if options.worker_kills:
        from .workers import Workers

        status |= Workers.long_run(options.worker_kills, seed=options.seed)
    if options.keeper_kills:
        from .keepers import Keepers

        status |= Keepers.long_run(options.keeper_kills, seed=options.seed)
    if options.blob_kills:
        from . import attachments

        status |= attachments.main(options.blob_kills, seed=options.seed)
    if options.tree_kills:
        from . import trees

        status |= trees.main(options.tree_kills, seed=options.seed)
    if options.sync_kills:
        from . import syncs

        status |= syncs.main(options.sync_kills, seed=options.seed)
    if options.unique_kills:
        from . import unique

        status |= unique.main(options.unique_kills, seed=options.seed)
    return status


if __name__ == "__main__":
    sys.exit(main())
