request = Nginx::Request.new
query = {}
request.args.to_s.split("&").each { |pair| key, value = pair.split("=", 2); query[key] = value }
begin
  a, b = Integer(query["a"]), Integer(query["b"])
  body = "<html><body><p>Hello {{ mark }}!</p><p>PATH=#{request.uri}</p><p>RESULT: #{a}*#{b}=#{a * b}</p></body></html>\n"
  request.content_type = "text/html"
  Nginx.rputs body
  Nginx.return Nginx::HTTP_OK
rescue ArgumentError, TypeError
  Nginx.return Nginx::HTTP_BAD_REQUEST
end
