"""An etcd's endpoint that does what it is asked, and whose answers to the first writes are lost."""

import http.server
import threading
import urllib.request


class LosingEtcd:
    def __init__(self, case, etcd, losses):
        self.left = losses

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(handler):  # the base's name
                body = handler.rfile.read(int(handler.headers["Content-Length"]))
                request = urllib.request.Request(f"{etcd.members[0].url}{handler.path}", body)
                with urllib.request.urlopen(request, timeout=10) as reply:
                    text = reply.read()
                if b"request_put" in body and self.left > 0:
                    self.left -= 1
                    handler.close_connection = True
                    return
                handler.send_response(200)
                handler.send_header("Content-Length", str(len(text)))
                handler.end_headers()
                handler.wfile.write(text)

            def log_message(handler, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        self.endpoints = f"http://127.0.0.1:{server.server_port}"
        case.addCleanup(server.server_close)
        case.addCleanup(server.shutdown)
        threading.Thread(target=server.serve_forever, daemon=True).start()
