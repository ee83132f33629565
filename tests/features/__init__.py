"""The project's requirements, one test for each: the name of a test contains the area and the number of the
requirement, and its docstring states it (`test_jit_14_tables` is JIT-14).

There is one file per area. Each test has its own examples. Requirements about everything (all shapes, all operators)
have detailed tests elsewhere. `test_areas.py` lists the requirements without a test, and the reasons.
"""
