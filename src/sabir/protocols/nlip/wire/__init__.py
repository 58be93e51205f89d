"""NLIP's codecs: JSON, CBOR, AMQP, and the rules that all of them share."""
