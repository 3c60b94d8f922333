"""Found by PySpark: it imports each top-level package named `pyspark_*` and registers its
`DefaultSource`. So `format("headrace")` needs no registration."""

from headrace.pipeline.source.data_source import HeadraceSource as DefaultSource

__all__ = ["DefaultSource"]
