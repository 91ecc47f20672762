"""A job type's page in Python: it checks the signature, and works once for each key that is signed. Needs only Python.

PORT=8087 ORIGIN=https://billing.internal WORKED=worked.txt SECRET=whsec_... python page.py
"""

import base64
import hashlib
import hmac
import json
import os
import re
import sys
import time
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock

PORT, SECRET = int(os.environ.get("PORT", "8087")), os.environ.get("SECRET") or sys.exit("SECRET is not set")
ORIGIN = os.environ.get("ORIGIN", f"http://127.0.0.1:{PORT}")  # as callers know it: behind a proxy, the proxy's
COVERED = {"@method", "@target-uri", "content-digest", "idempotency-key", "perdure-job"}
# Yours is a table with a unique key, written in the transaction of the work. Here key and work are one line of a file.
WORKED = Path(os.environ.get("WORKED", "worked.txt")).open("a+")  # noqa: SIM115
WORKED.seek(0)
keys, lock = {line.split("\t")[0] for line in WORKED}, Lock()


def signed(method: str, target: str, headers: Message, body: bytes) -> bool:
    """RFC 9421: a signature with our secret, of the last five minutes, covers the whole request."""
    secret = base64.b64decode(SECRET.removeprefix("whsec_"))
    digest = "sha-256=:" + base64.b64encode(hashlib.sha256(body).digest()).decode() + ":"
    values = {name.lower(): ", ".join(headers.get_all(name, [])) for name in headers}
    values |= {"@method": method, "@target-uri": ORIGIN + target}
    given = dict(re.findall(r"(\w+)=:([^:]*):", headers.get("signature", "")))
    for label, params in re.findall(r"(\w+)=(\([^)]*\)[^,]*)", headers.get("signature-input", "")):
        names, made_at = re.findall(r'"([^"]+)"', params.partition(")")[0]), re.search(r";created=(\d+)", params)
        fresh = made_at and abs(time.time() - int(made_at[1])) < 300
        base = "\n".join([*(f'"{name}": {values.get(name, "")}' for name in names), f'"@signature-params": {params}'])
        ours = base64.b64encode(hmac.digest(secret, base.encode(), "sha256")).decode()
        whole = set(names) >= COVERED and values.get("content-digest") == digest
        if fresh and whole and hmac.compare_digest(ours.encode(), given.get(label, "").encode()):
            return True
    return False


class Page(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        if not signed(self.command, self.path, self.headers, body):
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

    def log_message(self, *_: object) -> None:
        """Not a line for each request."""


if __name__ == "__main__":
    ThreadingHTTPServer.request_queue_size = 128
    ThreadingHTTPServer(("127.0.0.1", PORT), Page).serve_forever()
