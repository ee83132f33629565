"""The parts of `rushlight.serialization`: `storages` (what a checkpoint calls its bytes), `pickler` (objects to
opcodes), `rebuild` (what a checkpoint may call), `locations` (on which device storages go), `options` (what a call does not
say), `replacing` (files that are replaced at once), `errors` (torch's words), `inspect` (a look into a file)."""
