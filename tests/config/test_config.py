"""One YAML file, SABIR_… variables, flags; wrong keys name the nearest right one."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from sabir.config.build import agent_of, gateway_of
from sabir.config.load import load, settings_of
from sabir.errors import ConfigError

MASSGEN = """
nlip:
  enabled: true
  schema_version: "1.0"
  router: {enable_message_tracking: true, enable_state_management: true, session_timeout_hours: 24}
  translation: {mcp_enabled: true, custom_tools_enabled: true, builtin_tools_enabled: true}
  tokens: {auto_generate_sessions: true, track_conversation_turns: true, persist_context_tokens: false}
agents:
  - id: "research_agent"
    backend: {type: "openai", model: "gpt-4"}
    nlip: {enabled: true, router_config: {default_timeout: 300}}
    system_message: "You are a research assistant."
  - id: "analysis_agent"
    backend: {type: "claude", model: "claude-3-sonnet"}
    nlip: {enabled: true, router_config: {enable_streaming: true, buffer_partial_responses: true}}
orchestrator:
  nlip: {enabled: true, coordinate_via_nlip: true}
"""


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "sabir.yaml"
    path.write_text(text)
    return path


def test_flags_beat_variables_and_variables_beat_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, "port: 1\nhost: localhost\nquotas: {burst: 7}\n")
    monkeypatch.setenv("SABIR_PORT", "2")
    monkeypatch.setenv("SABIR_QUOTAS__TURN_SECONDS", "5")
    settings = load(path)
    assert (settings.port, settings.host) == (2, "localhost")
    assert (settings.quotas.burst, settings.quotas.turn_seconds) == (7, 5)
    assert load(path, flags={"port": 3, "host": None}).port == 3


def test_without_a_file_there_are_defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    settings = load()
    assert (settings.host, settings.port, settings.home) == ("127.0.0.1", 8080, ".sabir")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("prot: 1", "unknown key prot: did you mean port?"),
        ("quotas: {brust: 1}", "unknown key quotas.brust: did you mean quotas.burst?"),
        ("agents: [{id: a, usee: echo}]", "unknown key agents[0].usee: did you mean agents[0].use?"),
        ("port: many", "port: expected a whole number, not text"),
        ("limits: {body: big}", "limits.body: expected a whole number, not text"),
        ("- a", "expected keys and values"),
        ("a: [", "line 1"),
    ],
)
def test_an_invalid_file_is_reported_by_place_and_expectation(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load(write(tmp_path, text))
    assert said in str(raised.value)


def test_an_error_names_where_the_value_came_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, "port: 1\n")
    with pytest.raises(ConfigError, match=r"^flags: port: expected"):
        load(path, flags={"port": "x"})
    with pytest.raises(ConfigError, match=r"sabir.yaml: unknown key prot: "):
        load(write(tmp_path, "prot: 1"))
    monkeypatch.setenv("SABIR_PORT", "x")
    with pytest.raises(ConfigError, match=r"^SABIR_PORT: port: expected"):
        load(write(tmp_path, "port: 1"))


def test_the_file_may_be_named_by_a_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SABIR_CONFIG", str(write(tmp_path, "port: 5\n")))
    monkeypatch.setenv("SABIR_TEST_POSTGRES", "postgresql://127.0.0.1/test")  # ours, and no key of the file
    assert load().port == 5


def test_an_invalid_agent_name_is_reported() -> None:
    with pytest.raises(ConfigError, match=r"agents\[0\]\.id: expected 1 to 64 letters, .*, not 'a b'"):
        settings_of({"agents": [{"id": "a b", "use": "echo"}]})


def test_a_misspelt_door_does_not_stay_open(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"unknown key doors.mpc: did you mean doors.mcp\?"):
        gateway_of(settings_of({"home": str(tmp_path), "sites": [], "doors": {"mpc": False}}))


def test_a_file_that_is_not_there_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        load(tmp_path / "absent.yaml")


def test_the_yaml_of_the_middleware_design_loads_unchanged(tmp_path: Path) -> None:
    settings = load(write(tmp_path, MASSGEN))
    assert [agent.id for agent in settings.agents] == ["research_agent", "analysis_agent"]
    assert settings.nlip is not None and settings.nlip.router.session_timeout_hours == 24
    assert settings.orchestrator is not None and settings.orchestrator.nlip.coordinate_via_nlip


def test_an_agent_comes_from_a_python_file_beside_the_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop_agents.py").write_text(
        "from sabir import agent\n@agent\nasync def clerk(turn):\n    'Sells things.'\n    return 'sold'\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    settings = settings_of({"agents": [{"id": "clerk2", "use": "shop_agents:clerk"}]})
    made = agent_of(settings.agents[0])
    assert (made.card.name, made.card.description) == ("clerk2", "Sells things.")


@pytest.mark.parametrize(
    ("text", "served"),
    [
        ("sample: false", ["echo", "sites"]),  # one that searches all sites is there from the start
        ("sites: []", ["echo"]),
        ("agents: [{id: shop, use: echo}]", ["shop"]),
        ("agents: [{id: a, use: echo}, {id: b, use: echo}]\norchestrator: {}", ["a", "b", "orchestrator"]),
        ("sites: [{name: shop, source: page.html}]", ["shop", "sites"]),
    ],
)
def test_echo_is_served_until_there_is_something_of_ones_own(tmp_path: Path, text: str, served: list[str]) -> None:
    file = write(tmp_path, f"{text}\nhome: {tmp_path / 'home'}\n")
    (tmp_path / "page.html").write_text("<p>bread</p>")
    assert sorted(gateway_of(load(file), file).agents) == served


def test_an_agent_is_looked_for_beside_its_file_before_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("some where", "here"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "stall_agents.py").write_text(
            f"from sabir import agent\n@agent\nasync def clerk(turn):\n    'Sells things {folder}.'\n    return 'x'\n"
        )
    (tmp_path / "here" / "only_here.py").write_text("from stall_agents import clerk\n")
    file = tmp_path / "some where" / "a.yaml"
    entries = "[{id: clerk, use: 'stall_agents:clerk'}, {id: other, use: 'only_here:clerk'}]"
    file.write_text(f"home: {tmp_path / 'home'}\nagents: {entries}\n")
    monkeypatch.chdir(tmp_path / "here")
    before = sys.path[:]
    made = gateway_of(load(file), file).agents
    assert [made[name].card.description for name in ("clerk", "other")] == ["Sells things some where."] * 2
    assert sys.path == before
    sys.modules.pop("stall_agents")
    sys.modules.pop("only_here")


def test_where_an_agent_was_looked_for_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    file = tmp_path / "a.yaml"
    file.write_text("agents: [{id: clerk, use: 'no_such_shop:clerk'}]\n")
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(ConfigError) as raised:
        gateway_of(load(file), file)
    assert str(raised.value) == (
        f"{file}: agents: 'clerk': cannot import no_such_shop:clerk: No module named 'no_such_shop'; "
        f"looked in {tmp_path}, in {tmp_path / 'here'} and among the installed packages"
    )


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"id": "a"}, "needs exactly one of"),
        ({"id": "a", "use": "echo", "peer": "http://x"}, "needs exactly one of"),
        ({"id": "a", "use": "nonsense"}, "expected module:name or one of echo"),
        ({"id": "a", "use": "json:dumps"}, "is not an agent; decorate it with @agent"),
        ({"id": "a", "use": "no_such_module_here:x"}, "cannot import"),
    ],
)
def test_an_agent_that_cannot_be_made_says_why(entry: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError) as raised:
        agent_of(settings_of({"agents": [entry]}).agents[0])
    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SABIR_STORE", "memory:"),
        ("SABIR_BUS", "memory:"),
        ("SABIR_PUBLIC_URL", "https://a.example"),
        ("SABIR_HOST", "::"),
    ],
)
def test_an_address_in_a_variable_stays_text_though_it_looks_like_a_key(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    assert getattr(load(None), name.removeprefix("SABIR_").lower()) == value


def test_an_object_in_a_variable_is_written_in_braces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SABIR_QUOTAS", "{burst: 5, turn_seconds: 7}")
    quotas = load(None).quotas
    assert (quotas.burst, quotas.turn_seconds) == (5, 7)
