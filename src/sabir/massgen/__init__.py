"""The public names of the MassGen design, at its paths, implemented with the parts of Sabir.

Code written for the design runs if ``massgen`` is replaced by ``sabir.massgen`` (``docs/massgen.md``).
"""

from .agent_config import AgentConfig
from .chat_agent import ChatAgent, ConfigurableAgent
from .orchestrator import Orchestrator
from .stream_chunk import StreamChunk

__all__ = ["AgentConfig", "ChatAgent", "ConfigurableAgent", "Orchestrator", "StreamChunk"]
