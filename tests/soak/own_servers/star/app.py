import uuid
from datetime import UTC, datetime

from litestar import Litestar, get


@get("/status")
async def status() -> dict:
    return {"ok": True, "at": datetime.now(UTC).isoformat(), "requestId": str(uuid.uuid4()), "version": 3}


app = Litestar([status])
