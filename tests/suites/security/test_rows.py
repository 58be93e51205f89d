"""Every threat of the security list, and the tests that try it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[2]
SPEC = TESTS.parent.parent / "shared" / "spec" / "security.md"

ROWS: dict[str, tuple[str, ...]] = {
    "SSRF via OAuth/card/file/webhook URLs and redirects": (
        "guard/egress/test_outbound.py::test_an_address_inside_is_refused_however_it_is_written",
        "guard/egress/test_outbound.py::test_a_redirect_is_checked_again",
        "suites/security/test_reach.py::test_a_url_in_a_message_is_not_fetched_by_any_door",
        "suites/security/test_reach.py::test_a_webhook_inside_is_refused",
        "suites/security/test_reach.py::test_a_peer_that_redirects_elsewhere_is_not_followed",
    ),
    "DNS-rebinding TOCTOU in the SSRF guard itself": (
        "guard/egress/test_outbound.py::test_dns_that_changes_after_the_check_gains_nothing",
        "suites/security/test_rebinding.py::test_a_webhook_whose_name_moves_inside_after_the_check_is_not_called",
        "suites/security/test_rebinding.py::test_the_connection_goes_to_the_address_that_was_checked",
    ),
    "DNS rebinding / Origin / Host of local servers": (
        "suites/security/test_front.py::test_a_host_that_is_not_ours_is_refused_by_every_door",
        "suites/security/test_front.py::test_an_origin_that_is_not_ours_is_refused_by_every_door",
        "suites/security/test_front.py::test_a_browser_page_of_elsewhere_opens_no_websocket",
    ),
    "Confused deputy (static client id, consent)": (
        "guard/test_policy.py::test_an_agent_asks_with_the_rights_of_its_caller_and_no_more",
        "suites/security/test_reach.py::test_an_agent_cannot_use_a_tool_that_its_caller_may_not",
        "suites/security/test_bus.py::test_the_other_node_asks_again_whether_one_may",
    ),
    "Token passthrough": (
        "suites/security/test_callers.py::test_a_forged_expired_foreign_or_confused_token_does_not",
        "suites/security/test_reach.py::test_no_credential_of_a_caller_passes_a_hop",
        "guard/egress/test_outgoing.py::test_a_callers_token_is_exchanged_and_never_given_to_another_caller",
        "protocols/nlip/peer/test_nlip_ws.py::test_credentials_do_not_follow_a_redirect",
        "suites/security/test_amqp.py::test_our_peer_shows_each_caller_in_the_message_and_keeps_nothing_of_it",
        "suites/security/test_bus.py::test_no_credential_crosses_the_bus",
    ),
    "State-handle hijack / session fixation": (
        "suites/security/test_handles.py::test_a_conversation_opens_for_its_caller_only",
        "suites/security/test_handles.py::test_a_forged_bent_or_truncated_token_opens_nothing",
        "suites/security/test_handles.py::test_a_session_cannot_be_fixed_in_advance",
        "suites/security/test_doors.py::test_a_conversation_of_one_caller_is_not_gone_on_with_by_another_through_any_door",
        "suites/security/test_amqp.py::test_a_conversation_opens_for_its_caller_only",
    ),
    "Scope creep": ("suites/security/test_callers.py::test_without_the_scope_a_known_caller_is_forbidden",),
    "Prompt injection, tool poisoning, malicious reply": (
        "guard/filters/test_filters.py::test_orders_to_a_model_are_found_however_they_are_hidden",
        "guard/filters/test_filters.py::test_a_finding_may_be_marked_or_only_logged",
        "suites/security/test_behind.py::test_orders_in_a_message_reach_no_agent_by_any_door",
        "suites/security/test_behind.py::test_a_malicious_reply_of_a_peer_does_not_leave",
        "suites/security/test_behind.py::test_a_tool_whose_description_gives_orders_is_not_offered",
        "suites/security/test_reach.py::test_a_filter_that_breaks_lets_nothing_through",
        "suites/security/test_reach.py::test_questions_back_and_their_answers_pass_the_filters_too",
    ),
    "Replay, duplicate webhooks": (
        "suites/security/test_callers.py::test_a_bound_token_is_worth_nothing_without_its_key_and_a_proof_is_good_once",
        "suites/security/test_callers.py::test_a_websocket_is_opened_with_a_proof_and_a_proof_opens_one",
        "suites/security/test_amqp.py::test_a_letter_again_is_answered_once_and_strangers_with_its_id_get_nothing_of_it",
        "suites/security/test_handles.py::test_anonymous_callers_with_the_same_idempotency_key_are_distinguished",
    ),
    "Task/tenant isolation": (
        "suites/security/test_handles.py::test_a_task_is_found_by_its_owner_only",
        "suites/security/test_doors.py::test_an_a2a_task_of_one_caller_is_not_there_for_another",
        "suites/security/test_grpc.py::test_a_conversation_and_a_task_are_there_for_their_owner_only",
        "suites/security/test_bus.py::test_a_conversation_and_a_task_are_their_callers_on_every_node",
    ),
    "Card forgery": (
        "protocols/a2a/door/test_cards.py::test_a_card_is_signed_with_the_configured_key",
        "protocols/a2a/door/test_cards.py::test_a_peer_believes_only_cards_that_known_keys_signed",
    ),
    "Size, depth, `$ref`, regex, decompression": (
        "suites/security/test_front.py::test_json_of_any_depth_is_refused_in_the_words_of_the_door",
        "suites/security/test_front.py::test_a_packed_body_is_not_unpacked",
        "suites/security/test_front.py::test_a_websocket_frame_over_the_limits_does_not_end_the_gateway",
        "suites/security/test_front.py::test_a_compressed_websocket_bomb_is_stopped_at_the_limit",
        "guard/filters/test_filters.py::test_no_text_makes_a_filter_slow",
        "suites/security/test_doors.py::test_a_schema_reference_is_not_followed",
        "suites/security/test_amqp.py::test_nonsense_is_refused_in_words_and_the_next_letter_is_answered",
        "suites/security/test_grpc.py::test_calls_that_are_too_large_too_deep_or_malformed_are_rejected_and_the_server_continues",
        "suites/security/test_bus.py::test_malformed_messages_between_nodes_are_rejected_and_the_node_continues",
        "suites/security/test_archives.py::test_an_archive_is_stored_unchanged",
    ),
    "Flooding, brute force": (
        "suites/security/test_callers.py::test_a_flood_is_rejected_with_a_retry_time_and_leaves_few_entries",
        "suites/security/test_callers.py::test_guessing_keys_is_slowed_down_for_that_address_only",
        "guard/quotas/test_limits.py::test_a_flood_is_rejected_before_authentication",
        "suites/security/test_amqp.py::test_a_flood_is_turned_away_and_others_are_still_answered",
        "suites/security/test_grpc.py::test_a_flood_is_rejected",
        "suites/security/test_grpc.py::test_guessing_keys_is_slowed_down",
    ),
    "Missing audit": (
        "guard/audit/test_audit.py::test_what_was_done_to_it_is_found_and_named",
        "suites/security/test_leaks.py::test_nothing_planted_is_in_logs_audit_or_metrics",
        "suites/security/test_callers.py::test_every_refusal_leaves_a_line_also_of_what_was_to_be_done_later",
    ),
    "Header/body mismatch at gateways": (
        "suites/security/test_doors.py::test_headers_that_say_other_than_the_body_are_refused",
        "suites/security/test_front.py::test_a_request_whose_end_is_in_doubt_is_not_answered_as_if_it_were_not",
    ),
    "abuse of the token echo (a peer plants secrets or markup to have them reflected)": (
        "suites/security/test_handles.py::test_the_echo_is_capped_in_number_and_size",
        "suites/security/test_handles.py::test_what_is_echoed_is_json_and_nothing_else",
        "suites/security/test_reach.py::test_tokens_that_a_peer_plants_are_not_reflected_to_our_callers",
    ),
    "token of one conversation or caller used in another": (
        "suites/security/test_handles.py::test_not_yours_and_not_there_look_the_same",
        "suites/security/test_handles.py::test_a_token_of_one_kind_is_not_one_of_another",
        "suites/security/test_callers.py::test_a_pass_is_issued_by_control_and_works_only_for_its_caller",
    ),
    "downgrade (strict to liberal, TLS off, anonymous to stable token, signature dropped)": (
        "suites/security/test_callers.py::test_wrong_credentials_are_refused_and_not_taken_for_nobody",
        "suites/security/test_amqp.py::test_this_door_rejects_anonymous_callers_where_anonymous_access_is_disabled",
        "suites/security/test_grpc.py::test_grpc_rejects_anonymous_callers_where_anonymous_access_is_disabled",
        "suites/security/test_bus.py::test_the_bus_rejects_clients_without_its_log_in",
        "suites/security/test_callers.py::test_a_client_certificate_names_its_caller_and_one_of_another_authority_does_not",
        "suites/security/test_profile.py::test_production_refuses_to_start_without_a_profile_it_meets",
        "server/test_serving.py::test_dev_tls_speaks_tls_1_3_and_nothing_older",
        "protocols/nlip/door/test_door_settings.py::test_a_strict_door_is_strict_also_to_a_client_that_prefers_lenient",
        "protocols/nlip/door/test_door_settings.py::test_frames_are_read_strictly_where_configured",
        "protocols/a2a/door/test_cards.py::test_a_peer_believes_only_cards_that_known_keys_signed",
    ),
    "control messages used to widen limits or switch off policy": (
        "suites/security/test_reach.py::test_control_only_narrows",
    ),
    "leak of system prompt, chain of thought, internals, other callers' context in replies": (
        "suites/security/test_leaks.py::test_a_reply_that_reveals_too_much_is_stopped",
        "suites/security/test_leaks.py::test_an_agent_that_fails_shows_nothing_of_why",
        "suites/security/test_amqp.py::test_a_failing_agent_shows_nothing_of_why_and_what_was_said_is_not_logged",
        "suites/security/test_grpc.py::test_a_failing_agent_shows_nothing_of_why_and_what_was_said_is_not_logged",
        "suites/security/test_bus.py::test_an_agent_that_fails_elsewhere_shows_nothing_of_why",
        "suites/security/test_handles.py::test_nobody_lists_the_conversations_of_strangers",
    ),
    "cost amplification (one request, many model calls)": (
        "suites/security/test_reach.py::test_one_request_does_not_become_many_model_calls",
        "guard/quotas/test_limits.py::test_a_turn_has_one_budget_for_all_agents_in_it",
        "suites/security/test_amqp.py::test_a_door_named_as_the_place_for_answers_does_not_talk_to_itself",
    ),
    "loops between agents and gateways": (
        "suites/security/test_reach.py::test_two_gateways_that_point_at_each_other_stop",
        "suites/security/test_reach.py::test_a_question_that_has_come_too_far_is_not_answered",
    ),
    "workspace and upload escapes, archive bombs": (
        "suites/security/test_handles.py::test_the_id_of_an_upload_is_not_a_file_path",
        "suites/security/test_handles.py::test_an_upload_place_is_for_its_caller_only",
        "suites/security/test_archives.py::test_an_archive_is_stored_unchanged",
        "suites/security/test_archives.py::test_a_name_is_only_a_name",
        "suites/security/test_archives.py::test_a_link_in_the_place_of_a_file_is_not_what_a_caller_gets",
    ),
    "multi-tenant bleed in caches, indexes, pools and metrics": (
        "guard/egress/test_outgoing.py::test_a_callers_token_is_exchanged_and_never_given_to_another_caller",
        "observe/test_observe.py::test_the_gateway_counts_its_turns",
        "suites/security/test_tenants.py::test_one_index_shows_each_tenant_its_own_site",
        "suites/security/test_tenants.py::test_what_is_listed_for_one_is_kept_for_nobody_else",
        "suites/security/test_tenants.py::test_on_one_connection_each_request_is_its_own_callers",
        "suites/security/test_tenants.py::test_callers_at_the_same_time_get_their_own_answers",
        "suites/security/test_tenants.py::test_metrics_name_no_caller_and_nothing_that_was_said",
        "server/test_keep_alive.py::test_the_caller_comes_from_the_connection_and_not_from_the_head",
        "protocols/mcp/door/proxy/test_message_proxy.py::test_callers_never_share_a_program",
    ),
    "insiders and changed logs": (
        "guard/audit/test_audit.py::test_the_anchor_reveals_a_missing_end_and_a_rewritten_chain",
        "suites/security/test_leaks.py::test_keys_at_rest_are_hashes_and_the_gateways_own_key_is_for_its_owner_only",
    ),
    "memory and index poisoning by ingested pages": (
        "suites/security/test_poison.py::test_a_poisoned_page_is_an_item_of_its_own_site_and_of_no_other",
        "suites/security/test_poison.py::test_orders_in_an_item_are_shown_as_data_or_stopped_by_the_filter",
        "suites/security/test_poison.py::test_what_a_source_no_longer_has_is_removed_on_sync",
        "suites/security/test_poison.py::test_a_page_that_points_inside_is_not_followed_there",
    ),
    "Mix-up, open redirect, localhost redirect impersonation": (
        "protocols/mcp/test_conformance.py::test_client_scenarios_pass_with_our_peer",  # auth/iss-wrong-issuer
        "suites/security/test_reach.py::test_a_peer_that_redirects_elsewhere_is_not_followed",
    ),
    "OAuth authorization-URL injection (javascript:, shell open)": (
        "suites/security/test_programs.py::test_an_authorization_page_that_is_not_on_the_web_is_not_opened",
        "suites/security/test_behind.py::test_url_elicitation_to_an_address_that_is_not_on_the_web_is_refused",
    ),
    "stdio in proxies / local server compromise": (
        "suites/security/test_programs.py::test_a_program_named_in_a_message_is_not_started",
    ),
}


# What a test is given, or calls, if a gateway runs in it.
RUNNING = frozenset(
    {"alice", "front", "guarded", "house", "pair", "running", "serve", "served", "serving", "sabir_serve", "stranger"}
)


def threats(text: str) -> list[str]:
    """The first cell of each row of the tables of threats."""
    found: list[str] = []
    in_table = False
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        if cells[:1] == ["threat"]:
            in_table = True
        elif not cells:
            in_table = False
        elif in_table and set(cells[0]) - set("-: "):
            found.append(cells[0])
    return found


def named(place: str) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """The test that is meant."""
    file, _, name = place.partition("::")
    for node in ast.walk(ast.parse((TESTS / file).read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name:
            return node
    return None


def runs_a_gateway(test: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    given = {argument.arg for argument in test.args.args}
    called = {node.func.id for node in ast.walk(test) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    return not RUNNING.isdisjoint(given | called)


@pytest.mark.skipif(not SPEC.exists(), reason="the list of threats is not beside the project")
def test_each_row_of_the_list_has_its_tests() -> None:
    rows = threats(SPEC.read_text())
    assert len(rows) > 20, "the tables of threats were not found"
    assert [row for row in rows if row not in ROWS] == [], "threats that nobody tries"
    assert [row for row in ROWS if row not in rows] == [], "rows that are not in the list"


@pytest.mark.parametrize("row", ROWS)
def test_each_threat_is_tried(row: str) -> None:
    tests = {place: named(place) for place in ROWS[row]}
    assert [place for place, test in tests.items() if test is None] == []
    assert any(test is not None and runs_a_gateway(test) for test in tests.values()), "not against a running gateway"
