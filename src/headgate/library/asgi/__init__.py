"""`Idempotency-Key` for any ASGI app: a request counts once per key, and is answered each time.

middleware  the way of a request
request     its key, its caller, its body
answer      the app's answer, held back until its record is committed
kept        answers as they are stored
refusal     problem documents, for what is not done
"""
