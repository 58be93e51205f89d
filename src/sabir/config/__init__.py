"""The configuration file: types, loading, validation, and the gateway it describes."""
