import os

from aiohttp import web


async def home(request):
    return web.json_response({"hello": "world"})


app = web.Application()
app.add_routes([web.get("/", home)])
web.run_app(app, host=os.environ.get("BIND", "127.0.0.1"), port=int(os.environ.get("PORT", "8080")))
