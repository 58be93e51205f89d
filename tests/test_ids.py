"""Ids of messages (ACL-3): UUIDs that begin with the time."""

from __future__ import annotations

from itertools import pairwise
from uuid import RFC_4122, UUID

from sabir.ids import ordered_uuid


def test_ids_of_messages_are_uuids_in_the_order_of_time_and_never_the_same() -> None:  # ACL-3
    made = [ordered_uuid() for _ in range(5_000)]
    read = [UUID(text) for text in made]
    assert [str(item) for item in read] == made
    assert {(item.version, item.variant) for item in read} == {(7, RFC_4122)}
    assert len(set(made)) == len(made)
    assert all(one.int >> 80 <= other.int >> 80 for one, other in pairwise(read))
