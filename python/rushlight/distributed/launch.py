"""``python -m rushlight.distributed.launch``: the old name of ``run``. Programs get ``--local-rank`` too where they ask for it."""

from rushlight.distributed.run import get_args_parser, main, parse_args, run

__all__ = ["get_args_parser", "launch", "main", "parse_args"]

#: Runs a parsed command line.
launch = run

if __name__ == "__main__":
    main()
