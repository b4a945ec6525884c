"""The re-rank by a model (SRC-4): when it is asked, within which time, and what its answer may change."""
