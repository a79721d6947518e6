import os

from aiohttp import web


async def home(request):
    return web.Response(text="hello")


app = web.Application()
app.add_routes([web.get("/", home)])
web.run_app(app, host="::1", port=int(os.environ.get("PORT", "8080")))
