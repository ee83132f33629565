"""The former place of some names of `torch.distributed.fsdp`."""
