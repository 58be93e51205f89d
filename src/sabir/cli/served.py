"""The gateway that a command serves: from a configuration file, or from the agents of a Python file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from sabir.config.app_file import is_app, load_app, path_of
from sabir.config.build import gateway_of
from sabir.config.load import file_of
from sabir.config.settings import Settings
from sabir.errors import ConfigError
from sabir.gateway.gateway import Gateway


@dataclass(frozen=True, slots=True)
class GatewaySource:
    """The source of a gateway."""

    given: Path | None  # as given: a file, optionally with the name of an object
    file: Path | str | None  # the configuration to load; None: the defaults

    @property
    def folder(self) -> Path | None:
        """The folder of the file."""
        if self.given is None:
            return None
        return path_of(str(self.given)).parent if is_app(str(self.given)) else self.given.parent

    def gateway(self, settings: Settings, flags: Mapping[str, object]) -> Gateway:
        """Build the gateway; the agents of a Python file replace those in the settings.

        Args:
            flags: the given options, by name, that a gateway made in Python would ignore.

        Raises:
            ConfigError: the file, a setting or a flag is invalid; says which.
        """
        if self.given is None or not is_app(str(self.given)):
            return gateway_of(settings, self.given)
        app = load_app(str(self.given), settings.home)
        if isinstance(app, Gateway):
            check_flags(str(self.given), flags)
            return app
        bare = msgspec.structs.replace(settings, agents=(), orchestrator=None, default=None, sites=(), sample=False)
        return gateway_of(bare, path_of(str(self.given)), app)


def check_flags(place: str, flags: Mapping[str, object]) -> None:
    """Reject options that a gateway made in Python would ignore.

    Raises:
        ConfigError: one was given.
    """
    given = next((name for name, value in flags.items() if value is not None), None)
    if given is not None:
        raise ConfigError(f"--{given.replace('_', '-')}: {path_of(place)} creates a Gateway; give it there")


def source_of(given: str | None) -> GatewaySource:
    """The source that an argument names: a configuration file, ``app.py``, ``app.py:name``, or none."""
    if given is not None and is_app(given):
        return GatewaySource(Path(given), file_of())  # settings for Python agents: sabir.yaml, if it exists
    found = file_of(given)
    return GatewaySource(found, found)
