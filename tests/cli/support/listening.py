"""A TCP server that is no memory node."""

import contextlib
import socket
import threading


class Listening:
    """Calls `meet` with each connection.

    A connection stays open until the test ends if `meet` returns it, or nothing.
    """

    def __init__(self, case, meet):
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"tcp://127.0.0.1:{self.socket.getsockname()[1]}"
        self.meet, self.met = meet, []
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()
        case.addCleanup(self.close)

    def serve(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            self.met.append(connection)
            with contextlib.suppress(OSError):
                self.met.append(self.meet(connection) or connection)

    def close(self):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        for connection in (self.socket, *self.met):
            connection.close()
