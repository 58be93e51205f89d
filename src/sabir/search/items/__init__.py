"""Items: schema.org objects and the attributes derived from them."""
