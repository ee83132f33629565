"""``python -m rushlight.distributed.launch``: the old name of ``run``. Programs get ``--local-rank`` too where they ask for it."""

from rushlight.distributed.run import main

__all__ = ["main"]

if __name__ == "__main__":
    main()
