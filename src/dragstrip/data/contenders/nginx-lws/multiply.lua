local query = lws.parseargs(request.args)
-- tonumber first: Lua 5.3 and later multiply strings as floats and would print 6.0
local a, b = tonumber(query.a), tonumber(query.b)
if not (a and b) then
  return 400
end
-- Older versions have the URI only, query and all.
local path = request.path or request.uri:match("^[^?]*")
local body = "<html><body><p>Hello {{ mark }}!</p><p>PATH=" .. path .. "</p><p>RESULT: " .. a .. "*" .. b .. "="
  .. a * b .. "</p></body></html>\n"
response.headers["Content-Type"] = "text/html"
response.headers["Content-Length"] = tostring(#body)
response.body:write(body)
