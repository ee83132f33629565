"""The parts of the data loader, in the order in which a batch passes through them.

`DataLoader` (in `dataloader`) creates an `iterator` for each pass, which gets indices from the sampler. `position`
stores how far the pass is, and where a resumed pass continues. Without workers, a fetcher (`fetch`) loads the samples
and joins them (`collate`). With workers, `pool` has one `WorkerProcess` for each: the indices are sent as a `Task` over
the `wire`, a pipe of `rushlight.multiprocessing`, to the loop in `worker`. It fetches in the same way and sends a
`Result`, with tensors as handles to shared memory. The pool waits for results and for ended workers at the same time.
The iterator puts batches in order and pins them (`pin_memory`).

Other modules: `share` moves a dataset into shared memory; `randomness` gives samples their own random states;
`failure` transfers exceptions; `flight_recorder` and `memory` provide information about a worker that has crashed.
"""
