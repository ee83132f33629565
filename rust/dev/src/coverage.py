"""Prints those of the names on its input that rushlight lacks."""

import sys

import rushlight

for name in sys.stdin.read().split():
    place = rushlight
    try:
        for part in name.removeprefix("torch.").split("."):
            place = getattr(place, part)
    except (AttributeError, ImportError):
        print(name)
