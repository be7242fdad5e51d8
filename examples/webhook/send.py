"""Send one order, signed as Standard Webhooks asks for: python send.py URL ID BODY"""

import os
import sys
import urllib.error
import urllib.request
from datetime import UTC, datetime

from standardwebhooks.webhooks import Webhook

url, id, body = sys.argv[1:]
now = datetime.now(UTC)
request = urllib.request.Request(
    url,
    data=body.encode(),
    headers={
        "Content-Type": "application/json",
        "webhook-id": id,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": Webhook(os.environ["ORDERS_SECRET"]).sign(id, now, body),
    },
)
try:
    with urllib.request.urlopen(request, timeout=30) as answer:
        print(answer.status, answer.read().decode())
except urllib.error.HTTPError as refused:
    print(refused.code, refused.read().decode())
    sys.exit(1)
