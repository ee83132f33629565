"""The parts of `rushlight.serialization`: `pickler` (objects to opcodes), `writer` (the records around them), `reader` (back
again), `rebuild` (what a checkpoint may call), `storage_classes` (what it calls its bytes), `locations` (on which device
storages go), `options` (what a call does not say), `errors` (torch's words), `inspect` (a look into a file)."""
