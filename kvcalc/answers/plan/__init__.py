"""`kvcalc plan`: the cheapest deployments that meet a workload and its targets."""
