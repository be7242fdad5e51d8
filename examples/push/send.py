"""Send a file of CloudEvents, signed as Standard Webhooks asks for: python send.py URL FILE"""

import hashlib
import os
import sys
import urllib.error
import urllib.request
from datetime import UTC, datetime
from pathlib import Path

from standardwebhooks.webhooks import Webhook

url, file = sys.argv[1:]
body = Path(file).read_text()
mode = "cloudevents-batch" if body.startswith("[") else "cloudevents"
id = "msg_" + hashlib.sha256(body.encode()).hexdigest()[:16]
now = datetime.now(UTC)
request = urllib.request.Request(
    url,
    data=body.encode(),
    headers={
        "Content-Type": f"application/{mode}+json",
        "webhook-id": id,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": Webhook(os.environ["EVENTS_SECRET"]).sign(id, now, body),
    },
)
try:
    with urllib.request.urlopen(request, timeout=30) as answer:
        print(answer.status, answer.read().decode())
except urllib.error.HTTPError as refused:
    print(refused.code, refused.read().decode())
    sys.exit(1)
