import asyncio
import os
import uuid
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from fastapi import FastAPI
from pydantic import BaseModel


@asynccontextmanager
async def lifespan(app):
    await asyncio.sleep(float(os.environ.get("LOADING_S", "0")))
    yield


app = FastAPI(lifespan=lifespan)


class Order(BaseModel):
    item: str


@app.get("/status")
async def status():
    return {"ok": True, "at": datetime.now(UTC).isoformat(), "requestId": str(uuid.uuid4()), "version": 3}


@app.post("/orders", status_code=201)
async def create(order: Order):
    return {"item": order.item, "state": "new"}
