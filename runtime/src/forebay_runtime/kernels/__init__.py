"""The numerical seam: a small set of functions that a native or GPU kernel may replace one by one.

Shapes: T tokens, B sequences, H heads, K key/value heads, G query heads per key/value head, D head dim, L context,
I intermediate size, V vocabulary. `reference` holds the slow and obvious oracle of each.
"""
