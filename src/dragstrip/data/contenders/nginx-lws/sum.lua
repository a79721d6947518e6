local query = lws.parseargs(request.args)
local a, b, c = tonumber(query.a), tonumber(query.b), tonumber(request.body:read("a"))
if not (a and b and c) then
  return 400
end
local body = tostring(a + b + c)
response.headers["Content-Type"] = "text/plain"
response.headers["Content-Length"] = tostring(#body)
response.body:write(body)
