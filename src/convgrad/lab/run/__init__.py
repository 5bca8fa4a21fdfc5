"""Running files of cases: workers, journal, tables."""
