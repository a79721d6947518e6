import os

from sanic import Sanic, json

app = Sanic("orders")


@app.get("/")
async def home(request):
    return json({"hello": "world"})


if __name__ == "__main__":
    app.run(host="127.0.0.1", port=int(os.environ.get("PORT", "8000")))
