"""Has ``stub_strip.py --serve`` do a call: ``python -ISE stub_door.py SOCKET FOLDER NAME lab race --work …``.

It imports nothing that is slow. SIGINT reaches the call; if this process is killed, the call goes on.
"""

import json
import os
import signal
import socket
import sys

with socket.socket(socket.AF_UNIX) as there:
    there.connect(sys.argv[1])
    asked = {"words": sys.argv[2:], "folder": os.path.realpath("."), "environment": dict(os.environ)}
    socket.send_fds(there, [json.dumps(asked).encode()], [0, 1, 2])
    replies = there.makefile()
    called = int(replies.readline() or 0)
    signal.signal(signal.SIGINT, lambda *_: called and os.kill(called, signal.SIGINT))
    sys.exit(int(replies.readline() or 137))
