"""The addresses under `/v1`."""

from __future__ import annotations

from fastapi import APIRouter, Depends

from headgate.server.tokens import BEARER

from . import changes
from .asked import only_known

router = APIRouter(prefix="/v1", dependencies=[Depends(BEARER), Depends(only_known)])
router.include_router(changes.router)
