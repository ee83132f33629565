"""Operators of programs: their schemas (`schema.py`), the call of one (`operator.py`), and the registry of all."""
