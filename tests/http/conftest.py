"""What the tests of the edge share: a real RabbitMQ, for the door that is reached by letters."""

from protocols.nlip.amqp.conftest import broker, prefix  # noqa: F401  # fixtures
