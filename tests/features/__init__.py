"""What was asked of rushlight, feature by feature: each test bears the area and the number of its feature, and its docstring
says what the feature is (`test_jit_14_tables` is JIT-14).

One file per area, and in it one test per feature with examples of its own; what a feature promises of everything (all shapes,
all operators) is shown at length elsewhere in the tests. `test_areas.py` says which features have no test, and why.
"""
