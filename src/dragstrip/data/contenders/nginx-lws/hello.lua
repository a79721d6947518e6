response.headers["Content-Type"] = "text/plain"
response.headers["Content-Length"] = "12"
response.body:write("hello world\n")
