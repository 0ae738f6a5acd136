"""reactdb in Spark: the change log as a data source and a sink."""
