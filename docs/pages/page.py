"""A job type's page in Python: it works once for each Idempotency-Key. Needs nothing but Python.

PORT=8087 WORKED=worked.txt SECRET=whsec_... python page.py
"""

import base64
import hmac
import json
import os
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock

SECRET = os.environ.get("SECRET", "")
# Yours is a table with a unique key, written in the transaction of the work. Here key and work are one line of a file.
WORKED = Path(os.environ.get("WORKED", "worked.txt")).open("a+")  # noqa: SIM115
WORKED.seek(0)
keys, lock = {line.split("\t")[0] for line in WORKED}, Lock()


def signed(headers, body: bytes) -> bool:
    """Standard Webhooks: one of the signatures is ours, and it was made within the last five minutes."""
    number, made_at = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "0")
    secret = base64.b64decode(SECRET.removeprefix("whsec_"))
    mac = hmac.digest(secret, f"{number}.{made_at}.".encode() + body, "sha256")
    ours = "v1," + base64.b64encode(mac).decode()
    given = headers.get("webhook-signature", "").split()
    return abs(time.time() - int(made_at)) < 300 and any(hmac.compare_digest(ours, each) for each in given)


class Page(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        if SECRET and not signed(self.headers, body):
            return self.answer(401, {"why": "wrong signature"})
        job, key = json.loads(body), self.headers["idempotency-key"]
        if not key or "invoice" not in job:
            return self.answer(422, {"why": "no key, or no invoice"})  # a definitive no: the job ends as failed
        with lock:
            if key in keys:
                print("dropped", key, flush=True)
            else:
                print(key, body.decode(), sep="\t", file=WORKED, flush=True)
                keys.add(key)
        time.sleep(job.get("seconds", 0))
        return self.answer(200, {"invoice": job["invoice"], "sent": True})

    def answer(self, status: int, body: object) -> None:
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, *_):
        """Not a line for each request."""


if __name__ == "__main__":
    ThreadingHTTPServer.request_queue_size = 128
    ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "8087"))), Page).serve_forever()
