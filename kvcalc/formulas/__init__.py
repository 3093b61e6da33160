"""The literature as pure functions: one formula, one function, one citation.

A swept formula uses operators alone (`+ - * / // **`), so one definition serves Python's exact integers, floats,
fractions and NumPy arrays of a million points; where two limits meet, both terms are returned apart and the caller
takes `max` or `numpy.maximum`. Annotations name the scalar types. With integer arrays mind 2**63; floats are safe.
"""
