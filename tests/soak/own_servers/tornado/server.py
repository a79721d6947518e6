import asyncio
import os

import tornado.web


class Home(tornado.web.RequestHandler):
    def get(self):
        self.write({"hello": "world"})


async def main():
    tornado.web.Application([("/", Home)]).listen(int(os.environ.get("PORT", "8888")))
    await asyncio.Event().wait()


asyncio.run(main())
