"""The parts of `rushlight.serialization`: `pickler` (pickling of objects), `writer` (the archive), `reader` (loading),
`rebuild` (functions that a checkpoint may call), `storage_classes` (names of storages), `locations` (devices of
storages), `options` (defaults), `allowed` (names that the program allows), `errors` (torch's messages), `inspect` (reports
about a file)."""
