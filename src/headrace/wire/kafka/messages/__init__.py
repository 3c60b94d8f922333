"""Kafka's messages, one module per API, generated from Kafka's own schemas.

Import the module that you need (`from headrace.wire.kafka.messages import metadata`): nothing is
imported here on purpose, since a process uses a few dozen of them at most.
"""
