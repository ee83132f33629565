"""The parts of `rushlight.serialization`: `storages` (what a checkpoint calls its bytes), `pickler` (objects to
opcodes), `rebuild` (what a checkpoint may call), `locations` (on which device storages go), `errors` (torch's words)."""
