"""`hg.IdempotencyMiddleware`: the way of a request.

    app = FastAPI()
    app.add_middleware(hg.IdempotencyMiddleware, name="shop")

A request with an `Idempotency-Key` is an operation (`hg.operation`): its key is the caller's and
the header's, its payload is the fingerprint of the request, its result is the answer. The app finds
it as `request.state.operation`, and what it does in `operation.tx` is committed with the answer, or
not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import AsyncExitStack
from typing import Any

from headgate.errors import UsageError
from headgate.library.operation import Operation, operation
from headgate.model.operation import LEASE_SECONDS, RESULT_BYTES

from .answer import Answer
from .kept import CODEC, REPLAYED, App, Kept, Receive, Scope, Send, give
from .refusal import Refusal, refusal_of
from .request import Disconnected, again, by_authorization, fingerprint, key_of, read_body

REQUEST_BYTES = 1024 * 1024
HEADER_BYTES = 64 * 1024
# These say "ask again": what asks again must get the app, and not what was stored.
ASK_AGAIN = frozenset({401, 408, 425, 429})
# Ways to send a body that cannot be looked at on its way.
UNSEEN = frozenset(
    {"http.response.pathsend", "http.response.zerocopysend", "http.response.trailers"}
)


def stores_by_default(status: int) -> bool:
    """Everything below 500, except what says "ask again"."""
    return status < 500 and status not in ASK_AGAIN


class IdempotencyMiddleware:
    """`Idempotency-Key` for any ASGI app. `docs/reference/idempotency-key.md` has every word."""

    def __init__(
        self,
        app: App,
        *,
        name: str = "http",
        methods: Collection[str] = ("POST", "PATCH"),
        required: bool = False,
        caller: Callable[[Scope], Any] = by_authorization,
        stores: Callable[[int], bool] = stores_by_default,
        request_bytes: int = REQUEST_BYTES,
        response_bytes: int = RESULT_BYTES,
        store: str | None = None,
        wait_seconds: float = 0.0,
        retry_after_seconds: float = 1.0,
        lease_seconds: float = LEASE_SECONDS,
        deadline_seconds: float = 3600.0,
    ) -> None:
        if isinstance(methods, str):
            raise UsageError(f"methods is {methods!r}", hint='As in methods=("POST", "PATCH").')
        self._app = app
        self._name = name
        self._methods = frozenset(method.upper() for method in methods)
        self._required = required
        self._caller = caller
        self._stores = stores
        self._request_bytes = request_bytes
        self._response_bytes = response_bytes
        self._retry_after_seconds = retry_after_seconds
        self._how: dict[str, Any] = {
            "codec": CODEC,
            "wait_seconds": wait_seconds,
            "lease_seconds": lease_seconds,
            "deadline_seconds": deadline_seconds,
            "store": store,
            "result_bytes": RESULT_BYTES if store else response_bytes + HEADER_BYTES,
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        key = body = None
        try:
            if scope["method"] in self._methods:
                key = self._key(scope)
            if key is not None:
                body = await read_body(scope, receive, self._request_bytes)
        except Refusal as refusal:
            await refusal.answer(send)
            return
        except Disconnected:
            return
        if key is None or body is None:
            await self._app(_with(scope, None), receive, send)
        else:
            await self._once(key, body, scope, again(body, receive), send)

    def _key(self, scope: Scope) -> str | None:
        key = key_of(scope)
        if key is None and self._required:
            raise Refusal("idempotency_key_needed")
        return key

    async def _once(
        self, key: str, body: bytes, scope: Scope, receive: Receive, send: Send
    ) -> None:
        begun = operation(
            self._name,
            key={"caller": self._caller(scope), "key": key},
            payload=fingerprint(scope, body),
            **self._how,
        )
        # Whatever happens in this block, the operation is left: committed by the answer's last
        # piece, or taken back.
        async with AsyncExitStack() as open_operation:
            try:
                op = await open_operation.enter_async_context(begun)
            except Exception as error:
                await self._refuse(error, send)
                return
            if op.done:
                await _replay(op.result, send)
                return
            answer = Answer(
                send,
                op,
                open_operation,
                stores=self._stores,
                limit_bytes=self._response_bytes,
            )
            try:
                await self._app(_with(scope, op), receive, answer.send)
            except Exception:
                # What could not be recorded was raised into the app; what it made of that is noise.
                if answer.failure is None:
                    raise
            if answer.failure is not None:
                await self._refuse(answer.failure, send, begun=answer.begun)
            elif not answer.whole:
                await answer.release("the app ended without a whole answer")

    async def _refuse(self, error: Exception, send: Send, *, begun: bool = False) -> None:
        refusal = refusal_of(error, self._retry_after_seconds)
        if refusal is None or begun:
            raise error
        await refusal.answer(send)


async def _replay(kept: Kept, send: Send) -> None:
    if kept.body is None:
        first = {"status": kept.status, "why": kept.why}
        await Refusal("answer_not_kept", first=first).answer(send)
    else:
        await give(send, kept.status, [*kept.headers, REPLAYED], kept.body)


def _with(scope: Scope, op: Operation | None) -> Scope:
    """The scope that the app gets: `request.state.operation`, and no way around `send`."""
    state: dict[str, Any] = {**(scope.get("state") or {}), "operation": op}
    given: dict[str, Any] = scope.get("extensions") or {}
    hidden = UNSEEN if op is not None else frozenset[str]()
    extensions = {name: value for name, value in given.items() if name not in hidden}
    return {**scope, "state": state, "extensions": extensions}
