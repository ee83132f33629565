"""What the loader is made of. `collate` and `fetch` build batches; `worker` runs in a worker process,
`pool` drives the workers from the parent, `channel` is the wire between them."""
