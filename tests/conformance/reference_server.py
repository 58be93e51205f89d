"""An ordinary application on nlip-server: answers each message with a text of its own. Runs in its environment."""

import logging
import sys

import uvicorn
from nlip_sdk.nlip import NLIP_Factory, NLIP_Message
from nlip_server.server import NLIP_Session, SafeApplication, create_app


class Session(NLIP_Session):
    async def execute(self, msg: NLIP_Message) -> NLIP_Message:
        return NLIP_Factory.create_text(f"I heard a message of format {msg.format}")


class Application(SafeApplication):
    def create_session(self) -> NLIP_Session:
        session = Session()
        session.set_correlator()
        return session


logging.disable(logging.CRITICAL)
uvicorn.run(create_app(Application()), host="127.0.0.1", port=int(sys.argv[1]), log_level="critical", access_log=False)
