-- Both workloads for mod_magnet (Lua 5.4).
local request = lighty.r
local path, header = request.req_attr["uri.path"], request.resp_header

if path == "/" then
  header["Content-Type"] = "text/plain"
  request.resp_body.set("hello world\n")
  return 200
end
if path ~= "/multiply" then
  return require("others")(request)
end
local query = request.req_attr["uri.query"] or ""
-- tonumber first: Lua 5.3 and later multiply strings as floats and would print 6.0
local a, b = tonumber(query:match("%f[%w]a=(%d+)")), tonumber(query:match("%f[%w]b=(%d+)"))
if not (a and b) then
  return 400
end
header["Content-Type"] = "text/html"
request.resp_body.set("<html><body><p>Hello {{ mark }}!</p><p>PATH=" .. path .. "</p><p>RESULT: " .. a .. "*" .. b
  .. "=" .. a * b .. "</p></body></html>\n")
return 200
