"""The reference server, ``nlweb-network`` from PyPI, on a free port of the loopback, run by an environment that has it.

The four hosted services that it needs are stood in for by classes of this file; everything else is its own code.
Prints its address and serves until it is killed.
"""

from __future__ import annotations

import socket
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml
from aiohttp import web
from nlweb_core.config import initialize_config
from nlweb_core.llm import GenerativeLLMProvider
from nlweb_core.retrieved_item import RetrievedItem
from nlweb_core.retriever import ObjectLookupProvider, RetrievalProvider
from nlweb_core.scoring import ScoringLLMProvider
from nlweb_network.server import create_app

RECIPES = [
    {"@type": "Recipe", "@id": f"https://a.example/{n}", "url": f"https://a.example/{n}", "name": f"Pumpkin dish {n}"}
    for n in range(3)
]


class Retrieval(RetrievalProvider):  # type: ignore[misc]
    def __init__(self, **_: Any) -> None: ...

    async def search(self, query: str, site: Any, num_results: int = 50, **_: Any) -> list[Any]:
        return [RetrievedItem(recipe["url"], recipe, "a.example") for recipe in RECIPES]

    async def close(self) -> None: ...


class Objects(ObjectLookupProvider):  # type: ignore[misc]
    def __init__(self, **_: Any) -> None: ...

    async def get_by_id(self, object_id: str) -> dict[str, Any] | None:
        return next((recipe for recipe in RECIPES if recipe["url"] == object_id), None)

    async def close(self) -> None: ...


class Scoring(ScoringLLMProvider):  # type: ignore[misc]
    def __init__(self, **_: Any) -> None: ...

    async def score(self, questions: Any, context: Any, timeout: float = 30.0, **_: Any) -> float:
        return 80.0

    async def close(self) -> None: ...


class Words(GenerativeLLMProvider):  # type: ignore[misc]
    def __init__(self, **_: Any) -> None: ...

    async def get_completion(self, prompt: str, schema: dict[str, Any], *_: Any, **__: Any) -> dict[str, Any]:
        values = {"string": "pumpkin", "boolean": False, "integer": 0, "number": 0.0, "array": []}
        return {name: values.get(of.get("type", ""), "pumpkin") for name, of in schema.get("properties", {}).items()}

    async def close(self) -> None: ...


def provider(name: str) -> dict[str, str]:
    return {"import_path": "reference_server", "class_name": name}


CONFIG = {
    "retrieval": {"default": provider("Retrieval")},
    "object_storage": {"default": provider("Objects")},
    "scoring_model": {name: provider("Scoring") for name in ("default", "high", "low")},
    "generative_model": {name: provider("Words") for name in ("default", "high", "low")},
    "site_config": {
        name: {
            "import_path": "nlweb_core.site_config.static_site_config",
            "class_name": "StaticSiteConfigLookup",
            "sites": {},
        }
        for name in ("default", "handler", "prompts")
    },
}

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    folder = Path(tempfile.mkdtemp())
    (folder / "config.yaml").write_text(yaml.safe_dump(CONFIG))
    initialize_config(config_path=folder / "config.yaml")
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    web.run_app(create_app(), sock=listener, print=None)
