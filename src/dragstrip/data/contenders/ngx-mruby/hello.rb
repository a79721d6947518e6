request = Nginx::Request.new
request.content_type = "text/plain" # it sends none of its own, but the length: a second one would stand beside it
Nginx.rputs "hello world\n"
Nginx.return Nginx::HTTP_OK
