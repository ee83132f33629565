"""The parts of `rushlight.serialization`: `pickler` (pickling of objects), `writer` (the archive), `reader` (loading),
`rebuild` (functions that a checkpoint may call), `storage_classes` (names of storages), `locations` (devices of
storages), `options` (defaults), `errors` (torch's messages), `inspect` (reports about a file)."""
