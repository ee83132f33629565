"""The timeouts of process groups."""

from datetime import timedelta

default_pg_timeout = timedelta(minutes=30)
"""How long a call waits for the other ranks."""

default_pg_nccl_timeout = timedelta(minutes=10)
"""How long a call of `nccl` waits for the other ranks."""
