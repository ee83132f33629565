"""The parts of `rushlight.serialization`: `storage_classes` (what a checkpoint calls its bytes), `pickler` (objects to
opcodes), `rebuild` (what a checkpoint may call), `locations` (on which device storages go), `options` (what a call does not
say), `errors` (torch's words), `inspect` (a look into a file)."""
