"""A meaningless value ends the start with one line: where it is, and what was expected."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from sabir.cli.main import BAD_USAGE
from sabir.config.build import gateway_of
from sabir.config.load import load, settings_of
from sabir.config.schema import schema
from sabir.config.settings import Settings
from sabir.config.validate import EXPECTED, at, check
from sabir.errors import ConfigError

ISSUER = "issuer: 'https://id.example.com', audience: [a]"

BUSES = "memory:, store:, nats://host:port, sqlite:///path or postgresql://host/database"

WRONG = [
    # what fails open if it is taken
    ("outbound: {deny: [notacidr/99]}", "outbound.deny[0]: expected a host, host:port, an address or a network "),
    ("outbound: {deny: ['a.example:99999']}", "outbound.deny[0]: expected a host"),
    ("outbound: {allow: ['http://x']}", "outbound.allow[0]: expected a host"),
    ("outbound: {schemes: [ftp]}", "outbound.schemes[0]: expected http, https, ws or wss, not 'ftp'"),
    ("outbound: {schemes: []}", "outbound.schemes: expected at least one of http, https, ws, wss; it is empty"),
    ("outbound: {ports: [0]}", "outbound.ports[0]: expected a number from 1 to 65535, not 0"),
    ("policies: [{kind: privcy, text: x}]", "policies[0].kind: expected privacy, retention, regulatory, "),
    ("policies: [{kind: privacy, text: ''}]", "policies[0].text: expected what the policy says; it is empty"),
    ("policies: [{kind: privacy, text: x, requird: true}]", "unknown key policies[0].requird: did you mean polic"),
    ("audit: {days: -1}", "audit.days: expected a number above 0, not -1.0"),
    ("audit: {days: .nan}", "audit.days: expected a number, not nan"),
    ("observe: {sample: 7}", "observe.sample: expected a share from 0 to 1, not 7.0"),
    ("observe: {traces: not a url}", "observe.traces: expected an OTLP/HTTP address such as http://127.0.0.1:4318/"),
    ("identity: {issuers: [{issuer: 'http://id.example.com', audience: [a]}]}",
     "identity.issuers[0].issuer: expected an https address (plain http is for this machine alone), not 'http://id"),
    (f"identity: {{issuers: [{{{ISSUER}, jwks: x}}]}}", "identity.issuers[0].jwks: expected an https address"),
    (f"identity: {{issuers: [{{{ISSUER}, keys: {{}}}}]}}", "identity.issuers[0].keys: expected a JSON Web Key Set"),
    (f"identity: {{issuers: [{{{ISSUER}, leeway: -1}}]}}", "identity.issuers[0].leeway: expected a number from 0 up"),
    (f"identity: {{issuers: [{{{ISSUER}, algorithms: [none]}}]}}", "identity.issuers[0].algorithms: expected some of"),
    (f"identity: {{issuers: [{{{ISSUER}}}, {{{ISSUER}}}]}}", "identity.issuers[1]: 'https://id.example.com' is a "),
    ("identity: {pass_seconds: 0}", "identity.pass_seconds: expected a number above 0, not 0.0"),
    ("identity: {certificates: {CN=x: 5}}", "identity.certificates.CN=x: expected a list, not a whole number"),
    ("rights: [{roles: []}]", "rights[0].roles: expected at least one role; it is empty"),
    ("rights: [{roles: [a], agents: []}]", "rights[0].agents: expected at least one name; '*' means all"),
    ("rights: [{agents: [x]}]", "rights[0]: the required key roles is missing"),
    ("services: [{origin: x, token: a}]", "services[0].origin: expected a URL such as https://api.example.com"),
    ("services: [{origin: 'https://x'}]", "services[0]: 'https://x' needs exactly one of token, key or token_url"),
    ("services: [{origin: 'https://x', token: a, exchange: true}]", "services[0].exchange: requires token_url"),
    ("services: [{origin: 'https://x', token_url: 'http://y.example', client: a}]", "services[0].token_url: expected"),
    ("services: [{origin: 'https://x', key: a, header: 'a b'}]", "services[0].header: expected the name of a header"),
    ("secrets: []", "secrets: expected at least one; without the key, one is made and kept in home; it is empty"),
    ("secrets: ['']", "secrets[0]: expected env:NAME, or 32 characters or more; `openssl rand -hex 32` makes one"),
    ("secrets: ['…']", "secrets[0]: expected env:NAME, or 32 characters or more"),
    ("secrets: ['env:']", "secrets[0]: expected env:NAME, or 32 characters or more"),
    ("doors: {mcp: 'false'}", "doors.mcp: expected false, true or settings, not 'false'"),
    ("doors: {mcp: }", "doors.mcp: expected false, true or settings, not None"),
    ("doors: {web: {strict: true}}", "doors.web: expected true or false; it has no settings"),
    ("doors: {a2a: {push: {deny: [notacidr/99]}}}", "doors.a2a.push.deny[0]: expected a host, host:port, an "),
    ("tls: {client_ca: x}", "tls.client_ca: requires tls.cert or tls.dev"),
    ("tls: {minimum: '1.1'}", "tls.minimum: expected 1.3 or 1.2, not '1.1'"),
    ("tls: {minimum: 1.2}", "tls.minimum: expected text, not a number; write it in quotes"),
    ("security: {profile: 7}", "security.profile: expected 1, 2 or 3, not 7"),
    ("agents: [{id: a, peer: 'http://x', remembers: false}]", "agents[0].remembers: requires use or backend"),
    # what never fits
    ("hosts: ['https://x']", "hosts[0]: expected a name or an address, without scheme, port or path, not 'https://x'"),
    ("hosts: ['x.example:80']", "hosts[0]: expected a name or an address"),
    ("origins: [app.example.com]", "origins[0]: expected an origin such as https://app.example.com, or '*', not 'app."),
    ("public_url: agents.example.com", "public_url: expected an address such as https://agents.example.com, not "),
    ("durability: disk", "durability: expected process or power, not 'disk'"),
    ("port: 99999", "port: expected a number from 0 to 65535, not 99999"),
    ("host: ''", "host: expected an address to listen on; it is empty"),
    ("node: a b", "node: expected 1 to 64 letters, digits, dots, hyphens or underscores, not 'a b'"),
    ("graceful_seconds: .inf", "graceful_seconds: expected a number, not inf"),
    ("quotas: {daily_turns: -1}", "quotas.daily_turns: expected a number from 0 up, not -1"),
    ("quotas: {turn_seconds: 0}", "quotas.turn_seconds: expected a number above 0, not 0.0"),
    ("quotas:", "quotas: expected a mapping, not nothing"),
    ("tasks: {look: 30}", "tasks: look must be shorter than lease, and lease at most 3600 seconds"),
    ("tasks: {running: 0}", "tasks.running: expected a number from 1 up, not 0"),
    ("uploads: {seconds: 0}", "uploads.seconds: expected a number above 0, not 0.0"),
    ("store: postgres", "store: expected memory:, sqlite:///path or postgresql://host/database, not 'postgres'"),
    ("store: 'postgresql://u:secret@h:abc/x'", "store: expected memory:, sqlite:///path or postgresql://host/database,"),
    ("bus: 'nats://'", f"bus: expected {BUSES}, not 'nats://'"),
    ("bus: 'nats://a:4222,b:abc'", f"bus: expected {BUSES}, not 'nats://a:4222,b:abc'"),
    ("sites: [{name: 'a b'}]", "sites[0].name: expected 1 to 64 letters"),
    ("search: {embeddings: {url: x, model: y}}", "search.embeddings.url: expected an http or https address"),
    ("search: {index: 'mysql://u:secret@x'}", "search.index: expected postgresql://host/database, not 'mysql://x'"),
    ("agents: [{id: a, use: echo, protocol: nlip}]", "agents[0].protocol: requires peer"),
    ("agents: [{id: a, use: echo}, {id: a, use: echo}]", "agents[1]: 'a' is a duplicate"),
    ("agents: {a: {use: echo}}", "agents: expected a list, not a mapping"),
    ("agents: [{id: a, backend: {model: x, seconds: -1}}]", "agents[0].backend.seconds: expected a number above 0"),
    ("gateways: {shop: {url: 'http://x', refresh: 0}, b: 'http://y'}",
     "gateways.shop.refresh: expected a number above 0"),
    ("gateways: {shop: {url: 'http://x', only: []}}", "gateways.shop.only: expected at least one name"),
    ("log: {level: loud}", "log.level: expected debug, info, warning, error or critical, not 'loud'"),
    ("filters: pii", "filters: expected a list, not text"),
    ("port: 1\nport: 2", "line 2, column 1: duplicate key 'port'"),
    ("agents: [\n", "line 2, column 1: not valid YAML: the file ends inside a list or a mapping; is a bracket"),
    ('host: "x', "line 1, column 9: not valid YAML: the file ends inside a quoted text; is a quotation mark"),
    ("port:\t80", "line 1, column 6: not valid YAML: a tab; use spaces instead"),
    ("agents:\n- id: a\n use: x", "line 3, column 2: not valid YAML: this line is not indented like the lines above"),
    ("port: 1\n  host: x", "line 2, column 7: not valid YAML: mapping values are not allowed here"),
    ("quotas: {burst: 5, burst: 6}", "line 1, column 20: duplicate key 'burst'"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "said"), WRONG, ids=[text for text, _ in WRONG])
def test_an_invalid_value_is_reported_by_place_and_expectation(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "a file.yaml").write_text(text)
    with pytest.raises(ConfigError) as raised:
        load(tmp_path / "a file.yaml")
    answer = str(raised.value)
    assert answer.startswith(f"{tmp_path / 'a file.yaml'}: {said}")
    assert "\n" not in answer and "secret@" not in answer


def test_the_defaults_meet_their_own_expectations() -> None:
    check(Settings())


def test_every_place_of_which_something_is_expected_is_a_key() -> None:
    """A row of the table that no setting has would check nothing."""
    full = settings_of(
        {
            "agents": [{"id": "a", "backend": {"model": "m", "temperature": 1, "max_tokens": 1}}],
            "gateways": {"g": {"url": "http://x"}},
            "sites": [{"name": "s", "source": "x"}],
            "search": {"index": "postgresql://x", "embeddings": {"url": "http://x", "model": "m", "size": 3}},
            "identity": {
                "issuers": [
                    {
                        "issuer": "https://x",
                        "audience": ["a"],
                        "jwks": "https://x",
                        "keys": {"keys": [{}]},
                        "roles": ["r"],
                        "longest_life": 1,
                    }
                ],
                "certificates": {"CN=x": ["r"]},
                "scopes": ["s"],
            },
            "rights": [{"roles": ["r"]}],
            "outbound": {"allow": ["x"], "deny": ["y"], "ports": [1]},
            "services": [{"origin": "https://x", "token_url": "https://y", "client": "c"}],
            "audit": {"days": 1, "redact": ["caller"]},
            "observe": {"traces": "http://x"},
            "secrets": ["0123456789abcdef" * 2],
            "security": {"profile": 1},
            "policies": [{"kind": "privacy", "text": "x"}],
            "doors": {"mcp": False},
            "store": "memory:",
            "bus": "memory:",
            "public_url": "http://x",
            "default": "a",
            "hosts": ["x"],
            "origins": ["http://x"],
            "quotas": {"conversations": 1},
        }
    )
    apart = {"agents[].use", "agents[].peer"}  # one agent is one of three things
    assert [where for where, _, _ in EXPECTED if where not in apart and not list(at(full, where))] == []


def test_an_error_from_a_variable_names_the_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SABIR_HOST", "localhost")
    for name, value, said in (
        ("SABIR_QUOTAS__BURST", "0", "quotas.burst: expected"),
        ("SABIR_PROT", "1", "unknown key prot: did you mean port?"),
        ("SABIR_RIGHTS", "[{roles: []}]", "rights[0].roles: expected at least one role"),
        ("SABIR_TASKS__LOOK", "30", "tasks: look must be"),
        ("SABIR_LOG__LEVEL", "loud", "log.level: expected debug, info, "),
    ):
        with monkeypatch.context() as only:
            only.setenv(name, value)
            with pytest.raises(ConfigError) as raised:
                load()
            assert str(raised.value).startswith(f"{name}: {said}")


def test_a_file_that_is_not_text_is_reported(tmp_path: Path) -> None:
    (tmp_path / "sabir.yaml").write_bytes(b"port: \xff\xfe")
    with pytest.raises(ConfigError, match="expected UTF-8; byte 6 is not"):
        load(tmp_path / "sabir.yaml")


# -- what only a gateway that starts can know -------------------------------------------------------


def started(tmp_path: Path, text: str) -> Any:
    return gateway_of(settings_of({"home": str(tmp_path), "sites": [], **yaml.safe_load(text)}))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("rights: [{roles: [admin], doors: [nlipp]}]", "rights[0].doors: there is no door 'nlipp'; did you mean nlip-"),
        ("rights: [{roles: [admin], doors: [mcp, 'x*']}]", "rights[0].doors: there is no door 'x*'; choose from a2a, "),
        (
            "agents: [{id: a, backend: {model: m, api_key: 'env:NOSUCH'}}]",
            "agents[0].backend.api_key: expected the env",
        ),
        ("agents: [{id: a, backend: {model: m, api_key_env: NOSUCH}}]", "agents[0].backend.api_key_env: expected the"),
        ("rights: [{roles: [admin], agents: [eco]}]", "rights[0].agents: there is no agent 'eco'; did you mean echo?"),
        ("rights: [{roles: [admin], agents: [nosuchagent]}]", "rights[0].agents: there is no agent 'nosuchagent'; cho"),
        (
            "services: [{origin: 'https://x', token: 'env:NOSUCH'}]",
            "services[0].token: expected the environment variab",
        ),
        (
            "services: [{origin: 'https://x', token_url: 'https://y', client: c, secret: 'env:NOSUCH'}]",
            "services[0].sec",
        ),
    ],
)
def test_what_does_not_fit_ends_the_start(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError) as raised:
        started(tmp_path, text)
    assert str(raised.value).startswith(said)


def test_rules_about_doors_and_agents_that_there_are_are_taken(tmp_path: Path) -> None:
    text = "{rights: [{roles: [a], agents: [echo, 'e*'], doors: ['nlip-*', a2a, nlip-amqp, mcp]}], doors: {mcp: false}}"
    assert "echo" in started(tmp_path, text).agents


@pytest.mark.parametrize("more", ["bus: 'memory:'", "gateways: {far: 'http://127.0.0.1:9'}"])
def test_an_agent_that_may_live_elsewhere_is_a_warning(
    tmp_path: Path, more: str, caplog: pytest.LogCaptureFixture
) -> None:
    tmp_path.chmod(0o700)
    with caplog.at_level(logging.WARNING, "sabir"):
        started(tmp_path, f"{more}\nrights: [{{roles: [admin], agents: [far-clerk, echo]}}]")
    assert [record.getMessage() for record in caplog.records] == [
        "rights[0].agents: there is no agent 'far-clerk' here; it may run on another node or gateway"
    ]
    with pytest.raises(ConfigError, match="there is no door 'nlipp'"):
        started(tmp_path, f"{more}\nrights: [{{roles: [admin], doors: [nlipp]}}]")


def test_a_door_set_to_true_keeps_its_defaults(tmp_path: Path) -> None:
    made = started(tmp_path, "{observe: {metrics: true}, doors: {metrics: true, web: true}}")
    assert ("Metrics", "/metrics") in [row for door in made.doors for row in door.addresses()]


def test_a_model_remembers_as_configured(tmp_path: Path) -> None:
    made = started(tmp_path, "agents: [{id: a, backend: {type: ollama, model: x}, remembers: false}]")
    assert made.agents["a"].card.remembers is False


def test_the_command_ends_with_one_line(tmp_path: Path) -> None:
    (tmp_path / "sabir.yaml").write_text("rights: [{roles: [admin], agents: [echo], doors: [nlipp]}]\n")
    command = [sys.executable, "-m", "sabir", "serve", "--port", "0"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=600, check=False)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (BAD_USAGE, "", 1)
    assert done.stderr.startswith("sabir: sabir.yaml: rights[0].doors: there is no door 'nlipp'")


def test_the_schema_says_which_levels_there_are() -> None:
    answer = msgspec.json.schema(Settings)["$defs"]["Log"]["properties"]["level"]
    assert "warning" in answer["pattern"]


BOUNDS = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "enum"}


def unbounded(root: dict[str, Any], node: dict[str, Any], place: str, seen: frozenset[str]) -> Iterator[str]:
    """The places of numbers in a schema that have no bounds."""
    if "$ref" in node:
        name = node["$ref"].rpartition("/")[2]
        if name in seen:
            return
        node, seen = root["$defs"][name], seen | {name}
    if node.get("type") in ("integer", "number") and not BOUNDS & set(node):
        yield place
    inner = [(f"{place}.{name}", value) for name, value in node.get("properties", {}).items()]
    inner += [(place, choice) for choice in node.get("anyOf", ())]
    inner += [(f"{place}[]", node.get("items")), (f"{place}{{}}", node.get("additionalProperties"))]
    for where, value in inner:
        if isinstance(value, dict):
            yield from unbounded(root, value, where, seen)


def test_every_number_in_the_schema_has_bounds() -> None:
    made = schema()
    assert list(unbounded(made, made, "", frozenset())) == []


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("tasks: {lease: 0}", "tasks.lease"),
        ("tasks: {lease: 3601}", "tasks.lease"),
        ("tasks: {look: -1}", "tasks.look"),
        ("agents: [{id: a, backend: {type: mock, model: m, price: {input: -1}}}]", "agents[0].backend.price.input"),
        ("agents: [{id: a, backend: {type: mock, model: m, price: {per: 0}}}]", "agents[0].backend.price.per"),
        ("agents: [{id: a, federation: {members: [b], seconds: 0}}]", "agents[0].federation.seconds"),
        ("agents: [{id: a, federation: {members: [b], seconds: {b: 0}}}]", "agents[0].federation.seconds.b"),
        ("agents: [{id: a, federation: {members: [b], seconds: {b: x}}}]", "agents[0].federation.seconds.b"),
    ],
)
def test_a_number_out_of_its_bounds_is_rejected_by_its_place(tmp_path: Path, text: str, place: str) -> None:
    with pytest.raises(ConfigError) as raised:
        started(tmp_path, text)
    assert str(raised.value).startswith(f"settings: {place}: expected ")


BUILT = [
    ("doors: {mpc: false}", "unknown key doors.mpc"),
    ("filters: [pi]", "filters[0]: there is no filter 'pi'"),
    ("default: nope\nagents: [{id: a, use: echo}]", "default: there is no agent 'nope'"),
    ("agents: [{id: a, use: 'no_such_module:x'}]", "agents: 'a': cannot import"),
    ("agents: [{id: a, federation: {members: [b]}}]", "agents: 'a': there is no agent 'b'"),
    ("agents: [{id: both, federation: {members: [bob]}}]", "agents: 'both': there is no agent 'bob'\n"),
    ("agents: [{id: a, peer: 'htp//x'}]", "agents: 'a': peer: 'htp//x': expected an address with a scheme"),
    ("agents: [{id: a, peer: 'gopher://x'}]", "agents: 'a': peer: 'gopher://x': unsupported URL scheme"),
    ("agents: [{id: a, peer: 'ws://x', protocol: a2a}]", "agents: 'a': peer: a2a is not spoken over ws"),
    ("agents: [{id: a, backend: {type: mock, script: [{sey: x}]}}]", "agents: 'a': backend.script: expected text"),
    (
        "agents: [{id: a, backend: {type: openai, model: x, base_url: x}}]",
        "agents: 'a': backend.base_url: expected a URL such as",
    ),
    (
        "agents: [{id: p, ensemble: {members: [a]}}, {id: a, peer: 'htp//x'}]",
        "agents: 'a': peer: 'htp//x': expected an address with a scheme",
    ),
    ("agents: [{id: a, use: 'bazaar.py:x'}]", "agents: 'a': cannot import bazaar.py:x: No module named 'bazaar"),
    ("rights: [{roles: [x], doors: [nlipp]}]", "rights[0].doors: there is no door 'nlipp'"),
    ("encryption: {key: 'env:NO_SUCH_KEY'}", "encryption.key: the environment variable NO_SUCH_KEY is not set"),
]


@pytest.mark.parametrize(("text", "said"), BUILT, ids=[text for text, _ in BUILT])
def test_an_error_in_building_the_gateway_names_the_file(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "sabir.yaml"
    file.write_text(f"{text}\nhome: {tmp_path / 'home'}\n")
    with pytest.raises(ConfigError) as raised:
        gateway_of(load(file), file)
    assert f"{raised.value}\n".startswith(f"{file}: {said}")


@pytest.mark.parametrize("use", ["trinkets.py:price", "src/trinkets.py:price"])
@pytest.mark.parametrize("entry", ["use: '{}'", "backend: {{type: mock}}, tools: ['{}']"])
def test_a_file_in_place_of_a_module_is_reported_with_the_right_form(tmp_path: Path, use: str, entry: str) -> None:
    (tmp_path / "trinkets.py").write_text("price = 5\n")
    file = tmp_path / "sabir.yaml"
    file.write_text(f"agents: [{{id: a, {entry.format(use)}}}]\nhome: {tmp_path / 'home'}\n")
    with pytest.raises(ConfigError, match=r"expected a module without \.py and folders, such as trinkets:price$"):
        gateway_of(load(file), file)
    sys.modules.pop("trinkets", None)


def test_the_file_is_not_named_for_what_a_variable_has_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "sabir.yaml"
    file.write_text(f"agents: [{{id: a, use: echo}}]\nhome: {tmp_path / 'home'}\n")
    monkeypatch.setenv("SABIR_DEFAULT", "nope")
    with pytest.raises(ConfigError, match=r"^default: there is no agent 'nope'"):
        gateway_of(load(file), file)
