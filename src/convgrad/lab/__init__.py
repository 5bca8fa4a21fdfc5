"""Many cases: files of them, golden data, judgements, runs, reports, benchmarks."""
