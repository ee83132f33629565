"""Operators of programs: their schemas (`schema.py`), the call of one and the registry of all (`operator.py`), the functions
that complete one (`register.py`), and their test (`opcheck.py`).
"""
