"""The echo server that comes with nlip-server. Runs in its environment."""

import logging
import sys

import uvicorn
from nlip_server.echo import app

logging.disable(logging.CRITICAL)
uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="critical", access_log=False)
