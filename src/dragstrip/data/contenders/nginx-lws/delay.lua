-- Blocks a thread of the pool.
require("socket").sleep(request.uri:match("/delay/(%d+)") / 1000)
response.headers["Content-Type"] = "text/plain"
response.headers["Content-Length"] = "2"
response.body:write("ok")
