"""``python -IS forked.py SOCKET SCRIPT ARGUMENT…`` is that script, by way of the nursery that listens there."""

import json
import os
import socket
import sys

with socket.socket(socket.AF_UNIX) as nursery:
    nursery.connect(sys.argv[1])
    said = json.dumps({"arguments": sys.argv[2:], "folder": os.getcwd()}).encode()
    socket.send_fds(nursery, [said], [0, 1, 2])
    for stream in (0, 1):
        os.close(stream)  # they are the fork's: who reads from it hears of its end
    nursery.recv(1)
