"""What was asked of rushlight, row by row: each test bears the id of its row in the table of features.

One file per area, and in it one test per row with the row's own examples; what a row promises of everything (all shapes, all
operators) is shown at length elsewhere in the tests. `test_areas.py` says which rows have no test, and why.
"""
