request = Nginx::Request.new
request.content_type = "text/plain" # it sends none of its own
request.headers_out["Content-Length"] = "12"
Nginx.rputs "hello world\n"
Nginx.return Nginx::HTTP_OK
