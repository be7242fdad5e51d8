"""A stream to try with: each line of trades.jsonl is an event, its id the number of the line.

python feed.py [PORT]
"""

import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

TRADES = Path(__file__).with_name("trades.jsonl")


class Feed(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        # What the client has seen it does not want again: this is all that going on takes.
        sent = int(self.headers.get("Last-Event-ID", 0))
        try:
            while True:
                lines = TRADES.read_text().splitlines()
                for number, line in enumerate(lines[sent:], start=sent + 1):
                    self.wfile.write(f"id: {number}\nevent: trade\ndata: {line}\n\n".encode())
                sent = max(sent, len(lines))
                self.wfile.write(b": still here\n\n")
                time.sleep(0.2)
        except OSError:
            pass  # the client has gone


port = int(sys.argv[1]) if sys.argv[1:] else 8422
with ThreadingHTTPServer(("127.0.0.1", port), Feed) as server:
    print(f"http://127.0.0.1:{server.server_port}/trades", flush=True)
    server.serve_forever()
