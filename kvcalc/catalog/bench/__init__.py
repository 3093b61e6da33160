"""Results of the engines' own benchmarks, and logs of requests: one file a format, told apart by their keys."""
