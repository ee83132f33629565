"""Modules below `torch._C`, which is one extension module here."""
