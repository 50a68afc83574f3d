"""How fast labkit is, beside what a reader would use instead. Run it with `make bench` or `python -m benchmarks`.

Every figure is a ratio between things that took turns in one run: medians of at least five rounds, two threads for
everyone. Before anything is timed, the contestants are held against each other: they must compute the same.
"""

THREADS = 2
