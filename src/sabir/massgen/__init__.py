"""The public names of the MassGen design, at the paths that it gives them, over the parts of Sabir.

Code of the design runs after ``massgen`` is replaced by ``sabir.massgen`` (``docs/massgen.md``).
"""

from .agent_config import AgentConfig
from .chat_agent import ChatAgent, ConfigurableAgent
from .orchestrator import Orchestrator
from .stream_chunk import StreamChunk

__all__ = ["AgentConfig", "ChatAgent", "ConfigurableAgent", "Orchestrator", "StreamChunk"]
