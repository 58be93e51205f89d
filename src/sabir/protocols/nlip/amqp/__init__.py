"""AMQP 1.0 connections, shared by NLIP's door and peer."""
