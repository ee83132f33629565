"""What the loader is made of, in the order in which a batch meets it.

`DataLoader` (in `dataloader`) makes an `iterator` for each pass, which asks the sampler for indices; `position` knows where in the order it stands, and where a
resumed pass goes on. Without workers a fetcher (`fetch`) loads the samples and joins them (`collate`) at once. With workers
`pool` keeps one `WorkerProcess` for each: the indices go as a `Task` over the `wire`, a pipe of `rushlight.multiprocessing`, to the
loop in `worker`, which fetches as above and sends a `Result` back; its tensors travel as handles on shared memory. The pool
waits for results and for deaths together, and the iterator puts the batches in order and pins them (`pin_memory`).

Beside that way: `share` freezes a dataset into memory that all workers read; `randomness` gives samples random states of their
own; `info` is what a dataset may ask about its worker; `failure` brings exceptions back; `flight_recorder` and `memory` are
what is known of a worker that died.
"""
